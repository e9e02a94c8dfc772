"""Answers in a CSV file: found by row or id, in any dialect, refused where they do not fit."""

import json

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.runs.answers import Rows, checked_rows, read_answers

ROWS = Rows(np.array([0, 2, 4]), np.array(["a", "b", "c"]), np.array([3, 5, 3]))


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
    found = read_answers(write(content), ROWS)
    assert found.position.tolist() == [1, 2]
    assert found.truth.tolist() == ["3", "-"]
    assert found.unanswered.tolist() == [0]
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
    found = read_answers(write_tasks(task("b", "3", "3"), task("c", "-"), task("a")), ROWS)
    assert found.position.tolist() == [1, 2]
    assert found.truth.tolist() == ["3", "-"]
    assert found.unanswered.tolist() == [0]
    assert found.drawn_from is None
    assert read_answers(write_tasks(task("b", "5", drawn_from="all")), ROWS).drawn_from == "all"


def test_people_who_differ_or_skip_cannot_tell(write_tasks):
    tasks = write_tasks(task("a", "3", "5"), task("b", None), task("c", "?"))
    assert read_answers(tasks, ROWS).truth.tolist() == ["?", "?", "?"]


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
        read_answers(write_tasks(*tasks), ROWS)
    assert complaint in str(caught.value)


def test_ids_that_could_mean_several_rows_are_refused(write, write_tasks):
    twice = Rows(ROWS.row, np.array(["a", "a", "b"]), ROWS.label)
    for path in (write_tasks(task("b", "3")), write("id,true_label\nb,3\n")):
        with pytest.raises(InputError, match="ids of the rows are not distinct"):
            read_answers(path, twice)
    assert read_answers(write("row,id,true_label\n2,a,3\n"), twice).position.tolist() == [1]


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
        read_answers(write(content), ROWS)
    assert complaint in str(caught.value)


def test_only_answers_drawn_from_all_rows_may_move_a_cut(write):
    assert checked_rows(write("row,true_label,drawn_from\n2,3,all\n"), ROWS) == ({1: "3"}, "all")
    for said in ("pool", ""):
        found = checked_rows(write(f"row,true_label,drawn_from\n2,3,{said}\n"), ROWS)
        assert found == ({1: "3"}, "chosen")
    with pytest.raises(InputError, match="has no answers yet"):
        checked_rows(write("row,true_label\n2,\n"), ROWS)


def test_no_class_and_cannot_tell_are_answers(write):
    found = read_answers(write("row,true_label\n2,-\n4,?\n"), ROWS)
    assert found.truth.tolist() == ["-", "?"]
