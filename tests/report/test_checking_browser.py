"""Rows checked in a real browser, from the first key to the cut that the saved file moves."""

import csv

import numpy as np
import pytest
from PIL import Image

from kspr.features import Loaded
from kspr.report.run_report import report_run
from kspr.runs.answers import read_checks
from kspr.runs.rows import rows_of
from kspr.runs.run import load_run, origin_of, save_run
from kspr.runs.verify import verify_run
from kspr.sources.opening import open_source
from kspr.sources.options import AS_FOUND
from tests.report.test_page_browser import CONTRAST

pytestmark = pytest.mark.browser
NAMES = np.array(
    [
        "otter",
        "cat",
        "catfish",
        "dog",
        "sea lion",
        "tree",
        "tiger",
        "umbrella",
        "<b>=x</b>",
        "zebra",
    ]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory, digits40):
    """A run on pictures; its page has a hundred rows to check."""
    from kspr import KnockoffsSPR

    root = tmp_path_factory.mktemp("photos")
    for k, pixels in enumerate((digits40.X * 15).astype(np.uint8).reshape(-1, 8, 8)):
        Image.fromarray(pixels).save(root / f"{k}.png")
    lines = [f"{k}.png,{name}" for k, name in enumerate(NAMES[digits40.y])]
    (root / "list.csv").write_text("\n".join(["path,label", *lines]))
    records = open_source(root / "list.csv")
    loaded = Loaded(records, None, np.arange(len(records)))
    fitted = KnockoffsSPR(q=0.1).fit(digits40.X, NAMES[digits40.y]).selection_
    origin = origin_of(loaded, AS_FOUND, ["kspr"])
    made = save_run(root / "run", fitted, rows_of(loaded), origin, overwrite=False)
    report_run(made.folder, None, checks=100)
    return made


@pytest.fixture
def rows(run):
    return list(read_checks(run.folder, run.selection).positions)


@pytest.fixture
def visit(browser, run):
    """Open the page; afterwards nothing may have gone wrong or left the file."""
    trouble, contexts = [], []

    def _visit(width: int = 1200, scheme: str = "light", before: str = "", touch: bool = False):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, has_touch=touch
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda asked: asked.url[:5] in ("file:", "data:", "blob:") or
                trouble.append(asked.url))  # fmt: skip
        if before:
            page.add_init_script(before)
        page.goto((run.folder / "report.html").as_uri())
        return page

    yield _visit
    for context in contexts:
        context.close()
    assert trouble == []


def begin(page):
    page.click("#checking-start")
    return page


def place(page) -> str:
    return page.inner_text("#checking-place")


def said(page) -> str:
    return page.inner_text("#checking-said")


def save(page, path):
    with page.expect_download() as waiting:
        page.locator(".checking-save:visible").last.click()
    waiting.value.save_as(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [entry["true_label"] for entry in csv.DictReader(file)]


def test_a_hundred_checks_by_keyboard_move_the_cut(visit, run, rows, digits40, tmp_path):
    page = begin(visit())
    given, suggested = run.selection.label, run.selection.suggested_label
    truth = NAMES[digits40.y_true]
    digit = {name: str(k + 1) for k, name in enumerate(run.selection.classes[:9])}
    for number, row in enumerate(rows):
        assert place(page) == f"Row {number + 1} of 100"
        if truth[row] == given[row]:
            page.keyboard.press("Space")
        elif truth[row] == suggested[row]:
            page.keyboard.press("Enter")
        else:
            page.keyboard.press(digit[truth[row]])
    assert place(page) == "Done"
    # The focus is where the next key is needed.
    with page.expect_download() as waiting:
        page.keyboard.press("Enter")
    waiting.value.save_as(tmp_path / "a.csv")
    assert waiting.value.suggested_filename == "run-answers.csv"
    found = verify_run(run.folder, tmp_path / "a.csv")
    assert found.n_counted == found.n_drawn == 100
    assert found.n_wrong == int((truth[rows] != given[rows]).sum()) > 0
    checked = load_run(run.folder).selection
    assert checked.checked.calibrate
    assert np.array_equal(checked.clean_mask[rows], truth[rows] == given[rows])
    assert not np.array_equal(checked.clean_mask, run.selection.clean_mask)


def test_every_way_to_answer_is_saved(visit, run, rows, tmp_path):
    page = begin(visit())
    keys = page.keyboard
    keys.press("Space")
    keys.press("0")
    # A class begins with s, so that a second letter could follow; a digit says that none does.
    keys.press("s")
    keys.press("3")
    assert said(page) == f"Row 4: {run.selection.classes[2]}."
    keys.type("ze")
    assert said(page) == "Row 5: zebra."
    page.wait_for_timeout(700)
    keys.type("se")
    assert said(page) == "Row 6: sea lion."
    page.wait_for_timeout(700)
    keys.type("cat")
    assert place(page) == "Row 7 of 100"
    keys.press("Enter")
    assert said(page) == "Row 7: cat."
    page.click("#checking-given")
    page.click("#checking-none")
    page.click("#checking-unsure")
    page.click("#checking-classes button:has-text('umbrella')")
    # The button that was clicked has no part in what the next key does.
    keys.press("Space")
    keys.press("Escape")
    assert page.inner_text("#checking-progress") == "12 of 100 checked"
    given = run.selection.label[rows]
    assert save(page, tmp_path / "a.csv") == [
        *(given[0], "'-", "?", run.selection.classes[2], "zebra", "sea lion", "cat"),
        *(given[7], "'-", "?", "umbrella", given[11]),
        *[""] * 88,
    ]


def test_undo_goes_back_row_by_row(visit):
    page = begin(visit())
    for key in ("Space", "0", "Space"):
        page.keyboard.press(key)
    # A class begins with u: a letter that nothing follows acts after a pause.
    page.keyboard.press("u")
    assert place(page) == "Row 4 of 100"
    page.wait_for_selector("#checking-done[value='2']")
    page.click("#checking-undo")
    page.click("#checking-undo")
    assert place(page) == "Row 1 of 100"
    assert page.is_disabled("#checking-undo")


def test_a_click_takes_the_place_of_a_letter_that_waits(visit):
    page = begin(visit())
    page.keyboard.press("s")
    page.click("#checking-given")
    page.wait_for_timeout(900)
    assert place(page) == "Row 2 of 100"


def test_a_class_is_searched_for(visit):
    page = begin(visit())
    page.keyboard.press("/")
    page.keyboard.type("li")
    assert said(page) == "Row 1: sea lion."


def test_typing_on_does_not_answer_the_next_row(visit):
    page = begin(visit())
    page.keyboard.type("tree")
    assert place(page) == "Row 2 of 100"
    assert page.input_value("#checking-field") == ""


def test_a_key_that_is_held_down_answers_once(visit):
    page = begin(visit())
    for _ in range(5):
        page.keyboard.down("Space")
    page.keyboard.up("Space")
    assert place(page) == "Row 2 of 100"


def test_answers_are_there_after_the_page_was_closed(visit, run):
    page = begin(visit())
    for key in ("Space", "0", "Space"):
        page.keyboard.press(key)
    page.reload()
    assert page.inner_text("#checking-start") == "go on checking"
    assert place(begin(page)) == "Row 4 of 100"
    assert not page.is_visible("#checking-memory")
    other = page.context.new_page()
    other.goto((run.folder / "report.html").as_uri())
    begin(other).keyboard.press("Space")
    page.wait_for_selector("#checking-done[value='4']")


NO_STORAGE = "Object.defineProperty(window, 'localStorage', {get() { throw new Error('no'); }})"


def test_without_storage_the_page_says_so_and_warns_before_it_is_left(visit, tmp_path):
    page = visit(before=NO_STORAGE)
    assert "Save your answers before you close the page" in page.inner_text("#checking-memory")
    begin(page).keyboard.press("Space")
    page.keyboard.press("Escape")
    asked = []
    page.on("dialog", lambda dialog: asked.append(dialog.type) or dialog.dismiss())
    page.close(run_before_unload=True)
    page.wait_for_timeout(300)
    assert asked == ["beforeunload"]
    assert len(save(page, tmp_path / "a.csv")) == 100


@pytest.mark.parametrize("stored", ["no JSON", "[77]", "[-3]", '["otter"]', "{}", "null"])
def test_what_somebody_else_stored_is_not_taken_for_answers(visit, run, stored):
    page = visit()
    key = page.evaluate("JSON.parse(document.getElementById('checking-data').textContent).key")
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", [key, stored])
    page.reload()
    assert place(begin(page)) == "Row 1 of 100"


def test_labels_are_shown_as_they_are(visit):
    page = begin(visit())
    assert page.locator("#checking-classes button").first.inner_text().endswith("<b>=x</b>")
    assert page.locator("#checking-box b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [380, 1200, 3840])
def test_everything_fits_and_can_be_read(visit, width, scheme):
    page = visit(width, scheme, touch=width == 380)
    begin(page)
    wide = "[document.documentElement, document.getElementById('checking-box')]"
    assert page.evaluate(f"{wide}.every(e => e.scrollWidth <= innerWidth)")
    assert page.evaluate(CONTRAST) == []
    for button in ("#checking-given", "#checking-none", "#checking-unsure", "#checking-undo"):
        assert page.locator(button).bounding_box()["height"] >= 44
    assert page.locator("#checking-content img").bounding_box()["height"] > 250


def test_a_thumb_does_what_a_key_does(visit):
    page = visit(380, touch=True)
    page.tap("#checking-start")
    page.tap("#checking-given")
    page.tap("#checking-classes button >> nth=4")
    page.tap("#checking-undo")
    assert place(page) == "Row 2 of 100"


def test_the_keys_are_explained(visit):
    page = begin(visit())
    page.keyboard.press("?")
    assert page.is_visible("#checking-keys")
    assert page.get_attribute("#checking-help", "aria-expanded") == "true"
    page.keyboard.press("?")
    assert not page.is_visible("#checking-keys")


def test_without_javascript_the_page_says_that_it_needs_it(browser, run):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((run.folder / "report.html").as_uri())
    assert page.is_visible("#checking-needs-script")
    assert not page.is_visible("#checking-panel")
    context.close()
