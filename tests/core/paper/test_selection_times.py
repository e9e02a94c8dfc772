"""The laws of selection times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from kspr.core.paper.selection_times import (
    PENALTIES,
    Penalty,
    gamma_path,
    group,
    lasso,
    selection_times,
)
from kspr.core.regression import Targets, fit_basis

from .regression_problems import (
    SHAPES,
    intercepts,
    penalties,
    problem,
    residual_maker,
)


def labelled(seed: int, pieces: int, n: int, p: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Return blobs ``(pieces, n, p)`` and their labels, a fifth of which are random."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, c, (pieces, n))
    X = rng.standard_normal((c, p))[label] + 0.7 * rng.standard_normal((pieces, n, p))
    return X, np.where(rng.random(label.shape) < 0.2, rng.integers(0, c, label.shape), label)


def times(
    X: np.ndarray,
    label: np.ndarray,
    c: int,
    penalty: Penalty = group,
    *,
    intercept: bool = False,
    valid: np.ndarray | None = None,
    max_directions: int | None = None,
    **options: int,
) -> np.ndarray:
    valid = np.ones(label.shape, dtype=bool) if valid is None else valid
    basis = fit_basis(X, valid, intercept, max_directions or X.shape[-1])
    targets = Targets.from_labels(label, c, X.dtype)
    return selection_times(basis.transform(X), targets, valid, penalty, **options)


@penalties
@intercepts
@pytest.mark.parametrize(("seed", "kind"), [(0, "one_hot"), (2, "real"), (4, "real")])
def test_times_are_where_the_path_first_leaves_zero(
    seed: int, kind: str, intercept: bool, penalty: Penalty
) -> None:
    """A fine grid of the converged path is the reference.

    Followed closely, times agree with it to its resolution, but for the last rows to enter,
    where the cut groups of the quantile grid are wide. The quick default gets the order right.
    """
    n, p, c = SHAPES[seed]
    X, Y = problem(seed, n, p, c, kind)
    largest = penalty(residual_maker(X, intercept) @ Y).max()
    lams, resolution = np.linspace(largest, 0.01 * largest, 150, retstep=True)
    on = (gamma_path(X, Y, lams, penalty, intercept=intercept) != 0).any(axis=-1)
    entry = np.where(on.any(axis=0), lams[on.argmax(axis=0)], 0.0)

    valid = np.ones((1, n), dtype=bool)
    Q = fit_basis(X[None], valid, intercept, p).transform(X[None])
    targets = Targets.from_matrix(Y[None])
    (close,) = selection_times(Q, targets, valid, penalty, steps=256, sweeps=20)
    early = entry >= np.quantile(entry, 0.15)
    assert np.abs(close - entry)[early].max() <= 1.3 * abs(resolution)
    assert np.abs(close - entry).max() <= 0.05 * largest
    (quick,) = selection_times(Q, targets, valid, penalty)
    assert spearmanr(quick, entry).statistic > 0.97
    assert np.abs(quick - entry).mean() < 0.05 * largest


@penalties
@intercepts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "c"), [(40, 2), (5_000, 10)])
def test_times_have_no_ties_on_random_data(
    n: int, c: int, dtype: type, intercept: bool, penalty: Penalty
) -> None:
    X, label = labelled(1, 2, n, 8, c)
    for Z in times(X.astype(dtype), label, c, penalty, intercept=intercept):
        assert len(np.unique(Z)) == n
        assert Z.min() > 0


def test_single_precision_times_have_no_ties_in_large_pieces() -> None:
    """100,000 times are more than the float32 numbers near them can tell apart."""
    X, label = labelled(2, 1, 100_000, 4, 3)
    assert len(np.unique(times(X.astype(np.float32), label, 3))) == 100_000


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(12, 80),
    c=st.integers(2, 5),
    tail=st.sampled_from([0.6, 1.0, 3.0]),
    penalty=st.sampled_from(list(PENALTIES.values())),
)
def test_times_have_no_ties_on_heavy_tails(
    seed: int, n: int, c: int, tail: float, penalty: Penalty
) -> None:
    rng = np.random.default_rng(seed)
    X, label = rng.standard_t(tail, (1, n, 3)), rng.integers(0, c, (1, n))
    (Z,) = times(X, label, c, penalty)
    assert np.isfinite(Z).all()
    assert len(np.unique(Z)) == n


@penalties
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), pieces=st.integers(2, 6), intercept=st.booleans())
def test_pieces_solved_together_are_solved_as_alone(
    penalty: Penalty, seed: int, pieces: int, intercept: bool
) -> None:
    X, label = labelled(seed, pieces, 40, 4, 3)
    together = times(X, label, 3, penalty, intercept=intercept)
    alone = [
        times(X[b : b + 1], label[b : b + 1], 3, penalty, intercept=intercept)[0]
        for b in range(pieces)
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-9)


@penalties
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans(), junk=st.floats(-100, 100))
def test_padding_changes_nothing(penalty: Penalty, seed: int, intercept: bool, junk: float) -> None:
    X, label = labelled(seed, 1, 40, 4, 3)
    rng = np.random.default_rng(seed)
    valid = np.zeros((1, 65), dtype=bool)
    valid[0, np.sort(rng.choice(65, 40, replace=False))] = True
    wide, wide_label = np.full((1, 65, 4), junk), np.full((1, 65), 2)
    wide[valid], wide_label[valid] = X[0], label[0]
    padded = times(wide, wide_label, 3, penalty, intercept=intercept, valid=valid)
    bare = times(X, label, 3, penalty, intercept=intercept)
    np.testing.assert_allclose(padded[valid], bare[0], rtol=1e-7, atol=1e-9)
    assert not padded[~valid].any()


@penalties
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans())
def test_times_follow_their_rows(penalty: Penalty, seed: int, intercept: bool) -> None:
    X, label = labelled(seed, 1, 50, 4, 3)
    order = np.random.default_rng(seed).permutation(50)
    moved = times(X[:, order], label[:, order], 3, penalty, intercept=intercept)
    Z = times(X, label, 3, penalty, intercept=intercept)
    np.testing.assert_allclose(moved[0], Z[0, order], rtol=1e-7, atol=1e-9)


@penalties
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), intercept=st.booleans())
def test_times_do_not_depend_on_the_basis_of_the_columns(
    penalty: Penalty, seed: int, intercept: bool
) -> None:
    """Column scales from 1e-6 to 1e6, an invertible map, dependent and constant columns."""
    rng = np.random.default_rng(seed)
    X, label = labelled(seed, 1, 60, 4, 3)
    Z = times(X, label, 3, penalty, intercept=intercept)
    mapped = X @ (np.linalg.qr(rng.standard_normal((4, 4)))[0] * rng.uniform(0.2, 5, 4))
    scaled = X * 10.0 ** rng.integers(-6, 7, 4)
    doubled = np.concatenate([X, 2 * X[..., :1], X[..., 1:2] - X[..., 2:3]], axis=-1)
    variants = [mapped, scaled, doubled, np.concatenate([X, np.zeros((1, 60, 1))], axis=-1)]
    if intercept:
        constant = np.full((1, 60, 1), rng.uniform(-1e3, 1e3))
        variants += [np.concatenate([X, constant], axis=-1), X + rng.uniform(-10, 10, 4)]
    for variant in variants:
        other = times(variant, label, 3, penalty, intercept=intercept)
        np.testing.assert_allclose(other, Z, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
def test_single_precision_withstands_awkward_columns(intercept: bool) -> None:
    X, label = labelled(3, 2, 400, 5, 4)
    Z = times(X, label, 4, intercept=intercept)
    awkward = np.concatenate([X, X[..., :2], np.zeros((2, 400, 1))], axis=-1)
    awkward *= 10.0 ** np.array([-6, 6, -3, 3, 0, 4, -4, 0])
    if intercept:
        awkward[..., -1] = 0.1
    single = times(awkward.astype(np.float32), label, 4, intercept=intercept)
    np.testing.assert_allclose(single, Z, atol=2e-3)


@penalties
@intercepts
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_directions", [5, 40])
def test_more_columns_than_rows_give_finite_times(
    max_directions: int, dtype: type, intercept: bool, penalty: Penalty
) -> None:
    X, label = labelled(0, 3, 20, 40, 3)
    Z = times(
        X.astype(dtype),
        label,
        3,
        penalty,
        intercept=intercept,
        max_directions=max_directions,
    )
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    if max_directions < 20:
        assert len(np.unique(Z)) == Z.size


def test_labels_and_their_one_hot_matrix_are_the_same_targets() -> None:
    X, label = labelled(0, 2, 40, 4, 3)
    valid = np.ones(label.shape, dtype=bool)
    Q = fit_basis(X, valid, False, 4).transform(X)
    matrix = Targets.from_matrix(np.eye(3)[label])
    for penalty in (group, lasso):
        np.testing.assert_array_equal(
            selection_times(Q, matrix, valid, penalty), times(X, label, 3, penalty)
        )


def test_wrong_labels_enter_first() -> None:
    """Far blobs, one label in ten wrong: the times separate wrong from right."""
    rng = np.random.default_rng(0)
    true = np.tile(np.arange(4), 50)[None]
    X = 4 * np.eye(4)[true] + 0.3 * rng.standard_normal((1, 200, 4))
    wrong = np.arange(200)[None] % 10 == 0
    label = np.where(wrong, (true + 1) % 4, true)
    for penalty in (group, lasso):
        Z = times(X, label, 4, penalty)
        assert Z[wrong].min() > Z[~wrong].max()
