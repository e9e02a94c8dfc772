"""The report in a real browser: it fits, it filters, and it complains of nothing."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspr import KnockoffsSPR, selfcheck
from kspr.report import Shown, write_report
from kspr.selectors.verdict import doubted_rows
from tests.report.samples import VERIFIED, Texts

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory, chosen, digits40, pictures) -> str:
    """A full page, with a label and row names that would not fit on a phone in one line."""
    path = tmp_path_factory.mktemp("browser") / "report.html"
    rows = np.array([f"photographs/{'deep/' * 12}{k:06d}.png" for k in range(len(chosen))])
    write_report(
        chosen,
        path,
        Shown(
            "An extraordinarilylongtitlewithoutanybreaks" * 2,
            row_id=rows,
            items=pictures,
            truth=chosen.label,
            run=Path("a run"),
            selfcheck=selfcheck(digits40.X, digits40.y, repeats=1),
            verification=VERIFIED,
            command="kspr select " + "x" * 300,
        ),
    )
    return path.as_uri()


@pytest.fixture
def visit(browser, report):
    """Open the report at a width; afterwards nothing may have gone wrong or left the file."""
    trouble, pages = [], []

    def _visit(width: int, scheme: str = "light", address: str = report):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda asked: _note(asked.url))
        page.goto(address)
        pages.append(page)
        return page

    def _note(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            trouble.append(url)

    yield _visit
    for page in pages:
        page.close()
    assert trouble == []


def open_all(page):
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000, 1600])
def test_nothing_is_wider_than_the_window(visit, width, scheme):
    page = open_all(visit(width, scheme))
    wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner == width


def test_cards_use_the_width_of_a_large_window(visit):
    page = visit(1600)
    boxes = page.evaluate(
        "[...document.querySelectorAll('#suspect-cards .card')].map(c => c.getBoundingClientRect())"
    )
    assert max(box["right"] for box in boxes) > 1500
    picture = page.locator("#suspect-cards .picture").first.bounding_box()
    assert 160 <= picture["width"] <= 220
    assert 160 <= picture["height"] <= 200
    assert picture["y"] == page.locator("#suspect-cards .card").first.bounding_box()["y"]


def test_text_in_figures_can_be_read_on_a_phone(visit):
    smallest = open_all(visit(360)).evaluate(
        """Math.min(...[...document.querySelectorAll('svg')].map(svg => {
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            const sizes = [...svg.querySelectorAll('text')].map(t => parseFloat(t.style.fontSize));
            return scale * Math.min(...sizes);
        }))"""
    )
    assert smallest >= 7.5


CONTRAST = """(() => {
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map(v => {
            v /= 255;
            return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
        const colour = getComputedStyle(element).backgroundColor;
        if (!/, 0\\)$|transparent/.test(colour)) return colour;
        return element.parentElement ? behind(element.parentElement) : "rgb(255, 255, 255)";
    };
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const channels = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)];
    };
    const low = [];
    for (const element of document.querySelectorAll("body *:not(svg *)")) {
        const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim());
        if (!own || !element.checkVisibility() || element.disabled) continue;
        const [a, b] = [getComputedStyle(element).color, behind(element)]
            .map(colour => luminance(channels(colour)));
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push([element.className || element.tagName, ratio]);
    }
    return low;
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_the_contrast_that_wcag_asks_for(visit, scheme):
    assert open_all(visit(1000, scheme)).evaluate(CONTRAST) == []


def test_all_pictures_have_a_text_in_their_place(visit):
    page = visit(1000)
    page.click("#more")
    texts = page.evaluate("[...document.querySelectorAll('img')].map(i => i.alt)")
    assert len(texts) > 100
    assert all(text.startswith("Row photographs/") for text in texts)


def cards(page):
    return page.locator("#suspect-cards .card")


def test_the_filters_show_what_they_say(visit, chosen):
    page = visit(1600)
    label, rows = chosen.label, doubted_rows(chosen)
    assert page.inner_text("#shown") == f"{len(rows)} of {len(rows)} suspects"
    expected = int((label[rows] == "digit 3").sum())
    page.select_option("#by-given", label=f"digit 3 ({expected})")
    assert page.inner_text("#shown") == f"{expected} of {len(rows)} suspects"
    assert set(page.locator("#suspect-cards .given").all_text_contents()) == {"digit 3"}
    page.click("#clear")
    page.check("input[name=pile][value='0']", force=True)
    unsure = int((chosen.doubt[rows] <= 0.5).sum())
    assert page.inner_text("#shown") == f"{unsure} of {len(rows)} suspects"
    page.click("#clear")
    assert page.inner_text("#shown") == f"{len(rows)} of {len(rows)} suspects"


def test_all_suspects_can_be_reached(visit, chosen):
    page = visit(1000)
    assert cards(page).count() == 28
    while page.is_visible("#more"):
        page.click("#more")
    shown = page.evaluate(
        "[...document.querySelectorAll('#suspect-cards .row-id')].map(p => p.title)"
    )
    expected = [f"photographs/{'deep/' * 12}{row:06d}.png" for row in doubted_rows(chosen)]
    assert shown == expected


def test_cards_that_are_made_later_look_like_those_of_the_page(visit):
    page = visit(1000)
    page.click("#more")
    first, later = (cards(page).nth(n).evaluate(SHAPE) for n in (3, 40))
    assert first == later


SHAPE = """card => [...card.querySelectorAll('*')]
    .filter(e => !e.closest('.labels') || e.className === 'given')
    .map(e => [e.tagName, e.className, e.hasAttribute('title')].join())"""


def test_a_cell_of_the_matrix_filters(visit, chosen):
    page = visit(1000)
    page.click(".matrix-box summary")
    button = page.locator(".matrix button").nth(5)
    given, suggested = (button.get_attribute(f"data-{name}") for name in ("given", "suggested"))
    button.click()
    rows = chosen.suspect_indices
    hit = (chosen.label[rows] == given) & (chosen.suggested_label[rows] == suggested)
    assert page.inner_text("#shown").startswith(f"{hit.sum()} of")
    assert button.inner_text() == str(hit.sum())


def test_the_search_box_finds_a_row(visit, chosen):
    page = visit(820)
    row = chosen.suspect_indices[217]
    page.fill("#by-text", f"{row:06d}.PNG")
    assert cards(page).count() == 1
    page.fill("#by-text", "nowhere to be found")
    assert page.is_visible("#none-left")


def test_a_picture_is_enlarged_and_the_keyboard_leads_on(visit):
    page = visit(1000)
    look = page.locator("#suspect-cards .look").first
    look.focus()
    page.keyboard.press("Enter")
    assert page.is_visible("#look img")
    assert page.locator("#look img").bounding_box()["width"] > 400
    assert page.inner_text("#look-place").startswith("1 of")
    assert "deep/deep" in page.inner_text("#look-facts")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#look-place").startswith("2 of")
    page.keyboard.press("Escape")
    assert not page.is_visible("#look")
    assert look.evaluate("button => button === document.activeElement")


def test_a_text_is_expanded(visit, chosen, tmp_path):
    texts = Texts([f"text {k} " + "of many words " * 60 + f"end {k}" for k in range(len(chosen))])
    path = write_report(chosen, tmp_path / "t.html", Shown("T", items=texts))
    page = visit(1000, address=path.as_uri())
    page.click("#more")
    row = chosen.suspect_indices[40]
    button = cards(page).nth(40).locator(".look")
    assert button.bounding_box()["height"] < 200
    button.click()
    assert page.inner_text("#look-content").endswith(f"end {row}")
    page.keyboard.press("Escape")
    page.fill("#by-text", f"end {row}")
    assert cards(page).count() >= 1


def test_the_list_comes_as_csv_that_a_spreadsheet_does_not_run(visit, chosen, tmp_path):
    ids = np.array([f"=cmd|'/C calc'!A{k}" if k % 2 else f'a "{k}", b' for k in range(len(chosen))])
    path = write_report(chosen, tmp_path / "c.html", Shown("T", row_id=ids))
    page = visit(1000, address=path.as_uri())
    page.select_option("#by-given", index=4)
    with page.expect_download() as waiting:
        page.click("#csv")
    waiting.value.save_as(tmp_path / "s.csv")
    with (tmp_path / "s.csv").open(newline="", encoding="utf-8-sig") as file:
        found = list(csv.DictReader(file))
    rows = doubted_rows(chosen)
    rows = rows[chosen.label[rows] == "digit 3"]
    assert [entry["id"].removeprefix("'") for entry in found] == ids[rows].tolist()
    assert all(entry["id"][0] in "'a" for entry in found)
    assert {entry["given_label"] for entry in found} == {"digit 3"}
    assert np.allclose([float(e["doubt"]) for e in found], chosen.doubt[rows], atol=1e-4)
    assert {entry["judged"] for entry in found} <= {"probably wrong", "uncertain"}


def test_a_command_is_copied(visit):
    page = visit(1000)
    page.locator(".copy").first.click()
    page.wait_for_function("document.querySelector('.copy').textContent === 'copied'")
    assert page.evaluate("getSelection().toString()") == "kspr review 'a run'"


def test_a_hundred_thousand_suspects_are_listed(visit, shares, tmp_path):
    n = 100_000
    rows = np.arange(n) % len(shares)
    names = ("label_code", "doubt", "selection_time", "suggested_code", "cut_group")
    large = replace(
        shares,
        **{name: getattr(shares, name)[rows] for name in names},
        clean_mask=np.zeros(n, dtype=bool),
    )
    path = write_report(large, tmp_path / "l.html", Shown("T"))
    page = visit(1000, address=path.as_uri())
    assert page.inner_text("#shown") == "100,000 of 100,000 suspects"
    page.fill("#by-text", "99999")
    assert page.inner_text("#shown") == "1 of 100,000 suspects"


def test_the_table_sorts_by_click_and_by_key(visit, chosen):
    page = visit(1400)
    kept = (
        "[...document.querySelectorAll('#class-table tbody tr')]"
        ".map(row => Number(row.cells[2].dataset.value))"
    )
    expected = sorted(row.n_kept for row in chosen.summary().per_class)
    page.click("#class-table thead th:nth-child(3)")
    assert page.evaluate(kept) == expected[::-1]
    page.focus("#class-table thead th:nth-child(3)")
    page.keyboard.press("Enter")
    assert page.evaluate(kept) == expected


def test_many_classes_are_folded_until_they_are_asked_for(visit, tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 6)
    selection = KnockoffsSPR().fit(rng.standard_normal((len(y), 5)), y).selection_
    path = write_report(selection, tmp_path / "m.html", Shown("T"))
    page = visit(1000, address=path.as_uri())
    rows = page.locator("#class-table tbody tr:visible")
    assert rows.count() == 10
    page.click("#class-table thead th:nth-child(2)")
    assert rows.count() == 10
    page.click("#all-classes")
    assert rows.count() == 40


def test_a_link_opens_the_section_that_it_leads_to(visit):
    page = visit(1000)
    assert not page.is_visible("#made .facts-list")
    page.click("nav a[href='#made']")
    assert page.is_visible("#made .facts-list >> nth=0")


def test_the_figures_follow_the_colour_scheme(visit):
    colour = "getComputedStyle(document.querySelector('svg text')).fill"
    assert visit(820, "light").evaluate(colour) != visit(820, "dark").evaluate(colour)


def test_the_worst_are_there_without_javascript(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("#suspect-cards .card:visible").count() == 28
    assert page.locator("#class-table tbody tr:visible").count() == 10
    assert not page.is_visible("#controls")
    assert not page.is_visible(".copy >> nth=0")
    assert page.is_visible("#needs-script")
    context.close()
