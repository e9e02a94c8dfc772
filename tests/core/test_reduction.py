"""Principal components: exact, randomised, batched and streamed."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import decomposition

from kspr.core.reduction import PCA, Solver, fit_pca

solvers = pytest.mark.parametrize("solver", ["auto", "exact", "randomised"])


def spectrum(seed: int, n: int, p: int, decay: float = 0.7, mean: float = 1.0) -> np.ndarray:
    """Return rows whose variances fall geometrically along hidden directions."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((p, p)))[0]
    scale = decay ** np.arange(p)
    return mean * rng.standard_normal(p) + rng.standard_normal((n, p)) * scale @ rotation.T


def fit(X: np.ndarray, d: int, solver: Solver = "exact") -> PCA:
    return fit_pca(lambda: [X], d, solver=solver, rng=np.random.default_rng(0))


def align(found: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return `found` with the signs of its columns chosen as in `reference`."""
    return found * np.sign((found * reference).sum(axis=-2, keepdims=True))


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(12, 80), p=st.integers(1, 10))
def test_exact_components_are_those_of_scikit_learn(seed: int, n: int, p: int) -> None:
    X = spectrum(seed, n, p, 0.5)
    d = (p + 1) // 2
    pca = fit(X[None], d)
    reference = decomposition.PCA(d, svd_solver="full").fit(X)
    np.testing.assert_allclose(pca.mean[0, 0], reference.mean_, atol=1e-10)
    wanted = reference.components_.T
    np.testing.assert_allclose(align(pca.components[0], wanted), wanted, atol=1e-5)
    scores = reference.transform(X)
    np.testing.assert_allclose(align(pca.transform(X[None])[0], scores), scores, atol=1e-5)


@solvers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_components_are_orthonormal_scores_uncorrelated_and_in_order(
    solver: Solver, dtype: type
) -> None:
    X = np.stack([spectrum(s, 300, 40) for s in range(3)]).astype(dtype)
    pca = fit(X, 6, solver)
    assert pca.components.dtype == dtype
    for V, scores in zip(pca.components, pca.transform(X), strict=True):
        np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-5)
        covariance = np.cov(scores.T)
        variance = np.diag(covariance)
        assert (np.diff(variance) < 0).all()
        off = covariance - np.diag(variance)
        assert np.abs(off).max() < 1e-4 * variance[0]


@pytest.mark.parametrize("decay", [0.7, 0.95])
def test_randomised_directions_capture_nearly_the_same_variance(decay: float) -> None:
    X = spectrum(0, 500, 120, decay)[None]
    captured = {
        solver: fit(X, 10, solver).transform(X).var(axis=1).sum()
        for solver in ("exact", "randomised")
    }
    assert captured["randomised"] <= captured["exact"] * (1 + 1e-9)
    assert captured["randomised"] >= 0.99 * captured["exact"]


def test_randomised_depends_on_its_generator_alone() -> None:
    X = spectrum(0, 200, 60, 0.95)[None]
    same, again, other = (
        fit_pca(lambda: [X], 5, solver="randomised", rng=np.random.default_rng(s)).components
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()


@solvers
def test_pieces_fitted_together_are_fitted_as_alone(solver: Solver) -> None:
    X = np.stack([spectrum(s, 60, 30, mean=3.0) for s in range(4)])
    together = fit(X, 4, solver)
    for b in range(4):
        alone = fit(X[b : b + 1], 4, solver)
        np.testing.assert_allclose(together.mean[b], alone.mean[0], atol=1e-12)
        np.testing.assert_allclose(
            align(together.components[b], alone.components[0]), alone.components[0], atol=1e-7
        )


@solvers
@pytest.mark.parametrize("step", [7, 50, 1000])
def test_streamed_blocks_are_as_good_as_one(solver: Solver, step: int) -> None:
    X = spectrum(0, 300, 30, mean=3.0)

    def blocks() -> list[np.ndarray]:
        return [X[None, start : start + step] for start in range(0, 300, step)]

    streamed = fit_pca(blocks, 4, solver=solver, rng=np.random.default_rng(0))
    whole = fit(X[None], 4, solver)
    np.testing.assert_allclose(streamed.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(
        align(streamed.components, whole.components), whole.components, atol=1e-7
    )


@solvers
@pytest.mark.parametrize(("d", "p"), [(50, 6), (6, 6), (7, 6)])
def test_more_components_than_columns_give_all_columns(solver: Solver, d: int, p: int) -> None:
    X = spectrum(0, 40, p)[None]
    pca = fit(X, d, solver)
    assert pca.components.shape == (1, p, p)
    back = pca.transform(X) @ np.swapaxes(pca.components, 1, 2) + pca.mean
    np.testing.assert_allclose(back, X, atol=1e-10)


@solvers
def test_more_components_than_rows_give_finite_scores(solver: Solver) -> None:
    X = spectrum(0, 8, 20)[None]
    scores = fit(X, 15, solver).transform(X)
    assert scores.shape == (1, 8, 15)
    assert np.isfinite(scores).all()
    total = X.var(axis=1).sum()
    np.testing.assert_allclose(scores.var(axis=1).sum(), total, rtol=1e-8)


def cosine(found: np.ndarray, reference: np.ndarray) -> float:
    """Return the cosine of the largest angle between two subspaces."""
    return float(np.linalg.svd(found.T.astype(np.float64) @ reference)[1].min())


def one_giant(seed: int, giant: float) -> np.ndarray:
    """Return 30 columns: one giant, five of scale 1 and the rest, mere noise, of scale 0.1."""
    scale = np.concatenate([[giant], np.ones(5), np.full(24, 0.1)])
    return np.random.default_rng(seed).standard_normal((2000, 30)) * scale


@solvers
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("giant", [1e2, 1e4, 1e6])
def test_small_columns_survive_large_ones(solver: Solver, dtype: type, giant: float) -> None:
    """Behind the giant, the columns that matter are found as a reference in doubles does."""
    X = one_giant(0, giant).astype(dtype)
    wanted = decomposition.PCA(6, svd_solver="full").fit(X.astype(np.float64)).components_.T
    assert cosine(fit(X[None], 6, solver).components[0], wanted) > 0.9999


@solvers
def test_small_directions_survive_large_ones(solver: Solver) -> None:
    """As above, the giant now hidden in all columns of a single-precision matrix."""
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((30, 30)))[0]
    X = (one_giant(0, 1e4) @ rotation).astype(np.float32)
    wanted = decomposition.PCA(6, svd_solver="full").fit(X.astype(np.float64)).components_.T
    assert cosine(fit(X[None], 6, solver).components[0], wanted) > 0.9999


@solvers
def test_a_large_mean_does_not_hide_the_variance(solver: Solver) -> None:
    X = spectrum(1, 400, 8, 0.5).astype(np.float32)
    shifted = (X + 100).astype(np.float32)
    plain, moved = fit(X[None], 3, solver), fit(shifted[None], 3, solver)
    np.testing.assert_allclose(
        align(moved.components, plain.components), plain.components, atol=1e-3
    )


def test_auto_is_exact_where_the_covariance_is_cheaper() -> None:
    X = spectrum(0, 200, 12)[None]
    np.testing.assert_allclose(
        fit(X, 4, "auto").components, fit(X, 4, "exact").components, atol=1e-12
    )


def test_blocks_may_be_made_anew_for_every_pass() -> None:
    """A generator function, as a reader of a large file would be."""
    X = spectrum(0, 100, 10)

    def reader() -> Callable[[], object]:
        def passes() -> object:
            for start in range(0, 100, 30):
                yield X[None, start : start + 30]

        return passes

    streamed = fit_pca(reader(), 3, solver="exact", rng=np.random.default_rng(0))
    whole = fit(X[None], 3)
    np.testing.assert_allclose(
        align(streamed.components, whole.components), whole.components, atol=1e-9
    )
