"""The report of a run on disk."""

import csv
import json

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, selfcheck
from kspr.report import report_run
from kspr.report.contents import level
from kspr.runs.checks import read_checks
from kspr.runs.draws import COLUMNS, draw_checks, set_draw
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.runs.verify import agreements, verification_of, verify_run
from kspr.selectors import SPR
from kspr.sources.options import AS_FOUND, AS_SHIPPED
from tests.report.samples import Page


def section(page, name):
    found = page.source[page.source.index(f'id="{name}"') :]
    return Page.plain(found[found.index(">") + 1 : found.index("</section>")])


@pytest.fixture
def run(digits40, tmp_path):
    """A run on the noisy digits, and its folder."""
    np.savez(tmp_path / "digits.npz", X=digits40.X, y=digits40.y)
    return make(tmp_path, KnockoffsSPR(q=0.1))


def make(tmp_path, selector, **how):
    return select_source(
        tmp_path / "digits.npz",
        tmp_path / "run",
        selector,
        options=AS_FOUND,
        settings=AS_SHIPPED,
        command=["kspr", "select"],
        overwrite=True,
        **how,
    )


def answer(run, path, digits40, drawn):
    draw_checks(run.folder, path, n=250, drawn=drawn)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for entry in rows:
        entry["true_label"] = digits40.y_true[int(entry["row"])]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return verify_run(run.folder, path)


def test_report_run_checks_the_selector_of_the_run(run, digits40):
    report_run(run.folder, None, selfcheck=True)
    page = Page((run.folder / "report.html").read_text())
    expected = selfcheck(digits40.X, digits40.y, KnockoffsSPR(q=0.1))
    assert section(page, "selfcheck").startswith(f"Self-check: {expected.verdict}")
    first = expected.kinds[0]
    assert f"{first.n_flipped} {first.n_flipped_kept}" in section(page, "selfcheck")


def test_what_cannot_be_checked_is_refused(run, tmp_path, digits40):
    make(tmp_path, SPR())
    with pytest.raises(InputError, match="made by SPR, which promises no rate"):
        report_run(run.folder, None, selfcheck=True)
    rows = np.arange(0, 1797, 4)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("row", "true_label", "drawn_from"), *((r, digits40.y_true[r], "all") for r in rows)]
        )
    make(tmp_path, KnockoffsSPR(q=0.1), checked=tmp_path / "a.csv")
    with pytest.raises(InputError, match="rests on rows that a person has checked"):
        report_run(run.folder, None, selfcheck=True)
    np.savez(tmp_path / "digits.npz", X=digits40.X[:900], y=digits40.y[:900])
    with pytest.raises(InputError, match="needs the features of"):
        report_run(run.folder, None, selfcheck=True)
    (tmp_path / "digits.npz").unlink()
    with pytest.raises(InputError, match="needs the features of"):
        report_run(run.folder, None, selfcheck=True)
    assert not (run.folder / "report.html").exists()


@pytest.mark.parametrize("drawn", ["pool", "all"])
def test_answers_of_a_person_are_shown(run, digits40, tmp_path, drawn):
    found = answer(run, tmp_path / "checks.csv", digits40, drawn)
    assert verification_of(load_run(run.folder)) == found
    report_run(run.folder, None)
    page = Page((run.folder / "report.html").read_text())
    tiles = page.tiles()
    shown = level(found.fsr_before).replace("\u202f", " ")
    assert tiles["wrong among what was kept without checks"][0] == shown
    assert tiles["kept now"][0].replace("\u202f", "").replace(",", "") == str(found.n_kept)
    words = section(page, "verification")
    assert "on average over such draws, at most 10 % of the kept labels are wrong" in words
    assert ("from those that could be kept" in words) == (drawn == "pool")


def test_answers_about_other_data_are_not_used(run, digits40, tmp_path):
    answer(run, tmp_path / "checks.csv", digits40, "pool")
    file = run.folder / "checks.json"
    about = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "fingerprint": "other"}))
    assert verification_of(run) is None
    assert load_run(run.folder).selection.checked is None


def test_a_text_that_has_changed_is_not_shown(tmp_path, digits40):
    """A run from somebody else may name a private file: nothing that it does not know is copied."""
    from dataclasses import replace

    from kspr.features.loading import Loaded
    from kspr.runs.rows import rows_of
    from kspr.runs.run import origin_of, save_run
    from kspr.sources.opening import open_source

    selection = SPR().fit(digits40.X, digits40.y).selection_
    for name, word in (("public", "harmless"), ("private", "secret")):
        # Every other text is the same in both files.
        words = (word if k % 2 else "known" for k in range(len(digits40.y)))
        texts = zip(words, digits40.y, strict=True)
        lines = [f"n{k},{text} {k},{label}" for k, (text, label) in enumerate(texts)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,text,label", *lines]))
    records = open_source(tmp_path / "public.csv")
    loaded = Loaded(records, None, np.arange(len(records)))
    origin = origin_of(loaded, AS_FOUND, ["kspr"])
    forged = replace(origin, source=str(tmp_path / "private.csv"))
    save_run(tmp_path / "r", selection, rows_of(loaded), forged, overwrite=False)
    path, notes = report_run(tmp_path / "r")
    assert "known" in path.read_text()
    assert "secret" not in path.read_text()
    assert "898 rows of the run are changed in" in notes[0]


def test_a_report_needs_the_truth_of_every_row(run, tmp_path, digits40):
    lines = [f"{k},{label}" for k, label in enumerate(digits40.y_true)]
    (tmp_path / "t.csv").write_text("\n".join(["row,truth", *lines[5:]]))
    with pytest.raises(
        InputError, match=r"needs the truth of every row.* no true label for 5 rows"
    ):
        report_run(run.folder, None, truth=str(tmp_path / "t.csv"))


def page_of(run, **options):
    return Page(report_run(run.folder, **options)[0].read_text())


def test_a_report_draws_no_rows(run):
    page_of(run)
    assert not (run.folder / "checks.json").exists()


def test_more_rows_are_asked_for_beside_those_that_were_drawn(run, digits40, tmp_path):
    answer(run, tmp_path / "checks.csv", digits40, "pool")
    assert f"kspr review {run.folder} --checks 350 copy" in section(page_of(run), "next")
    assert set_draw(run.folder, n=350).unanswered


def texts_run(tmp_path):
    """A run whose rows are texts that are hard to show and to write."""
    from kspr.features.loading import Loaded
    from kspr.runs.rows import rows_of
    from kspr.runs.run import origin_of, save_run
    from kspr.sources.opening import open_source

    rng = np.random.default_rng(0)
    names = np.array(["=1+1", 'a "b", c', "</script><b>", "-"])
    truth = np.arange(80) % 4
    X = 6 * np.eye(4, 5)[truth] + rng.standard_normal((80, 5))
    label = names[np.where(np.arange(80) % 9, truth, (truth + 1) % 4)]
    with (tmp_path / "texts.csv").open("w", newline="") as file:
        lines = [[f"=n{k}", f"<i>{k}</i>", name] for k, name in enumerate(label)]
        csv.writer(file).writerows([["id", "text", "label"], *lines])
    loaded = Loaded(open_source(tmp_path / "texts.csv"), None, np.arange(80))
    fitted = KnockoffsSPR(q=0.2, reduction=None).fit(X, label).selection_
    origin = origin_of(loaded, AS_FOUND, ["kspr"])
    save_run(tmp_path / "texts", fitted, rows_of(loaded), origin, overwrite=False)
    return tmp_path / "texts"


def test_answers_that_an_older_page_has_saved_are_read(tmp_path):
    """Rows were once checked inside of the report, which wrote quoted cells after a mark."""
    folder = texts_run(tmp_path)
    draw_checks(folder, tmp_path / "drawn.csv", n=20)
    with (tmp_path / "drawn.csv").open(newline="") as file:
        rows = [{name: row[name] for name in COLUMNS} for row in csv.DictReader(file)]
    for row, cell in zip(rows, [*(row["label"] for row in rows[:18]), "'-", "?"], strict=True):
        row["true_label"] = cell
    quoted = [
        ",".join(f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row.values()) for row in rows
    ]
    text = "\r\n".join([",".join(COLUMNS), *quoted, ""])
    (tmp_path / "a.csv").write_text("\ufeff" + text, newline="", encoding="utf-8")
    found = verify_run(folder, tmp_path / "a.csv")
    assert (found.n_counted, found.n_cannot_tell) == (20, 1)
    run = load_run(folder)
    checks = read_checks(folder, run.selection)
    given = run.selection.label[list(checks.positions[:18])]
    assert [checks.known[p] for p in checks.positions] == [*given, "-", "?"]


def test_texts_with_markup_do_not_act(tmp_path):
    page = page_of(load_run(texts_run(tmp_path)))
    assert "<i>" not in page.source


def test_a_review_is_shown_with_who_answered_and_how_far_they_agree(run):
    from kspr.runs.review_log import ReviewLog

    draw = set_draw(run.folder, n=20)
    given = [str(label) for label in run.selection.label]
    rows = draw.positions
    log = ReviewLog(run.folder, run.selection.manifest.fingerprint)
    log.append("Ada", "check", {row: given[row] for row in rows[:12]})
    log.append("<b>Bo</b>", "check", {row: "-" if row == rows[0] else given[row] for row in rows})
    log.append("Ada", "check", {rows[12]: "?"})
    log.close()
    page = page_of(run)
    words = section(page, "verification")
    assert page.tiles()["agreement"] == ("84.6 %", "11 of 13 rows that several people answered")
    assert "by <b>Bo</b> (20), Ada (13)." in words
    (pair,) = agreements(read_checks(run.folder, run.selection).opinions.values())
    assert f"<b>Bo</b> and Ada 13 84.6 % {pair.kappa:.2f}" in words
    assert "2 rows on which people differ, or that they cannot tell, count as wrong" in words
    assert "<b>Bo" not in page.source


def test_answers_of_files_have_no_reviewer(run, digits40, tmp_path):
    answer(run, tmp_path / "checks.csv", digits40, "pool")
    assert "review page" not in section(page_of(run), "verification")
