"""Probabilities of a user's own model: anchors, calibration, and the doubt of labels."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import softmax

from kspr.core.probabilities import (
    count_anchors_evenly,
    fit_probabilities,
    log_odds,
    memorised_share,
)
from kspr.core.transition import Transition
from kspr.noise import circular, symmetric
from tests.core.transitions import transition_levels


def held_out(
    n: int = 4000, c: int = 5, seed: int = 0, temperature: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are right of classes drawn from them, and the true classes."""
    rng = np.random.default_rng([seed, 11])
    logits = 3.0 * rng.standard_normal((n, c))
    probabilities = softmax(logits, axis=1)
    draw = rng.random((n, 1))
    y = np.argmax(draw < np.cumsum(probabilities, axis=1), axis=1)
    return softmax(logits / temperature, axis=1), y


class Calibrated(NamedTuple):
    """What probabilities say once noise that depends on the class only is accounted for."""

    transition: Transition
    prior: np.ndarray
    right: np.ndarray
    best: np.ndarray
    best_chance: np.ndarray


def calibrate(P: np.ndarray, y: np.ndarray) -> Calibrated:
    logs, chosen, models = fit_probabilities(P, y, class_only=True)
    model = models.by_class
    noise, prior, right = model.transition(logs[chosen]), model.prior(logs), model.right(logs)
    truth = model.true_class(logs, y)
    return Calibrated(noise, prior, right, truth.argmax(axis=1), truth.max(axis=1))


def fsr(P: np.ndarray, y: np.ndarray, truth: np.ndarray, q: float) -> tuple[float, float]:
    """Return the share of wrong labels among those kept at `q`, and the recall."""
    found = calibrate(P, y)
    kept = transition_levels(found.right, y, found.transition, pooled=True) <= q
    right = y == truth
    return float(np.mean(~right[kept])), float(np.mean(kept[right]))


@pytest.mark.parametrize("temperature", [0.1, 1.0, 3.0])
def test_the_answer_hardly_depends_on_how_sure_the_model_is(temperature):
    P, truth = held_out(temperature=temperature)
    y = symmetric(truth, 0.2, 0)
    found = calibrate(P, y)
    assert found.transition.wrong_share == pytest.approx(0.2, abs=0.05)
    plain = calibrate(held_out()[0], y)
    assert np.abs(found.right - plain.right).mean() < 0.05


@pytest.mark.parametrize("digits", [1, 2, 3])
def test_saturated_probabilities_do_not_break_the_noise_estimate(digits):
    """Rounded to one digit, a third of all rows are exactly 0 and 1."""
    P, truth = held_out(temperature=0.5)
    y = symmetric(truth, 0.2, 0)
    rounded = P.round(digits)
    rounded /= rounded.sum(axis=1, keepdims=True)
    assert np.mean(rounded.max(axis=1) == 1) > 0.1
    found = calibrate(rounded, y)
    assert found.transition.wrong_share == pytest.approx(0.2, abs=0.08)
    rate, recall = fsr(rounded, y, truth, 0.1)
    assert rate < 0.12
    assert recall > 0.5


def test_the_order_of_the_rows_does_not_matter():
    P, truth = held_out(n=1500)
    y, P = symmetric(truth, 0.3, 1), P.round(1)
    P /= P.sum(axis=1, keepdims=True)
    order = np.random.default_rng(5).permutation(len(y))
    first, second = calibrate(P, y), calibrate(P[order], y[order])
    assert np.allclose(first.right[order], second.right, atol=1e-6)


def test_a_model_that_has_learned_the_noise_is_seen_through():
    """Noisy posteriors doubt every label; the prior is that of the true classes again."""
    P, truth = held_out()
    y = symmetric(truth, 0.4, 0)
    noisy = 0.5 * P + 0.1
    noisy /= noisy.sum(axis=1, keepdims=True)
    clear = P.max(axis=1) > 0.99
    prior = calibrate(noisy, y).prior.max(axis=1)
    assert noisy[clear].max() < 0.65
    assert prior[clear].mean() > 0.8


def test_an_offset_that_favours_one_class_is_removed():
    P, truth = held_out()
    y = circular(truth, 0.2, 0)
    tilted = P * np.array([8.0, 1, 1, 1, 1])
    tilted /= tilted.sum(axis=1, keepdims=True)
    assert np.abs(calibrate(tilted, y).right - calibrate(P, y).right).mean() < 0.03


def test_rows_are_ordered_even_where_no_anchor_is_wrong():
    P, truth = held_out(n=1000)
    y = truth.copy()
    y[:3] = (y[:3] + 1) % 5
    found = calibrate(P, y)
    own = found.right[np.arange(1000), y]
    assert len(np.unique(own)) > 900
    confident = P[np.arange(3), truth[:3]] > 0.9
    assert np.array_equal(found.best[:3][confident], truth[:3][confident])


@pytest.mark.slow
@pytest.mark.parametrize("noise", [symmetric, circular])
def test_the_mean_error_rate_stays_within_q(noise):
    """Mean FSR over 40 draws is below q + 3 standard errors."""
    q, rates = 0.1, []
    for seed in range(40):
        P, truth = held_out(seed=seed, temperature=0.5)
        rates.append(fsr(P, noise(truth, 0.3, seed), truth, q)[0])
    assert np.mean(rates) < q + 3 * np.std(rates) / np.sqrt(len(rates))


def test_log_odds_tell_rows_apart_whose_probability_rounds_to_one():
    logs = np.log(np.array([[1.0, 1e-20, 1e-25], [1.0, 1e-18, 1e-25]]))
    odds = log_odds(logs)[:, 0]
    assert odds[0] == pytest.approx(-np.log(1e-20), rel=1e-3)
    assert odds[0] > odds[1]


def test_tied_rows_share_the_places_that_are_left():
    odds = np.zeros((200, 2))
    odds[:4, 0] = 1.0
    y = np.repeat([0, 1], 100)
    y[:4] = 1
    y[100:104] = 0
    counts = count_anchors_evenly(odds, y)
    # 20 places: 4 rows stand above the tie, and 16 places are shared by 100 labels 0 and 96 others.
    assert counts[0] == pytest.approx([16 * 100 / 196, 4 + 16 * 96 / 196])
    assert counts[1] == pytest.approx([10, 10])


def test_calibration_looks_at_other_rows_than_a_users_own_first_draw():
    """Noise drawn by `default_rng(0).permutation` must not fill the rows that calibrate."""
    P, truth = held_out(n=12_000)
    y = truth.copy()
    rows = np.random.default_rng(0).permutation(len(y))[:5_000]
    y[rows] = (truth[rows] + 1 + np.arange(5_000) % 4) % 5
    found = calibrate(P, y)
    assert found.prior.max(axis=1).mean() > 0.5


def test_memory_shows_where_the_model_is_least_sure():
    P, truth = held_out(n=400)
    y = symmetric(truth, 0.2, 0)
    assert memorised_share(P, y) < 0.7
    by_heart = P.copy()
    by_heart[np.arange(400), y] = 2.0
    assert memorised_share(by_heart, y) == 1.0


def test_the_chance_of_the_best_class_is_how_often_it_is_the_true_one():
    """Labels are drawn by the probabilities and a known noise; 4,000 rows: within 0.05."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), 4_000)
    truth = (rng.random(4_000)[:, None] > P.cumsum(axis=1)).sum(axis=1)
    label = np.where(rng.random(4_000) < 0.2, (truth + 1) % 3, truth)
    found = calibrate(P, label)
    for low, high in ((0.0, 0.8), (0.8, 0.95), (0.95, 1.01)):
        rows = (low <= found.best_chance) & (found.best_chance < high)
        hits = np.mean(found.best[rows] == truth[rows])
        assert hits == pytest.approx(found.best_chance[rows].mean(), abs=0.05)
