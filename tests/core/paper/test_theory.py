"""The conditions of Theorem 1 against dense matrices, and both theorems in simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.paper.knockoffs import q_values, theorem_factor
from kspr.core.paper.selection_times import gamma_path, irrepresentable_values, lasso

seeds = st.integers(0, 2**32 - 1)


def dense_design(X: np.ndarray) -> np.ndarray:
    return np.eye(len(X)) - X @ np.linalg.pinv(X)


def shifts(rng: np.random.Generator, n: int, c: int, rows: int, size: float = 1.0) -> np.ndarray:
    """Return mean shifts of wrong labels: one entry up, another down, in a few rows."""
    gamma = np.zeros((n, c))
    for i in rng.choice(n, rows, replace=False):
        up, down = rng.choice(c, 2, replace=False)
        gamma[i, up], gamma[i, down] = size, -size
    return gamma


# --- The conditions ---------------------------------------------------------------------------


@settings(max_examples=50)
@given(seed=seeds, n=st.integers(6, 40), p=st.integers(1, 5), repeat=st.booleans())
def test_irrepresentable_values_are_those_of_the_dense_design(
    seed: int, n: int, p: int, repeat: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    if repeat:
        X = np.column_stack([X, X[:, 0]])
    noisy = np.zeros(n, dtype=bool)
    # With more than p clean rows left, Gaussian features identify the noisy ones.
    noisy[rng.choice(n, rng.integers(0, n - p), replace=False)] = True
    D = dense_design(X)
    D_S, D_rest = D[:, noisy], D[:, ~noisy]
    expected = np.abs(np.linalg.pinv(D_S.T @ D_S) @ D_S.T @ D_rest).sum(axis=0)
    np.testing.assert_allclose(irrepresentable_values(X, noisy), expected, rtol=1e-6, atol=1e-9)


def test_a_direction_that_only_noisy_samples_have_fails_every_condition() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    X[4:, 2] = 0.0
    noisy = np.arange(30) < 4
    assert np.isinf(irrepresentable_values(X, noisy)).all()


def test_without_errors_nothing_is_mimicked() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    assert not irrepresentable_values(X, np.zeros(30, dtype=bool)).any()


def test_features_that_say_nothing_mimic_nothing() -> None:
    """With X = 0 the design is the identity."""
    X, noisy = np.zeros((10, 2)), np.arange(10) < 3
    assert not irrepresentable_values(X, noisy).any()


def test_values_do_not_depend_on_how_many_rows_a_block_holds() -> None:
    """2,000 noisy rows against 6,000 clean ones are walked in several blocks."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8000, 2))
    noisy = np.arange(8000) < 2000
    Q = np.linalg.qr(X)[0]
    some = rng.choice(6000, 20, replace=False)
    # (D_S' D_S)^-1 D_S' D_j by a solve in the 2,000 noisy coordinates.
    gram = np.eye(2000) - Q[:2000] @ Q[:2000].T
    expected = np.abs(np.linalg.solve(gram, -Q[:2000] @ Q[2000:][some].T)).sum(axis=0)
    np.testing.assert_allclose(irrepresentable_values(X, noisy)[some], expected, rtol=1e-8)


# --- Theorem 1 --------------------------------------------------------------------------------


def conditions(X: np.ndarray, gamma: np.ndarray, sigma: float) -> tuple[float, float, float]:
    """Return eta of C2, the level lam, and what C3 asks of the smallest entry of `gamma`.

    As the theorem is written: one long vector, and the design ``I_c (x) (I - H)``.
    """
    n, c = gamma.shape
    vector = gamma.ravel(order="F")
    S = vector != 0
    ring = np.kron(np.eye(c), dense_design(X))
    gram = ring[:, S].T @ ring[:, S]
    inverse = np.linalg.inv(gram)
    eta = 1 - np.abs(ring[:, ~S].T @ ring[:, S] @ inverse).sum(axis=1).max()
    mu = (ring[:, ~S] ** 2).sum(axis=0).max()
    lam = 2 * sigma * np.sqrt(mu) / eta * np.sqrt(np.log(c * n))
    pull = np.abs(inverse @ np.sign(vector[S])).max()
    return eta, lam, lam * eta / np.sqrt(np.linalg.eigvalsh(gram)[0] * mu) + lam * pull


def recovered(
    rng: np.random.Generator, size: float, share_of_lam: float = 1.0
) -> tuple[set[int], set[int]] | None:
    """Draw one problem of Theorem 1; return its noisy rows and the recovered ones.

    Wrong entries are `size` times what C3 needs. None where C2 does not hold.
    """
    n, c, sigma = 100, 3, 0.1
    X = rng.standard_normal((n, 3))
    gamma = shifts(rng, n, c, 5)
    eta, lam, needed = conditions(X, gamma, sigma)
    if eta <= 0:
        return None
    gamma *= size * needed
    noise = sigma * rng.standard_normal((n, c))
    Y = X @ rng.standard_normal((3, c)) + gamma + noise
    (estimate,) = gamma_path(X, Y, [share_of_lam * lam], lasso)
    return set(np.flatnonzero(gamma.any(axis=1))), set(np.flatnonzero(estimate.any(axis=1)))


def draws(size: float, share_of_lam: float = 1.0) -> list[tuple[set[int], set[int]]]:
    rng = np.random.default_rng(2024)
    made = [recovered(rng, size, share_of_lam) for _ in range(300)]
    usable = [draw for draw in made if draw is not None]
    assert len(usable) > 200, "the conditions must hold often enough to test the theorem"
    return usable


def test_theorem_1_recovers_the_noisy_set_where_its_conditions_hold() -> None:
    """The theorem allows a failure in 2 / (c n) = 1/150 of the draws.

    Of at most 300 seeded draws at most 6 may fail: the mean of 2 and 3 standard deviations.
    """
    failures = [noisy != found for noisy, found in draws(size=1.01)]
    assert sum(failures) <= 6


def test_theorem_1_accuses_no_clean_sample_even_where_errors_are_small() -> None:
    """Without C3 the recovered set is a subset; the same budget as above."""
    sets = draws(size=0.3)
    assert sum(not found <= noisy for noisy, found in sets) <= 6
    assert sum(found != noisy for noisy, found in sets) > 100, "C3 must have been needed"


def test_theorem_1_needs_its_level_of_lam() -> None:
    """At a quarter of the level most draws accuse clean samples: the tests above can fail."""
    sets = draws(size=1.01, share_of_lam=0.25)
    assert np.mean([noisy != found for noisy, found in sets]) > 0.5


# --- Theorem 2 --------------------------------------------------------------------------------

Q_LEVEL, DRAWS, CLEAN, NOISY = 0.1, 400, 700, 300


def selections(
    rho: float, level: float, cut_groups: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the realised FSR and the share of clean samples kept, per draw of `cut_groups` halves.

    The theorem's assumption holds by construction: the sign of a noisy W is a coin with
    P(W > 0) = rho, independent of its size. Clean W are small, and negative 199 times in 200.
    """
    rng = np.random.default_rng(seed)
    shape = (DRAWS, cut_groups)
    behind = rng.random((*shape, NOISY)) < rho
    noisy = np.where(behind, 1, -1) * rng.gamma(3, 0.3, behind.shape)
    ahead = rng.random((*shape, CLEAN)) < 0.995
    clean = np.where(ahead, -1, 1) * rng.gamma(2, 0.15, ahead.shape)
    W = np.concatenate([noisy, clean], axis=-1)
    cut_group = np.repeat(np.arange(DRAWS * cut_groups), NOISY + CLEAN)
    keep = (q_values(W.ravel(), cut_group) <= level).reshape(W.shape)
    wrong = keep[..., :NOISY].sum(axis=(1, 2))
    kept = keep.sum(axis=(1, 2))
    return wrong / np.maximum(kept, 1), (kept - wrong) / (cut_groups * CLEAN)


def worst_rho(c: int, kappa: float) -> float:
    """Return the smallest P(W > 0) of a noisy sample that the theorem allows."""
    return (c - 2 + 2 * kappa) / (2 * (c - 1))


bounds = pytest.mark.parametrize(
    ("c", "kappa"), [(10, None), (3, None), (2, 0.5), (4, 0.3), (100, 0.9)]
)


@bounds
def test_theorem_2_holds_over_both_halves(c: int, kappa: float | None) -> None:
    """Mean FSR over 400 draws is below q + 3 standard errors, and something is selected."""
    level = theorem_factor(c, kappa) * Q_LEVEL
    fsr, recall = selections(worst_rho(c, kappa or 0.0), level, cut_groups=2, seed=5)
    assert fsr.mean() <= Q_LEVEL + 3 * fsr.std() / np.sqrt(DRAWS)
    assert recall.mean() > 0.4


@bounds
def test_theorem_2_is_nearly_sharp_within_one_half(c: int, kappa: float | None) -> None:
    """The 1/2 in the factor pays for two halves: a single one reaches q at twice the level.

    Mean FSR over 400 draws is below q + 3 standard errors; above 0.8 q too, so that a factor
    that is too timid would show.
    """
    level = 2 * theorem_factor(c, kappa) * Q_LEVEL
    fsr, recall = selections(worst_rho(c, kappa or 0.0), level, cut_groups=1, seed=6)
    assert fsr.mean() <= Q_LEVEL + 3 * fsr.std() / np.sqrt(DRAWS)
    assert fsr.mean() >= 0.8 * Q_LEVEL
    assert recall.mean() > 0.4


def test_theorem_2_fails_where_wrong_labels_win_too_often() -> None:
    """With P(W > 0) at half of what is assumed, FSR is beyond q + 3 standard errors."""
    level = 2 * theorem_factor(10) * Q_LEVEL
    fsr, _ = selections(worst_rho(10, 0.0) / 2, level, cut_groups=1, seed=7)
    assert fsr.mean() > Q_LEVEL + 3 * fsr.std() / np.sqrt(DRAWS)
