"""Fitting a half again without its likely wrong labels: what it learns, and what it may see."""

import numpy as np
import pytest

from kspr.core import refitting
from kspr.core.refitting import ROUNDS, refit

C = 4


def a_half(
    seed: int, noise: float, slots: int = 400, p: int = 12
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features with a column of ones, labels, and true labels of one half."""
    rng = np.random.default_rng(seed)
    true = np.arange(slots) % C
    X = 1.5 * np.eye(C, p)[true] + rng.standard_normal((slots, p))
    Q = np.concatenate([np.ones((slots, 1)), (X - X.mean(0)) / X.std()], axis=1)
    wrong = rng.random(slots) < noise
    label = np.where(wrong, (true + rng.integers(1, C, slots)) % C, true)
    return Q.astype(np.float32)[None], label[None], true[None]


def everywhere(label: np.ndarray) -> np.ndarray:
    return np.ones(label.shape, dtype=bool)


def fitted(Q: np.ndarray, label: np.ndarray, valid: np.ndarray) -> np.ndarray:
    return refit(Q, label, valid, C, intercept=True)


def test_refitting_beats_a_fit_on_all_labels(monkeypatch):
    """Mean accuracy over 12 halves with 50 % wrong labels, on rows that no fit has seen."""

    def accuracy() -> float:
        right = []
        for seed in range(12):
            Q, label, _ = a_half(seed, 0.5)
            new, _, true = a_half(1000 + seed, 0.0)
            right.append(np.mean(np.argmax(new @ fitted(Q, label, everywhere(label)), -1) == true))
        return float(np.mean(right))

    again = accuracy()
    monkeypatch.setattr(refitting, "ROUNDS", 0)
    assert again > accuracy() + 0.01


def test_a_fit_does_not_depend_on_the_half_beside_it():
    Q, label, _ = (
        np.concatenate(pair) for pair in zip(a_half(0, 0.3), a_half(1, 0.3), strict=True)
    )
    valid = everywhere(label)
    alone = [fitted(Q[i : i + 1], label[i : i + 1], valid[i : i + 1]) for i in (0, 1)]
    np.testing.assert_array_equal(fitted(Q, label, valid), np.concatenate(alone))


def test_rows_that_are_not_valid_have_no_part():
    Q, label, _ = a_half(0, 0.3)
    valid = everywhere(label)
    valid[0, 300:] = False
    changed = Q.copy()
    changed[0, 300:, 1:] = 50.0
    np.testing.assert_array_equal(
        fitted(Q, label, valid), fitted(changed, (label + ~valid) % C, valid)
    )


def test_equations_that_follow_the_kept_rows_equal_those_made_anew(monkeypatch):
    """Rows that join and leave are added and taken off: the sum must not drift."""
    Q, label, _ = a_half(3, 0.2)
    half = refitting._Half(Q, label, everywhere(label)[0], C, intercept=True)
    for _ in range(ROUNDS):
        half.keep_likely_right()
    anew = half._of(half.kept)
    assert 0 < half.kept.sum() < label.size
    np.testing.assert_allclose(half.equations.gram, anew.gram, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(half.equations.moment, anew.moment, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.6])
def test_of_each_class_about_as_many_rows_are_kept_as_are_right(noise):
    Q, label, true = a_half(5, noise, slots=2000)
    half = refitting._Half(Q, label, everywhere(label)[0], C, intercept=True)
    for _ in range(ROUNDS):
        half.keep_likely_right()
    assert abs(half.kept.mean() - (label == true).mean()) < 0.12
    # Those that are kept are more often right than all of them.
    if noise:
        assert (label == true)[0, half.kept].mean() > (label == true).mean() + 0.05


def test_every_round_is_reported_once():
    Q, label, _ = a_half(0, 0.2)
    seen = []
    refit(Q, label, everywhere(label), C, intercept=True, on_step=lambda: seen.append(1))
    assert len(seen) == ROUNDS


def test_a_class_of_one_row_and_a_class_of_none_are_fitted():
    Q, label, _ = a_half(0, 0.0, slots=60)
    label = np.where(label == 2, 0, label)
    label[0, 7] = 2
    beta = refit(Q, label, everywhere(label), C + 1, intercept=True)
    assert np.isfinite(beta).all()


def test_without_an_intercept_every_column_is_shrunken():
    Q, label, _ = a_half(0, 0.2)
    assert refitting._ridge(Q, 7.0, intercept=False)[0, 0] == 7.0
    assert refitting._ridge(Q, 7.0, intercept=True)[0, 0] == 0.0
    assert np.isfinite(refit(Q, label, everywhere(label), C, intercept=False)).all()
