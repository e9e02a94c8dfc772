"""Labels of several annotators are read in every form, and refused in one sentence."""

import numpy as np
import pandas as pd
import pytest

from kspr.errors import InputError
from kspr.selectors.annotators import read_votes


def entries(crowd) -> set:
    """Return all labels as (row, annotator, label)."""
    votes = crowd.votes
    names, labels = crowd.annotators[votes.annotator], crowd.classes[votes.label]
    return set(zip(votes.row.tolist(), names.tolist(), labels.tolist(), strict=True))


WANTED = {(0, "ann", 3), (0, "bob", 4), (1, "bob", 3), (2, "ann", 4)}


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"ann": [3, None, 4], "bob": [4, 3, None]}),
        pd.DataFrame({"ann": [3, -1, 4], "bob": [4, 3, -1]}),
        pd.DataFrame({"ann": [3, None, 4], "bob": [4, 3, None]}, dtype="Int64"),
        pd.DataFrame({"ann": [3, None, 4], "bob": [4, 3, None]}, dtype=object),
    ],
    ids=["nan", "minus one", "nullable", "objects"],
)
def test_gaps_of_every_kind_are_gaps(table):
    assert entries(read_votes(table, 3)) == WANTED


def test_texts_have_empty_gaps():
    crowd = read_votes(np.array([["a", "b"], ["", "a"]]), 2)
    assert entries(crowd) == {(0, 0, "a"), (0, 1, "b"), (1, 1, "a")}


def test_a_long_table_is_the_same_as_a_wide_one():
    row, name, label = zip(*sorted(WANTED, key=str), strict=True)
    crowd = read_votes((np.array(row), np.array(name), np.array(label)), 3)
    assert entries(crowd) == WANTED


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.array([0, 1, 0]), "y must have one column per annotator, got an array of shape"),
        (np.array([[0, 1], [1, 1]]), "X has 3 rows but y has 2"),
        (np.array([[0, 1], [-1, -1], [1, 1]]), "1 rows have no label .* the first is row 1"),
        (np.array([[0, -1], [1, -1], [1, -1]]), "Annotator 1 has given no label"),
        (np.array([[0, -1], [1, -1], [-1, 1]]), "No row has labels of two annotators"),
        (
            ([0, 0, 1, 2], ["a", "a", "a", "b"], [1, 1, 0, 0]),
            "Annotator a has labelled row 0 twice",
        ),
        (([0, 1, 2, 3], ["a", "a", "a", "b"], [1, 1, 0, 0]), "whole numbers from 0 to 2"),
        (([0, 1], ["a", "b"]), "three columns of one length"),
    ],
)
def test_what_cannot_be_used_is_named(y, words):
    with pytest.raises(InputError, match=words):
        read_votes(y, 3)
