"""Fitting a half again without its likely wrong labels: what it learns, and what it may see."""

import numpy as np
import pytest
from scipy.special import softmax

from kspr.core import fitting
from kspr.core.fitting import ROUNDS, TEMPERATURES, Chances, LinearFit, _Rows, fit_folds, refit
from kspr.core.regression import Basis, fit_basis
from kspr.core.transition import Transition

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
    return Q.astype(np.float32), label, true


def test_refitting_beats_a_fit_on_all_labels(monkeypatch):
    """Mean accuracy over 12 halves with 50 % wrong labels, on rows that no fit has seen."""

    def accuracy() -> float:
        right = []
        for seed in range(12):
            Q, label, _ = a_half(seed, 0.5)
            new, _, true = a_half(1000 + seed, 0.0)
            right.append(np.mean(np.argmax(new @ refit(_Rows(Q, label, C)), -1) == true))
        return float(np.mean(right))

    again = accuracy()
    monkeypatch.setattr(fitting, "ROUNDS", 0)
    assert again > accuracy() + 0.01


def test_each_half_is_judged_by_what_the_other_learned():
    (X, label, _), (other, other_label, _) = a_half(0, 0.3), a_half(1, 0.3, slots=300)
    basis = Basis(np.zeros((1, 1, 12), dtype=np.float32), np.eye(12, dtype=np.float32)[None], True)
    told = []
    fit = fit_folds(
        np.concatenate([X, other]),
        (label, other_label),
        C,
        basis=basis,
        on_step=lambda: told.append(1),
    )
    assert len(told) == 2 * ROUNDS
    shown = fit.predict(X[:, 1:], np.zeros(len(X), dtype=int))
    np.testing.assert_allclose(shown, X @ refit(_Rows(other, other_label, C)), atol=1e-5)
    shown = fit.predict(other[:, 1:], np.ones(len(other), dtype=int))
    np.testing.assert_allclose(shown, other @ refit(_Rows(X, label, C)), atol=1e-5)


@pytest.mark.parametrize("n_folds", [2, 8])
def test_no_row_has_a_part_in_its_own_fitted_values(n_folds):
    Q, label, _ = a_half(0, 0.2, slots=320)
    X = Q[:, 1:].astype(np.float64)
    fold = np.repeat(np.arange(n_folds), 320 // n_folds)

    def values(label: np.ndarray) -> np.ndarray:
        parts = np.split(label, n_folds)
        return fit_folds(X, parts, C).predict(X, fold)

    shown = values(label)
    other = label.copy()
    other[7] = (other[7] + 1) % C
    again = values(other)
    assert np.array_equal(again[fold == fold[7]], shown[fold == fold[7]])
    assert not np.array_equal(again[fold != fold[7]], shown[fold != fold[7]])


def test_eight_folds_know_more_of_a_class_than_halves():
    """Mean accuracy of fitted values over six sets of 30 classes with 16 rows each, 20 % wrong."""

    def accuracy(n_folds: int) -> float:
        right = []
        for seed in range(6):
            rng = np.random.default_rng(seed)
            true = rng.permutation(np.arange(480) % 30)
            X = rng.standard_normal((30, 40))[true] + 1.2 * rng.standard_normal((480, 40))
            label = np.where(rng.random(480) < 0.2, rng.integers(0, 30, 480), true)
            fold = np.repeat(np.arange(n_folds), 480 // n_folds)
            fit = fit_folds(X, np.split(label, n_folds), 30)
            right.append(np.mean(fit.predict(X, fold).argmax(axis=1) == true))
        return float(np.mean(right))

    assert accuracy(8) > accuracy(2) + 0.03


def test_the_search_for_the_temperature_finds_the_likeliest_from_anywhere():
    rng = np.random.default_rng(0)
    label = np.arange(600) % C
    prediction = 0.2 * rng.standard_normal((600, C)) + 0.3 * np.eye(C)[label]
    noise = Transition(np.full(C, 0.9), np.full(C, 0.1 / 3), np.zeros((C, C)), 0.0, np.eye(C))
    found = {Chances.fit(prediction, label, noise, near).temperature for near in TEMPERATURES}
    assert len(found) == 1
    chance = {
        t: np.log(np.sum(softmax(prediction / t, axis=1) * noise.columns(label, float), axis=1))
        for t in TEMPERATURES
    }
    assert found == {max(chance, key=lambda t: chance[t].mean())}


def test_features_need_no_basis():
    parts = [a_half(seed, 0.2) for seed in (0, 1)]
    X, label, true = ([part[i] for part in parts] for i in range(3))
    fit = fit_folds(np.concatenate([1e3 * part[:, 1:] + 7 for part in X]), tuple(label), C)
    shown = fit.predict(1e3 * X[0][:, 1:] + 7, np.zeros(len(X[0]), dtype=int))
    assert (shown.argmax(axis=1) == true[0]).mean() > 0.55


def test_equations_that_follow_the_kept_rows_equal_those_made_anew(monkeypatch):
    """Rows that join and leave are added and taken off: the sum must not drift."""
    Q, label, _ = a_half(3, 0.2)
    rows = _Rows(Q, label, C)
    for _ in range(ROUNDS):
        rows.keep_likely_right()
    anew = rows._of(rows.kept)
    assert 0 < rows.kept.sum() < label.size
    np.testing.assert_allclose(rows.equations.gram, anew.gram, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(rows.equations.moment, anew.moment, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.6])
def test_of_each_class_about_as_many_rows_are_kept_as_are_right(noise):
    Q, label, true = a_half(5, noise, slots=2000)
    rows = _Rows(Q, label, C)
    for _ in range(ROUNDS):
        rows.keep_likely_right()
    assert abs(rows.kept.mean() - (label == true).mean()) < 0.12
    # Those that are kept are more often right than all of them.
    if noise:
        assert (label == true)[rows.kept].mean() > (label == true).mean() + 0.05


def test_every_round_is_reported_once():
    Q, label, _ = a_half(0, 0.2)
    seen = []
    refit(_Rows(Q, label, C), on_step=lambda: seen.append(1))
    assert len(seen) == ROUNDS


def test_a_class_of_one_row_and_a_class_of_none_are_fitted():
    Q, label, _ = a_half(0, 0.0, slots=60)
    label = np.where(label == 2, 0, label)
    label[7] = 2
    beta = refit(_Rows(Q, label, C + 1))
    assert np.isfinite(beta).all()


def test_the_intercept_is_not_shrunken():
    Q, _, _ = a_half(0, 0.2)
    assert np.diag(fitting._ridge(Q, 7.0)).tolist() == [0.0] + 12 * [7.0]


# --- The fit as a function of the features --------------------------------------------------


def a_fit(intercept: bool, dtype: type) -> tuple[Basis, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((60, 5)) * [1, 10, 0.1, 3, 1] + 7).astype(dtype)
    basis = fit_basis(X[None], np.ones((1, 60), dtype=bool), intercept, 5)
    beta = rng.standard_normal((2, 5 + intercept, 3)).astype(dtype)
    return basis, beta, X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [True, False])
def test_fitted_values_are_those_of_the_coordinates(intercept, dtype):
    basis, beta, X = a_fit(intercept, dtype)
    half = np.arange(60) % 2
    found = LinearFit.in_features(basis, beta).predict(X, half)
    Q = basis.transform(X[None])[0]
    expected = np.where(half[:, None] == 0, Q @ beta[0], Q @ beta[1])
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 if dtype == np.float32 else 0)


def test_a_block_may_lie_in_one_half():
    basis, beta, X = a_fit(True, np.float64)
    fit, half = LinearFit.in_features(basis, beta), np.arange(60) % 2
    whole = fit.predict(X, half)
    for side in (0, 1):
        alone = fit.predict(X[half == side], half[half == side])
        np.testing.assert_allclose(alone, whole[half == side], rtol=1e-12)


def test_many_classes_that_features_tell_apart_are_penalised_less():
    """60 classes, 40 rows each: the penalty for ten classes a row would leave little of the fit."""
    rng = np.random.default_rng(0)
    label = np.arange(2400) % 60
    # As texts are: most of what tells classes apart is in directions with little variance.
    size = np.linspace(2.0, 0.1, 64)
    X = size * (rng.standard_normal((60, 64))[label] + 1.2 * rng.standard_normal((2400, 64)))
    Q = np.concatenate([np.ones((2400, 1)), X / X.std()], axis=1).astype(np.float32)
    folds = [_Rows(Q[rows], label[rows], 60) for rows in (slice(1200), slice(1200, None))]
    part = fitting._ridge_part(folds)
    assert part < 1
    usual = refit(_Rows(Q[:1200], label[:1200], 60))
    chosen = refit(folds[0], part)
    right = [np.mean((Q[1200:] @ beta).argmax(axis=1) == label[1200:]) for beta in (usual, chosen)]
    assert right[1] > right[0]
