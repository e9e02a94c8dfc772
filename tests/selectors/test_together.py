"""Groups as users give them, and copies in every kind of features."""

import numpy as np
import pytest
import scipy.sparse as sp

from kspr.core.labels import encode_labels
from kspr.errors import InputError
from kspr.selectors.feature_rows import as_features
from kspr.selectors.together import copies_in, read_groups


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


def pairs(sets: np.ndarray) -> list[list[int]]:
    return [np.flatnonzero(sets == k).tolist() for k in range(sets.max() + 1)]


@pytest.mark.parametrize("p", [12, 60])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_copies_are_found_in_every_precision(p, kind):
    assert pairs(copies_in(as_features(copied(p, kind)))) == [[3, 599], [5, 598]]


@pytest.mark.parametrize("p", [12, 60])
def test_copies_are_found_in_sparse_features(p):
    X = copied(p, np.float64) * (np.random.default_rng(1).random((600, p)) < 0.8)
    X[-1], X[-2] = X[3], X[5]
    assert pairs(copies_in(as_features(sp.csr_array(X)))) == [[3, 599], [5, 598]]


def test_copies_are_found_in_tensors():
    torch = pytest.importorskip("torch")
    found = copies_in(as_features(torch.asarray(copied(60))))
    assert pairs(found) == [[3, 599], [5, 598]]


def test_a_column_of_large_numbers_does_not_hide_how_rows_differ():
    """Two rows with one salary and one age are no copies if they differ in everything else."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8))
    X[:, 0] = 1e6 * rng.standard_normal(500)
    X[9, 0] = X[4, 0]
    assert copies_in(as_features(X)) is None


def test_a_column_that_hardly_varies_does_not_make_all_other_columns_small():
    X = copied(20, np.float64)
    X[:, 0] = 1e-9 * np.random.default_rng(1).standard_normal(600)
    X[7] = X[2] + 1.0
    X[7, 0] = X[2, 0]
    assert pairs(copies_in(as_features(X)))[-1] == [5, 598]
    assert copies_in(as_features(X))[7] == -1


def test_features_too_large_to_compare_have_no_copies():
    X = (3e38 * np.sign(copied(20))).astype(np.float32)
    assert copies_in(as_features(X)) is None
