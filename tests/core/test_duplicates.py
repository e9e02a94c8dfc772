"""Copies of rows: which are found, which are not, and what their labels say."""

import numpy as np
import pytest

from kspr.core.duplicates import (
    CopySearch,
    conflicting,
    contradicted,
    directions,
    join_sets,
    repeated,
    sharing,
)


def rows_of(n: int, p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, p))


def found_in(X: np.ndarray) -> np.ndarray | None:
    """Return the copies among plain features, projected where they are many."""
    rng = np.random.default_rng(0)
    R = directions(X.shape[1], rng)
    return sets_of([X if R is None else X @ R], rng, exact=R is None)


def sets_of(views: list[np.ndarray], rng: np.random.Generator, *, exact: bool) -> np.ndarray | None:
    """Return the copies among rows that are known by these views."""
    n = len(views[0])
    size = CopySearch.sample_size(n)
    if not size:
        return None
    sample = rng.choice(n, size, replace=False)
    search = CopySearch.from_sample([view[sample] for view in views], n, rng, exact=exact)
    if search is None:
        return None
    rows = sharing(search.cells(views[-1]))
    return search.sets([view[rows] for view in views], rows, n)


def with_copies(n: int, p: int, jitter: float, m: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return `n` random rows with `m` copies of rows 0, 1 and 2 behind them, and their sets."""
    X = rows_of(n, p)
    copied = np.repeat(X[:3], m, axis=0)
    copied = copied + jitter * rows_of(len(copied), p, 1)
    truth = np.full(n + 3 * m, -1)
    truth[:3] = np.arange(3)
    truth[n:] = np.repeat(np.arange(3), m)
    return np.concatenate([X, copied]), truth


@pytest.mark.parametrize("p", [1, 2, 5, 16, 17, 100])
def test_exact_copies_are_found_in_any_number_of_dimensions(p):
    X, truth = with_copies(500, p, 0.0)
    np.testing.assert_array_equal(found_in(X), truth)


@pytest.mark.parametrize("p", [10, 16, 100])
def test_near_copies_are_found_and_neighbours_are_not(p):
    X, truth = with_copies(2500, p, 1e-3)
    np.testing.assert_array_equal(found_in(X), truth)


@pytest.mark.parametrize("p", [1, 2, 3, 10, 100])
def test_rows_that_are_near_by_chance_are_no_copies(p):
    """In one dimension a thousandth of these rows are nearer than a thousandth of the usual."""
    for seed in range(5):
        assert found_in(rows_of(3000, p, seed)) is None


def test_copies_do_not_depend_on_scale_or_place():
    X, truth = with_copies(400, 20, 1e-4)
    np.testing.assert_array_equal(found_in(1e5 * X + 1e6), truth)


def test_equal_rows_of_a_table_with_few_values_are_no_copies():
    table = np.random.default_rng(0).integers(0, 2, (1000, 3)).astype(float)
    assert found_in(table) is None


def test_a_dense_region_is_no_set_of_copies_but_equal_rows_in_it_are():
    """A chain of rows, each near the next, beside rows that are far from each other."""
    chain = np.zeros((200, 8))
    chain[:, 0] = 0.05 * np.arange(200)
    X = np.concatenate([chain, 5 * rows_of(800, 8), chain[:1]])
    found = found_in(X)
    assert found[0] == found[-1] == 0
    assert (found >= 0).sum() == 2


def test_rows_must_be_near_in_every_view():
    X, _ = with_copies(300, 10, 0.0)
    other = rows_of(len(X), 10, 5)
    rng = np.random.default_rng(0)
    assert sets_of([other, X], rng, exact=True) is None
    assert sets_of([X, other], rng, exact=True) is None


def test_few_rows_equal_rows_and_infinite_projections_have_no_copies():
    assert found_in(np.zeros((5, 2))) is None
    assert found_in(np.ones((50, 40))) is None
    assert found_in(np.full((50, 3), np.inf)) is None


def test_joined_sets_are_those_of_both():
    assert join_sets(np.array([0, 0, -1, -1]), np.full(4, -1)).tolist() == [0, 0, -1, -1]
    chained = join_sets(np.array([1, 1, 0, 0, -1]), np.array([-1, 3, 3, -1, 3]))
    assert chained.tolist() == [0, 0, 0, 0, 0]


def test_labels_of_copies_are_told_apart():
    sets = np.array([2, 2, 2, -1, 0, 0])
    label = np.array([0, 1, 1, 1, 3, 3])
    assert conflicting(sets, label).tolist() == [True, True, True, False, False, False]
    assert repeated(sets, label).tolist() == [False, False, True, False, False, True]
    Z = np.array([0.5, 0.2, 0.4, 9.0, 9.0, 8.0])
    assert contradicted(sets, label, Z).tolist() == [True, False, False, False, False, False]
