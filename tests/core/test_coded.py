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
    Coded,
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
