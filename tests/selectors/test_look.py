"""The first look at all rows: copies, groups as users give them, and what identifies the data."""

import numpy as np
import pytest
import scipy.sparse as sp

from kspr.core.labels import encode_labels
from kspr.errors import InputError
from kspr.selectors.look import look
from kspr.selectors.parts import HostFeatures
from kspr.selectors.validation import read_groups


@pytest.mark.parametrize(
    "groups",
    [
        [7, 7, 3, 1, 3],
        np.array([0.5, 0.5, 2.0, -1.0, 2.0]),
        ["a", "a", "film", "", "film"],
        [("a", 1), ("a", 1), "x", 3, "x"],
    ],
)
def test_groups_of_any_type_become_sets(groups):
    if isinstance(groups[0], tuple):
        mixed = np.empty(5, dtype=object)
        mixed[:] = groups
        groups = mixed
    labels = encode_labels([0, 1, 0, 1, 1])
    assert read_groups(groups, labels).tolist() == [0, 0, 1, -1, 1]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([1, 2, 3], "groups must hold one entry per row: X has 4 rows, groups has 3"),
        ([1, 2, np.nan, 3], "groups has no entry .* in row 2"),
        (["a", None, "b", "b"], "groups has no entry .* in row 1"),
        (np.ones((4, 2)), "groups should be a 1d array"),
        (["a", "b", "c", "b"], "All rows of class 'y' lie in one of the groups, so"),
        (["a"] * 4, r"class 'x' lie in one of the groups \(1 more classes do too\)"),
    ],
)
def test_wrong_groups_are_answered_by_a_sentence(groups, words):
    with pytest.raises(InputError, match=words):
        read_groups(groups, encode_labels(["x", "y", "x", "y"]))


def test_groups_that_cannot_be_compared_are_answered_by_a_sentence():
    lists = np.empty(2, dtype=object)
    lists[:] = [[1], [2]]
    with pytest.raises(InputError, match="groups must hold numbers, texts"):
        read_groups(lists, encode_labels(["x", "y"]))


def copied(p: int, kind: type = np.float32) -> np.ndarray:
    """Return 600 rows, of which the last is nearly row 3, and the one before it is row 5."""
    X = np.random.default_rng(0).standard_normal((600, p)).astype(kind)
    X[-1] = X[3] + 1e-3
    X[-2] = X[5]
    return X


def copies_in(X) -> np.ndarray | None:
    return look(HostFeatures(X), find_copies=True).copies


def pairs(sets: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(sets == k).tolist() for k in range(sets.max() + 1)]


@pytest.mark.parametrize("p", [12, 60])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_copies_are_found_in_every_precision(p, kind):
    assert pairs(copies_in(copied(p, kind))) == [[3, 599], [5, 598]]


@pytest.mark.parametrize("p", [12, 60])
def test_copies_are_found_in_sparse_features(p):
    X = copied(p, np.float64) * (np.random.default_rng(1).random((600, p)) < 0.8)
    X[-1], X[-2] = X[3], X[5]
    assert pairs(copies_in(sp.csr_array(X))) == [[3, 599], [5, 598]]


def test_a_column_of_large_numbers_does_not_hide_how_rows_differ():
    """Two rows with one salary and one age are no copies if they differ in everything else."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8))
    X[:, 0] = 1e6 * rng.standard_normal(500)
    X[9, 0] = X[4, 0]
    assert copies_in(X) is None


def test_a_column_that_hardly_varies_does_not_make_all_other_columns_small():
    X = copied(20, np.float64)
    X[:, 0] = 1e-9 * np.random.default_rng(1).standard_normal(600)
    X[7] = X[2] + 1.0
    X[7, 0] = X[2, 0]
    assert pairs(copies_in(X))[-1] == [5, 598]
    assert copies_in(X)[7] == -1


def test_the_content_of_rows_is_that_of_their_values_however_they_are_stored():
    X = np.random.default_rng(0).standard_normal((50, 7)) * (np.arange(50)[:, None] % 3 > 0)
    X[7], X[9, 2] = X[4], -0.0
    content = look(HostFeatures(X), find_copies=False).content
    assert content[7] == content[4]
    assert len(np.unique(content)) == len(np.unique(X, axis=0))
    stored = look(HostFeatures(sp.csr_array(X)), find_copies=False).content
    np.testing.assert_array_equal(content, stored)


@pytest.mark.parametrize(
    ("X", "sentence"),
    [
        (np.where(np.arange(20)[:, None] == 7, np.nan, 1.0), "X holds NaN or inf in row 7"),
        (np.where(np.arange(20)[:, None] > 7, np.inf, 1.0), "in rows 8, 9, 10, 11, 12 and 7 more"),
        (np.full((20, 2), 1e200), "largest absolute value between"),
        (np.full((20, 2), 1e-200), "largest absolute value between"),
        (np.full((20, 2), 1e20, dtype=np.float32), "got 1e[+]20"),
    ],
)
def test_rows_that_no_fit_could_use_are_named(X, sentence):
    for held in (X, sp.csr_array(X)):
        with pytest.raises(InputError, match=sentence):
            look(HostFeatures(held), find_copies=True)
