"""Answers in files, joined to rows by number or id, and answers beside a saved selection.

They are read in any dialect, applied when the selection is loaded, and refused where they do not
fit.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, PaperKnockoffsSPR, Selection
from kspr.runs.answers import read_answers
from kspr.runs.checks import Checks, apply_checks, read_checks, write_checks
from kspr.runs.rows import RunRows

ROWS = RunRows(np.array([0, 2, 4]), np.zeros(3, np.uint64), np.array(["a", "b", "c"]))
LABEL = np.array([3, 5, 3])
FILE = Path("answers.csv")


@pytest.fixture
def write(tmp_path):
    def write_file(content: str | bytes):
        path = tmp_path / "answers.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


@pytest.mark.parametrize(
    "content",
    [
        "row,true_label\n2,3\n4,-\n0,\n",
        "row;true_label\n2;3\n4;-\n0;\n",
        "row\ttrue_label\r\n2\t3\r\n4\t-\r\n0\t\r\n",
        b"\xef\xbb\xbfrow,true_label\n2.0,3.0\n4.0,-\n0.0,\n",
        "id,label,true_label\nb,5,3\nc,3,-\na,3,\n",
        "id,true_label\n b ,3\n\nc,-\na,\n",
    ],
)
def test_every_dialect_gives_the_same_answers(write, content):
    found = read_answers(write(content), ROWS, LABEL)
    assert found.by_position == {1: "3", 2: "-", 0: None}
    assert found.given == (1, 2)
    assert found.drawn_from is None


def task(row_id, *choices, **data):
    """Return a task of Label Studio with an annotation for each choice; None is a skipped one."""
    annotations = [
        {
            "was_cancelled": choice is None,
            "result": [
                {"type": "choices", "from_name": "label", "value": {"choices": [choice]}}
                for choice in [choice]
                if choice is not None
            ],
        }
        for choice in choices
    ]
    return {"data": {"row_id": row_id, **data}, "annotations": annotations}


@pytest.fixture
def write_tasks(tmp_path):
    def write_file(*tasks):
        (tmp_path / "tasks.json").write_text(json.dumps(tasks))
        return tmp_path / "tasks.json"

    return write_file


def test_tasks_of_label_studio_give_the_same_answers(write_tasks):
    found = read_answers(write_tasks(task("b", "3", "3"), task("c", "-"), task("a")), ROWS, LABEL)
    assert found.by_position == {1: "3", 2: "-", 0: None}
    assert found.given == (1, 2)
    assert found.drawn_from is None
    assert (
        read_answers(write_tasks(task("b", "5", drawn_from="all")), ROWS, LABEL).drawn_from == "all"
    )


def test_people_who_differ_or_skip_cannot_tell(write_tasks):
    tasks = write_tasks(task("a", "3", "5"), task("b", None), task("c", "?"))
    assert read_answers(tasks, ROWS, LABEL).by_position == dict.fromkeys(range(3), "?")


@pytest.mark.parametrize(
    ("tasks", "complaint"),
    [
        ([task("x", "3")], "task 1: there is no row with the id 'x'"),
        ([task("a", "3"), task("a", "5")], "has two answers for the id 'a'; keep one"),
        ([task("a", "9")], "task 1: the data has no label '9'"),
        ([task("b", "3", kspr_given_label=3)], "the label is '3', but the data has '5' there"),
        ([task("a", "3"), task("b", "3", kspr_given_label="9")], "task 2: the label is '9'"),
        ([{"data": {}, "annotations": []}], "task 1 has no 'row_id' in its data"),
        ([task([["a"]], "3")], "there is no row with the id"),
        ([task("a", "3", drawn_from="me")], "must say 'pool' or 'all'"),
    ],
)
def test_tasks_that_do_not_fit_are_refused(write_tasks, tasks, complaint):
    with pytest.raises(InputError) as caught:
        read_answers(write_tasks(*tasks), ROWS, LABEL)
    assert complaint in str(caught.value)


def test_ids_that_could_mean_several_rows_are_refused(write, write_tasks):
    twice = RunRows(ROWS.row, ROWS.digest, np.array(["a", "a", "b"]))
    for path in (write_tasks(task("b", "3")), write("id,true_label\nb,3\n")):
        with pytest.raises(InputError, match="ids of the rows are not distinct"):
            read_answers(path, twice, LABEL)
    assert read_answers(write("row,id,true_label\n2,a,3\n"), twice, LABEL).given == (1,)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("row,label\n0,3\n", "has no column 'true_label'"),
        ("what,true_label\n0,3\n", "has no column 'row' or 'id', only 'what', 'true_label'"),
        ("row,true_label\n", "has no rows"),
        ("row,true_label\n1,3\n", "line 2: there is no row with the row '1'"),
        ("row,true_label\n0,3\n0,5\n", "has two answers for the row 0; keep one"),
        ("row,label,true_label\n0,5,3\n", "line 2: the label is '5', but the data has '3' there"),
        ("row,true_label\n0,9\n", "Write - for a row that belongs to no class"),
        ("row,true_label,drawn_from\n0,3,x\n", "must say 'pool' or 'all'"),
        (b"row,true_label\n0,caf\xe9\n", "is not UTF-8: line 2"),
        (b"\x80\x04", "is a pickle, not a CSV file of answers"),
    ],
)
def test_answers_that_do_not_fit_are_refused(write, content, complaint):
    with pytest.raises(InputError) as caught:
        read_answers(write(content), ROWS, LABEL)
    assert complaint in str(caught.value)


def test_an_answer_that_is_emptied_is_withdrawn_by_its_own_file_only(fitted, digits40):
    """Of two people who share a draw, each has a file with gaps."""
    checks = checks_of(fitted, digits40.y_true, 20)
    first, second, third = checks.positions[:3]
    other = FILE.with_name("other.csv")
    shared = checks.with_answers({first: "3", second: None}, other)
    assert (shared.known[first], shared.known[second]) == ("3", checks.known[second])
    fewer = shared.with_answers({first: None, third: None}, FILE)
    assert third not in fewer.known
    assert (fewer.known[first], len(fewer.unanswered)) == ("3", 1)


def test_no_class_and_cannot_tell_are_answers(write):
    found = read_answers(write("row,true_label\n2,-\n4,?\n"), ROWS, LABEL)
    assert found.by_position == {1: "-", 2: "?"}


@pytest.fixture(scope="module")
def fitted(digits40):
    return KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_


def checks_of(selection, truth, n, **changes) -> Checks:
    rows = selection.draw_checks(n)
    about = {
        "drawn": "pool",
        "guarantee": "mean",
        "confidence": 0.95,
        "q": 0.1,
        "seed": 0,
        "fingerprint": selection.manifest.fingerprint,
        "positions": tuple(rows.tolist()),
        **changes,
    }
    return Checks(**about).with_answers({int(r): str(truth[r]) for r in rows}, FILE)


def test_a_loaded_selection_has_the_answers_and_what_was_fitted_stays(fitted, digits40, tmp_path):
    folder = fitted.save(tmp_path / "s")
    write_checks(folder, checks_of(fitted, digits40.y_true, 80))
    rows = fitted.draw_checks(80)
    expected = fitted.with_checks(rows, digits40.y_true[rows])
    assert np.array_equal(Selection.load(folder).clean_mask, expected.clean_mask)
    assert np.array_equal(Selection.load(folder, answers=False).clean_mask, fitted.clean_mask)


def test_checks_come_back_as_they_were_written(fitted, digits40, tmp_path):
    checks = checks_of(fitted, digits40.y_true, 20, drawn="all", guarantee="anytime")
    write_checks(tmp_path, checks)
    assert read_checks(tmp_path, fitted) == checks


def test_a_draw_moves_the_cut_when_all_of_it_is_answered_and_not_before(fitted, digits40):
    """Three of a hundred answers once left three rows of 1,416."""
    checks = checks_of(fitted, digits40.y_true, 100)
    few = replace(checks, answers={}).with_answers(dict(list(checks.known.items())[:3]), FILE)
    rows = fitted.draw_checks(100)
    answered = apply_checks(fitted, few)
    right = digits40.y_true[rows[:3]] == digits40.y[rows[:3]]
    assert (answered.clean_mask[rows[:3]] == right).all()
    others = np.setdiff1d(np.arange(len(fitted)), rows[:3])
    assert (answered.clean_mask[others] == fitted.clean_mask[others]).all()
    assert answered.cut_groups.n_kept.sum() == answered.clean_mask.sum()
    assert few.progress == "3 of 100 checks are done; they move the threshold once all of them are."
    assert checks.progress == "100 of 100 checks are done."
    done = apply_checks(fitted, checks).clean_mask
    assert (done == fitted.with_checks(rows, digits40.y_true[rows]).clean_mask).all()
    # More rows leave a finished draw in force until they are answered, too.
    more = replace(checks, positions=tuple(fitted.draw_checks(150).tolist()), settled=100)
    assert (apply_checks(fitted, more).clean_mask == done).all()
    assert more.progress.startswith("100 of 150 checks are done; those after the first 100 move")


def test_answers_leave_a_fit_at_raised_levels_as_it_is(digits40):
    selection = PaperKnockoffsSPR(samples_per_class=None).fit(digits40.X, digits40.y).selection_
    answered = selection.with_checks([0], [digits40.y[0]], drawn="chosen")
    assert (answered.clean_mask[1:] == selection.clean_mask[1:]).all()
    assert answered.clean_mask[0]


def test_rows_passed_over_count_as_wrong_and_rows_not_reached_do_not_count(fitted, digits40):
    checks = checks_of(fitted, digits40.y_true, 40)
    known = checks.known
    rows = fitted.draw_checks(40).tolist()
    for row in (rows[5], *rows[30:]):
        del known[row]
    part = replace(checks, answers={}).with_answers(known, FILE)
    assert part.reached == tuple(rows[:30])
    assert part.n_left_empty == 1
    answered = apply_checks(fitted, part, unfinished=True)
    assert answered.checked.counted.sum() == 30
    assert not answered.clean_mask[rows[5]]


@pytest.mark.parametrize(
    "change",
    [
        {"positions": [10**6]},
        {"positions": ["0"]},
        {"answers": {"-1": "3"}},
        {"answers": {"0": 3}},
        {"answers": {"zero": "3"}},
        {"drawn": "somehow"},
        {"guarantee": 7},
        {"q": 2.0},
        {"confidence": None},
        {"seed": "0"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_damaged_checks_are_one_sentence(fitted, digits40, tmp_path, change):
    write_checks(tmp_path, checks_of(fitted, digits40.y_true, 5))
    about = json.loads((tmp_path / "checks.json").read_text())
    (tmp_path / "checks.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(InputError, match="cannot be read: it is cut short or damaged"):
        read_checks(tmp_path, fitted)


@pytest.mark.parametrize("content", ["{", "[]", "", "3"])
def test_a_file_that_is_no_object_is_one_sentence(fitted, tmp_path, content):
    (tmp_path / "checks.json").write_text(content)
    with pytest.raises(InputError, match="cannot be read: it is cut short or damaged"):
        read_checks(tmp_path, fitted)
