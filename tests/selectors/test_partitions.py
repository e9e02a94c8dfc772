"""The first look at a partition: checks that name rows of the whole data, and what is noted."""

import sys

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.selectors._partitions import Dealt, Rows, look, mark, merge_looks, read_rows
from tests.selectors.clusters import cut, noisy_data

X, y = noisy_data(300)


def looked(*rows: Rows) -> object:
    starts = np.cumsum([0, *(len(part.y) for part in rows)]).tolist()
    states = [look(part, i, starts[i], (1,), True)[0] for i, part in enumerate(rows)]
    return merge_looks(*states)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (Rows(X[:, :5], y), "Partition 0 has 12 features, but partition 1 has 5 features"),
        (Rows(X.astype(float), y), "features of type float32, but partition 1 .* type float64"),
        (Rows(X, y.astype(str)), "labels that are numbers, but partition 1 has labels that are te"),
        (Rows(X, y[:7]), "Partition 1 of X has 300 rows, but that of y 7"),
        (Rows(np.where(X[4, 3] == X, np.nan, X), y), "NaN or inf in row 304"),
        (Rows(X, np.where(np.arange(300) == 9, np.nan, y)), "no label .* in row 309"),
        (Rows(X.astype(str), y), "Partition 1 of X holds <U.*, not numbers"),
    ],
)
def test_a_partition_that_does_not_fit_is_named_with_its_rows(changed, words):
    with pytest.raises(InputError, match=words):
        looked(Rows(X, y), changed)


def test_empty_partitions_and_labels_of_one_partition_only_are_fine():
    found = looked(Rows(X[:0, :3], y[:0]), Rows(X, y), Rows(X[:9], np.full(9, 77)))
    assert found.censuses[0].classes.tolist() == [0, 1, 2, 3, 77]
    assert found.censuses[0].n_rows == 309


def test_the_digest_tells_any_change_and_does_not_depend_on_partitions():
    whole = looked(Rows(X, y)).digest
    assert looked(*cut(X, y, 17, 200).rows).digest == whole
    order = np.arange(300)[::-1]
    other = y.copy()
    other[5] = (other[5] + 1) % 4
    for changed in (Rows(X[order], y[order]), Rows(X, other), Rows(X + 1, y)):
        assert looked(changed).digest != whole


@pytest.mark.parametrize("groups", [None, np.arange(300) // 3])
@pytest.mark.parametrize("keep_copies", [True, False])
def test_marks_are_the_same_whenever_they_are_made(groups, keep_copies):
    rows = Rows(X, y, groups)
    _, first = look(rows, 0, 0, (1, 2), keep_copies)
    again = mark(rows, (1, 2), keep_copies)
    for name, value in vars(first).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert (first.coins is None) == (groups is None and not keep_copies)


def test_equal_rows_and_rows_of_a_group_are_in_one_half():
    doubled, labels = np.concatenate([X, X]), np.concatenate([y, y])
    for groups in (None, np.tile(np.arange(300), 2)):
        found, marks = look(Rows(doubled, labels, groups), 0, 0, (5,), True)
        census = found.censuses[0]
        # More than half of the rows have a copy, which is no reason to part those of a group.
        deal = census.deal(100, groups=groups is not None)
        placed, _ = Dealt(census.classes, 600, (5,), (deal,), True).place(marks, 0)
        same = (placed.half[0, :300] == placed.half[0, 300:]).all()
        assert same == (groups is not None)
    assert sys.getsizeof(marks) > marks.coins.nbytes + marks.codes.nbytes


def test_arrays_and_lists_become_rows():
    rows = read_rows([[1.0, 2.0]], ["a"], [5])
    assert rows.X.shape == (1, 2)
    assert rows.groups.tolist() == [5]
    with pytest.raises(InputError, match="two dimensions"):
        read_rows([1.0], ["a"])
