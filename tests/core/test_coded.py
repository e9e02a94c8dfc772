"""Columns in few bytes: read as they were given, changed without being decoded."""

from dataclasses import dataclass

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr import KnockoffsSPR, Selection
from kspr.core import coded
from kspr.core.coded import (
    AllRows,
    Coded,
    InParts,
    as_read,
    changed,
    doubts,
    label_at,
    part_of,
    row_ranges,
    stored_columns,
)
from kspr.core.labels import stored_codes


@stored_columns("label")
@dataclass(frozen=True, eq=False)
class Answer:
    label: np.ndarray
    classes: np.ndarray
    kept: int = 0


@pytest.mark.parametrize("n_classes", [2, 256, 257, 70_000])
def test_codes_take_as_few_bytes_as_the_classes_need(n_classes):
    codes = np.arange(n_classes)
    column = Coded(codes, np.arange(n_classes).astype(str))
    assert column.codes.dtype == np.min_scalar_type(n_classes - 1)
    assert column.values()[-1] == str(n_classes - 1)
    assert len(column) == n_classes


def test_a_coded_field_is_read_as_an_array_and_kept_as_codes():
    classes = np.array(["cat", "dog"])
    found = Answer(Coded(np.array([1, 0, 1]), classes), classes)
    assert found.label.tolist() == ["dog", "cat", "dog"]
    other = changed(found, kept=3)
    assert other.kept == 3
    assert isinstance(other.__dict__["label"], Coded)
    plain = Answer(np.array(["dog", "cat"]), classes)
    for answer in (found, plain):
        assert stored_codes(answer, "label").tolist()[:2] == [1, 0]
        assert label_at(answer, "label", 1) == "cat"


@given(hnp.arrays(np.float32, st.integers(1, 30), elements=st.floats(0, 1, width=32)))
def test_doubts_keep_the_order_of_the_most_suspicious_rows(right):
    column = doubts(right)
    expected = 1.0 - right.astype(np.float64)
    np.testing.assert_array_equal(as_read(column), expected)
    np.testing.assert_array_equal(part_of(column, slice(1, 3)), expected[1:3])
    assert as_read(expected) is expected


def test_large_columns_are_not_kept_decoded(monkeypatch):
    column = Coded(np.array([1, 0]), np.array(["a", "b"]))
    assert column.array() is column.array()
    monkeypatch.setattr(coded, "_KEPT", 0)
    column = Coded(np.array([1, 0]), np.array(["a", "b"]))
    assert column.array() is not column.array()


def test_ranges_are_all_rows_in_order():
    rows = [*row_ranges(2 * coded.ROWS + 5)]
    assert len(rows) == 3
    assert (
        np.concatenate([np.arange(2 * coded.ROWS + 5)[r] for r in rows]).size == 2 * coded.ROWS + 5
    )


@pytest.mark.parametrize(
    "names", [["a", "b"], [3, 70_000], [0.5, 1.5], [True, False], ["a" * 40, "b"]]
)
def test_labels_of_every_type_come_back_through_fit_and_disk(tmp_path, names, monkeypatch):
    # Several row groups, the last one not full.
    monkeypatch.setattr(coded, "ROWS", 77)
    rng = np.random.default_rng(0)
    code = rng.integers(2, size=200)
    y = np.array(names)[code]
    X = rng.standard_normal((200, 4)) + 3 * code[:, None]
    fitted = KnockoffsSPR(q=0.2).fit(X, y).selection_
    np.testing.assert_array_equal(fitted.label, y)
    assert fitted.label.dtype == y.dtype
    loaded = Selection.load(fitted.save(tmp_path / "run"))
    for name in ("label", "suggested_label", "knockoff_label", "q_value", "clean_mask"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name))
        assert getattr(loaded, name).dtype == getattr(fitted, name).dtype
    assert str(loaded.at(0.3).summary()) == str(fitted.at(0.3).summary())


class Squares(InParts):
    """Counts how many rows are made at a time."""

    most = 0

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    def part(self, start: int, stop: int) -> np.ndarray:
        self.most = max(self.most, stop - start)
        return np.arange(start, stop) ** 2


PLACES = (
    *(slice(None), slice(3, 17, 2), slice(5, 2), slice(-4, None)),
    *(7, -1, np.int64(3), [], [22, 0, 22, -3, 9], np.arange(23) % 3 == 0),
)


@pytest.mark.parametrize("rows", PLACES, ids=str)
def test_rows_of_all_kinds_are_those_of_the_array(rows, monkeypatch):
    monkeypatch.setattr(coded, "ROWS", 5)
    rows = np.array(rows, dtype=int) if isinstance(rows, list) else rows
    every = np.arange(23)
    for column, whole in ((AllRows(23), every), (Squares(23), every**2)):
        np.testing.assert_array_equal(column[rows], whole[rows])
        assert np.ndim(column[rows]) == np.ndim(whole[rows])
        assert column.tolist() == whole.tolist()
        np.testing.assert_array_equal(column[rows], whole[rows])  # from what is kept of it


def test_rows_that_are_not_there_are_refused():
    for column in (AllRows(4), Squares(4)):
        with pytest.raises(IndexError, match="none of 4 rows"):
            column[np.array([0, 4])]
        assert len(list(column)) == 4


def test_chosen_rows_are_read_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(coded, "ROWS", 5)
    column = Squares(23)
    np.testing.assert_array_equal(column[np.array([22, 0, 9])], [484, 0, 81])
    assert column.most == 5
