"""The review page in a real browser: by keyboard, by thumb, by two people, after a kill."""

import io
import json
import re
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr.runs.draws import set_draw, write_plan
from kspr.runs.run import load_run
from kspr.runs.verify import verification_of
from kspr.selectors import Selection
from tests.review.conftest import NAMES, make_run, png
from tests.review.serving import Served

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).resolve().parents[2] / ".browser/node_modules/axe-core/axe.min.js"
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"),
]
TABS = ("check", "fix", "settle", "decisions")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield running
        running.close()


@pytest.fixture
def serve(run):
    started = []

    def _serve(*options, folder=run):
        started.append(Served(folder, *options))
        return started[-1]

    yield _serve
    for served in started:
        if served.process.poll() is None:
            served.stop(signal.SIGKILL)


@pytest.fixture
def visit(browser):
    """Open the page as a reviewer; afterwards nothing may have gone wrong or left the machine."""
    trouble, contexts = [], []

    def _visit(served, reviewer="Anna", width=1300, height=900, **how):
        context = browser.new_context(viewport={"width": width, "height": height}, **how)
        contexts.append(context)
        page = context.new_page()
        # A server that was killed on purpose is no trouble, whatever it was just sending; nor is
        # what the server refuses with a sentence, which is shown.
        page.on("console", lambda m: _hear(m.text, served))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda asked: _note(asked.url, served.origin))
        page.goto(served.address)
        assert "token" not in page.url
        if reviewer:
            page.wait_for_selector("#ask[open]")
            page.fill("#ask-name", reviewer)
            page.keyboard.press("Enter")
            page.wait_for_selector("#answers button, .finished")
        return page

    def _hear(text, served):
        ended = served.process.poll() is not None and "net::ERR_" in text
        if not ended and "status of 400" not in text:
            trouble.append(text)

    def _note(url, origin):
        if not url.startswith((origin, "data:")):
            trouble.append(url)

    yield _visit
    for context in contexts:
        context.close()
    assert trouble == []


def press(page, key):
    """Press a key, and wait until the next row is shown."""
    before = page.inner_text("#check-title")
    page.keyboard.press(key)
    page.wait_for_function(
        "before => document.getElementById('check-title').textContent !== before", arg=before
    )


def test_a_hundred_rows_are_checked_by_keyboard(serve, visit, run):
    served = serve()
    page = visit(served)
    for k in range(200):
        if page.locator(".finished").count():
            break
        row = page.inner_text("#check-title")
        assert row == f"Check {k + 1}"
        suggested = page.locator("#answers .suggested").count()
        press(page, "Enter" if suggested and k % 2 else " ")
        if k == 14:
            # No threshold from a few answers.
            page.wait_for_function("() => document.getElementById('done').textContent === '15'")
            assert "wrong so far" in page.inner_text("#wrong-so-far")
            assert not page.is_visible("#verdict")
            assert not page.is_visible("#dial")
    page.wait_for_selector(".finished .ways")
    page.wait_for_function("() => document.getElementById('done').textContent === '100'")
    assert "checked rows were drawn at random" in page.inner_text("#promise")
    assert k >= 109  # some rows are asked twice
    assert re.search(r"Done\. You can keep \d+ of 600 labels", page.inner_text(".finished .result"))
    assert "Anna and Anna, asked again" in page.inner_text("#agreement")
    with page.context.expect_page() as opening:
        page.get_by_role("link", name="Report").click()
    assert "Answered on the review page by" in opening.value.inner_text("body")
    found = verification_of(load_run(run))
    assert (found.n_counted, found.n_passed_over) == (100, 0)


def test_rows_of_a_plan_are_asked_once_the_draw_is_done(serve, visit, run, opened, truth, tmp_path):
    set_draw(run, n=30, drawn="all")
    session = opened(run)
    for position in session.checks.positions:
        session.answer("Ben", "check", {position: truth[position]})
    rows = write_plan(run, tmp_path / "plan.csv", max_wrong=0.25, confidence=0.9).rows
    served = serve("--share")
    page = visit(served)
    assert page.inner_text("#check-title") == "Check 1"
    assert page.is_visible("#plan-lead")
    assert not page.is_visible("#check-lead")
    press(page, " ")
    page.wait_for_function("() => document.getElementById('done').textContent === '1'")
    assert page.inner_text(".progress p") == f"1 of {len(rows)} rows of the plan labelled"
    assert "Once all are, at most 150 wrong labels are in" in page.inner_text("#plan")
    assert Selection.load(run).checked.right[-1]


def test_every_key_gives_its_answer(serve, visit, run):
    page = visit(serve())
    fitted = Selection.load(run, answers=False)
    names, order = fitted.classes.tolist(), fitted.draw_checks(20, q=0.2).tolist()
    # A digit is the same class for every row, and its button stays where it is.
    for key in ("1", "1", "4", "0", "-", "s"):
        buttons = page.locator("#answers .others button > span").all_inner_texts()
        assert buttons == [*names, "None of the classes", "Cannot tell"]
        press(page, key)
    page.keyboard.press("t")
    page.keyboard.press("x")
    page.wait_for_function("() => document.getElementById('done').textContent === '6'")
    log = {e["position"]: e["answer"] for e in decisions(page)}
    assert [log[p] for p in order[:6]] == [0, 0, 3, 9, "-", "?"]
    press(page, "u")
    assert page.inner_text("#check-title") == "Check 6"
    page.click("#undo")
    page.wait_for_function("() => document.getElementById('check-title').textContent[6] === '5'")
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    page.keyboard.press("z")
    page.wait_for_selector("#zoom img")
    page.keyboard.press("Escape")


def decisions(page):
    return page.evaluate(
        "fetch('/api/decisions?reviewer=' + document.getElementById('who-name').textContent)"
        ".then(a => a.json()).then(a => a.rows)"
    )


@pytest.fixture
def many(digits40, tmp_path):
    """A run of texts with 20 classes: too many for digits."""
    names = [f"{part} {NAMES[k]}" for part in ("half", "whole") for k in range(10)]
    y = digits40.y[:800] + 10 * (digits40.X[:800, 20] > digits40.X[:800, 43])
    columns = {f"p{i}": digits40.X[:800, i] for i in range(64)}
    texts = [f"row {k} \u05d7\u05ea\u05d5\u05dc " + "word " * 150 for k in range(800)]
    rows = pa.table({"what": texts, "label": np.array(names)[y], **columns})
    pq.write_table(rows, tmp_path / "many.parquet")
    return make_run(tmp_path / "many.parquet", tmp_path / "many", features="p*", text="what").folder


def test_the_search_takes_the_marked_class_only(serve, visit, many):
    page = visit(serve(folder=many))
    names = page.evaluate("fetch('/api/start').then(a => a.json()).then(a => a.classes)")
    page.keyboard.press("/")
    page.keyboard.type("zzz")
    page.keyboard.press("Enter")
    assert page.inner_text("#check-title").startswith("Check 1")
    field = page.locator("#answers .picker input")
    # Any part of a name; keys are letters here, and no answers.
    field.fill("seven")
    options = page.locator("#answers [role=option]")
    assert options.all_inner_texts() == ["half seven", "whole seven"]
    assert page.locator("#answers [aria-selected=true]").inner_text() == "half seven"
    page.keyboard.press("ArrowDown")
    marked = page.locator("#answers [aria-selected=true]")
    assert marked.inner_text() == "whole seven"
    assert field.get_attribute("aria-activedescendant") == marked.get_attribute("id")
    press(page, "Enter")
    assert [names[e["answer"]] for e in decisions(page)] == ["whole seven"]
    # Digits mean nothing where classes have none.
    page.keyboard.press("1")
    assert page.inner_text("#check-title").startswith("Check 2")


def test_a_text_is_shown_whole_in_its_own_direction(serve, visit, many):
    page = visit(serve(folder=many))
    assert page.locator("#stage .passage").get_attribute("dir") == "auto"
    near = page.locator("#near li p").first
    assert len(near.inner_text()) > 700
    # Nothing of it is cut off by its box, and the answers stay in sight.
    assert near.evaluate("p => p.scrollHeight <= p.clientHeight + 1")
    assert page.locator("#answers .two").bounding_box()["y"] < 800
    page.click("[data-tab=fix]")
    page.wait_for_selector("#grid .card")
    page.locator("#grid .enlarge").first.click()
    page.wait_for_selector("#zoom[open]")
    assert len(page.inner_text("#zoom-box")) > 700


def test_a_small_image_is_smooth_and_at_most_eight_times_its_size(serve, visit):
    page = visit(serve())
    page.wait_for_function("() => document.querySelector('#stage img').naturalWidth")
    box = page.locator("#stage img").bounding_box()
    assert box["width"] <= 64
    assert box["height"] <= 64
    css = "getComputedStyle(document.querySelector('#stage img')).imageRendering"
    assert page.evaluate(css) == "auto"


def test_a_square_image_is_shown_whole_and_a_key_on_one_line(serve, visit, table, tmp_path):
    pixels = [np.asarray(Image.open(io.BytesIO(image.as_py()))) for image in table["image"]]
    large = [png(np.kron(image, np.ones((32, 32)))) for image in pixels]
    column = table.column_names.index("image")
    pq.write_table(table.set_column(column, "image", [large]), tmp_path / "large.parquet")
    run = make_run(tmp_path / "large.parquet", tmp_path / "large", features="p*").folder
    page = visit(serve(folder=run))
    page.wait_for_function("() => document.querySelector('#stage img').naturalWidth")
    stage, image = (page.locator(at).bounding_box() for at in ("#stage", "#stage img"))
    assert image["height"] <= stage["height"]
    fits = "key => key.scrollWidth <= key.clientWidth && key.offsetHeight < 30"
    assert page.evaluate(f"[...document.querySelectorAll('#answers kbd')].every({fits})")


def test_a_focused_button_is_what_a_key_is_meant_for(serve, visit):
    page = visit(serve())
    page.get_by_role("button", name="Cannot tell").focus()
    press(page, " ")
    assert decisions(page)[0]["answer"] == "?"
    # The next row takes the focus, so that keys work again.
    assert page.evaluate("document.activeElement.id") == "check-title"


def test_two_people_in_two_windows_settle_what_they_differ_on(serve, visit, run):
    served = serve("--checks", "5")
    anna, ben = visit(served), visit(served, "Ben")
    for _ in range(3):
        press(anna, " ")
    press(ben, " ")
    press(ben, "-")
    # What an answer comes to is computed after the next row shows.
    ben.wait_for_function(
        "() => document.getElementById('agreement').innerText.includes("
        "'Anna and Ben: 50\u00a0% of 2 rows')"
    )
    assert ben.inner_text("#to-settle") == "1"
    assert "1 checked row that people answered differently" in ben.inner_text("#unsettled")
    ben.click("[data-tab=settle]")
    entry = ben.locator("#disputed > li")
    entry.wait_for()
    assert entry.count() == 1
    assert "Anna" in entry.inner_text()
    # Who has checked how many.
    people = ben.locator("#people li").all_inner_texts()
    assert people == ["Anna 3", "Ben 2"]
    entry.get_by_role("button", name="None of the classes").click()
    ben.wait_for_selector("#disputed b")
    checks = Selection.load(run).checked
    assert (checks.true_code == -1).sum() == 1


def test_after_a_kill_the_page_says_so_and_the_next_start_goes_on(serve, visit):
    first = serve()
    page = visit(first)
    for _ in range(4):
        press(page, " ")
    first.stop(signal.SIGKILL)
    page.keyboard.press(" ")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "What you have answered is saved" in page.inner_text("#trouble")
    assert page.inner_text("#check-title") == "Check 5"
    again = visit(serve())
    assert again.inner_text("#check-title") == "Check 5"


def test_a_stale_tab_changes_nothing_says_so_and_goes_on(serve, visit, run):
    served = serve()
    one, two = visit(served), visit(served)
    press(one, " ")
    press(two, "-")
    assert "in another window" in two.inner_text("#toast")
    assert two.inner_text("#check-title") == "Check 2"
    found = verification_of(load_run(run))
    assert (found.n_counted, found.n_wrong) == (1, 0)
    press(two, "-")
    assert verification_of(load_run(run)).n_wrong == 1


def test_a_decision_is_opened_again_and_changed(serve, visit):
    page = visit(serve())
    press(page, "1")
    press(page, "2")
    page.click("[data-tab=decisions]")
    page.locator("#decided a").first.click()
    page.wait_for_selector("#answers .revealed")
    assert "You said" in page.inner_text("#answers .revealed")
    page.keyboard.press("3")
    page.wait_for_selector("#decided tr")
    assert [e["answer"] for e in decisions(page)] == [2, 1]
    # The next row still waits.
    page.click("[data-tab=check]")
    page.wait_for_function("() => document.getElementById('check-title').textContent === 'Check 3'")


def test_suspects_are_accepted_together_and_undone(serve, visit, run):
    page = visit(serve())
    page.click("[data-tab=fix]")
    page.wait_for_selector("#grid .card")
    shown = page.locator("#grid .card").count()
    total = int(page.inner_text("#fix-count").split(" of ")[1].split()[0])
    assert shown == 60
    page.locator("#grid input").nth(1).click()
    page.locator("#grid input").nth(5).click(modifiers=["Shift"])
    assert page.inner_text("#n-selected") == "5 selected"
    page.click("#accept")
    page.wait_for_function(
        f"() => document.getElementById('fix-count').textContent.includes(' {total - 5} ')"
    )
    assert len(load_run(run).selection.checked.rows) == 5
    page.wait_for_selector("#picked:not([hidden])")
    assert "do not count for the error rate" in page.inner_text("#picked")
    page.click("#toast-undo")
    page.wait_for_function(
        f"() => document.getElementById('fix-count').textContent.includes(' {total} ')"
    )
    # By keyboard: arrows move, a digit or a searched class answers the row with the focus.
    names = page.evaluate("fetch('/api/start').then(a => a.json()).then(a => a.classes)")
    for keys, left in (("1", total - 1), ("/", total - 2)):
        if not page.evaluate("document.activeElement.matches('#grid input')"):
            page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press(keys)
        if keys == "/":
            page.locator("#grid input").nth(1).check()
            page.fill("#another input", "seve")
            page.keyboard.press("Enter")
        page.wait_for_function(
            f"() => document.getElementById('fix-count').textContent.includes(' {left} ')"
        )
    assert [names[e["answer"]] for e in decisions(page)] == [names[0], "seven"]
    # Every label says how many rows it would leave.
    counts = page.locator("#by-given option").all_inner_texts()[1:]
    assert sum(int(re.search(r"\((\d+)\)", text)[1]) for text in counts) == total - 2
    page.fill("#by-text", "digit-01")
    page.select_option("#by-show", "every")
    page.wait_for_function("() => document.querySelectorAll('#grid .card').length < 11")
    assert all("digit-01" in text for text in page.locator("#grid .row-id").all_inner_texts())


def test_a_blind_row_shows_its_label_after_the_answer(serve, visit):
    page = visit(serve("--blind"))
    assert page.locator("#answers .two").count() == 0
    page.keyboard.press(" ")
    assert page.inner_text("#check-title") == "Check 1"
    page.keyboard.press("2")
    page.wait_for_selector("#answers .revealed")
    assert "The given label is" in page.inner_text("#answers .revealed")
    press(page, " ")
    assert page.inner_text("#check-title") == "Check 2"


@pytest.mark.parametrize("width", [380, 1000, 1600, 3840])
def test_nothing_is_wider_than_the_window(serve, visit, width):
    page = visit(serve(), width=width, height=max(760, width // 2))
    for tab in TABS:
        page.click(f"[data-tab={tab}]")
        page.wait_for_timeout(150)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, tab


def test_a_thumb_is_enough(serve, visit):
    page = visit(serve(), width=380, height=760, has_touch=True, is_mobile=True)
    given = page.locator("#answers .two button").first
    box = given.bounding_box()
    # Near the lower edge, and large.
    assert box["y"] + box["height"] > 680
    assert box["height"] >= 44
    given.tap()
    page.wait_for_function("() => document.getElementById('check-title').textContent[6] === '2'")
    small = page.evaluate(
        "[...document.querySelectorAll('#check button')].filter(b => b.checkVisibility())"
        ".map(b => b.getBoundingClientRect().height).filter(h => h < 40)"
    )
    assert small == []


@pytest.mark.skipif(not AXE.exists(), reason="`make test-browser` installs axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1300])
def test_axe_finds_no_violation(serve, visit, scheme, width):
    served = serve("--checks", "3")
    page, other = visit(served, width=width, color_scheme=scheme), visit(served, "Ben")
    press(page, "-")
    press(other, " ")
    for tab in TABS:
        page.click(f"[data-tab={tab}]")
        page.wait_for_timeout(300)
        assert violations(page) == [], tab
    page.click("[data-tab=check]")
    for opening in ("#help-open", "#who"):
        page.click(opening)
        assert violations(page) == [], opening
        page.keyboard.press("Escape")


def violations(page):
    # The policy of the page allows no other script; the test's own is run from outside of it.
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (v["id"], v["help"], [node["html"][:200] for node in v["nodes"]])
        for v in found["violations"]
    ]


def test_texts_and_rows_of_tables_are_shown(serve, visit, table, tmp_path):
    plain = table.drop_columns(["image"])
    pq.write_table(plain, tmp_path / "t.parquet")
    made = make_run(tmp_path / "t.parquet", tmp_path / "tables", features="p*")
    page = visit(serve(folder=made.folder))
    assert page.locator("#stage table tbody tr").count() >= 20
    assert "Similar, labelled" in page.inner_text("#stage thead")
    press(page, " ")


def test_decisions_are_printed(serve, visit):
    page = visit(serve())
    press(page, " ")
    press(page, "-")
    page.click("[data-tab=decisions]")
    page.wait_for_selector("#decided tr")
    page.click("#who")
    page.emulate_media(media="print")
    assert page.is_visible("#decided")
    assert page.locator("#decided tr").count() == 2
    assert not page.is_visible(".tabs")
    assert not page.is_visible("#ask")
    assert len(page.pdf()) > 5_000
    with page.expect_download() as waiting:
        page.emulate_media(media="screen")
        page.keyboard.press("Escape")
        page.click("#csv")
    assert waiting.value.suggested_filename == "answers.csv"


def test_the_name_is_remembered_and_can_be_given_by_the_command(serve, visit):
    page = visit(serve("--reviewer", "Cleo"), reviewer=None)
    page.wait_for_selector("#answers button")
    assert page.inner_text("#who-name") == "Cleo"
    page.reload()
    page.wait_for_selector("#answers button")
    assert page.inner_text("#who-name") == "Cleo"


def test_what_is_said_aloud_follows_the_rows(serve, visit):
    page = visit(serve())
    assert page.inner_text("#said").startswith("Check 1. Given label: ")
    press(page, " ")
    assert page.inner_text("#said").startswith("Check 2. Given label: ")
    roles = json.dumps(page.locator("body").aria_snapshot())
    for words in ("navigation", "main", "complementary", "progressbar"):
        assert words in roles
