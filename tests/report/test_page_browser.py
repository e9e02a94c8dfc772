"""The report in a real browser: it fits, it filters, and it complains of nothing."""

from pathlib import Path

import numpy as np
import pytest

from kspr import selfcheck
from kspr.report import write_report
from tests.report.samples import VERIFIED

CHROMIUM = Path("/usr/bin/chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory, chosen, digits40, pictures) -> str:
    """A full page, with a label and row names that would not fit on a phone in one line."""
    path = tmp_path_factory.mktemp("browser") / "report.html"
    rows = np.array([f"photographs/{'deep/' * 12}{k:06d}.png" for k in range(len(chosen))])
    write_report(
        chosen,
        path,
        title="An extraordinarilylongtitlewithoutanybreaks" * 2,
        row_id=rows,
        items=pictures,
        features=digits40.X,
        truth=chosen.label,
        selfcheck=selfcheck(digits40.X, digits40.y, repeats=1),
        verification=VERIFIED,
        command="kspr select " + "x" * 300,
    )
    return path.as_uri()


@pytest.fixture
def visit(browser, report):
    """Open the report at a width; afterwards nothing may have gone wrong or left the file."""
    trouble, pages = [], []

    def _visit(width: int, scheme: str = "light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda asked: _note(asked.url))
        page.goto(report)
        pages.append(page)
        return page

    def _note(url: str) -> None:
        if not url.startswith(("file:", "data:")):
            trouble.append(url)

    yield _visit
    for page in pages:
        page.close()
    assert trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 820, 1400])
def test_nothing_is_wider_than_the_window(visit, width, scheme):
    page = visit(width, scheme)
    wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inner == width


def test_text_in_figures_can_be_read_on_a_phone(visit):
    smallest = visit(360).evaluate(
        """Math.min(...[...document.querySelectorAll('svg')].map(svg => {
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            const sizes = [...svg.querySelectorAll('text')].map(t => parseFloat(t.style.fontSize));
            return scale * Math.min(...sizes);
        }))"""
    )
    assert smallest >= 7.5


def test_the_class_filter_hides_the_other_cards(visit, chosen):
    page = visit(1400)
    shown = page.locator("#suspect-cards .card:visible")
    assert shown.count() == 200
    page.select_option("#by-class", "digit 3")
    expected = int((chosen.label[chosen.suspect_indices[:200]] == "digit 3").sum())
    assert shown.count() == expected
    assert page.inner_text("#shown") == f"{expected} of 200"
    page.select_option("#by-class", "")
    assert shown.count() == 200


def test_the_search_box_finds_a_row(visit, chosen):
    page = visit(820)
    row = chosen.suspect_indices[17]
    page.fill("#by-text", f"{row:06d}.PNG")
    assert page.locator("#suspect-cards .card:visible").count() == 1
    page.fill("#by-text", "nowhere to be found")
    assert page.is_visible("#none-left")


def test_the_table_sorts_by_click(visit, chosen):
    page = visit(1400)
    page.click("#class-table thead th:nth-child(3)")
    kept = page.evaluate(
        "[...document.querySelectorAll('#class-table tbody tr')]"
        ".map(row => Number(row.cells[2].dataset.value))"
    )
    assert kept == sorted((row.n_kept for row in chosen.summary().per_class), reverse=True)


def test_the_figures_follow_the_colour_scheme(visit):
    colour = "getComputedStyle(document.querySelector('svg text')).fill"
    assert visit(820, "light").evaluate(colour) != visit(820, "dark").evaluate(colour)


def test_everything_is_there_without_javascript(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report)
    assert page.locator("#suspect-cards .card:visible").count() == 200
    assert not page.is_visible("#controls")
    context.close()
