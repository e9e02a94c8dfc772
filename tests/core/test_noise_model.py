"""Noise by likelihood: what is wrong, how labels go wrong, and whether people may have done it."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import softmax

from kspr.core.noise_model import _PINNED, _Fit, _Sample, fit_noise, sample_rows
from kspr.core.transition import Anchors, Transition, bin_sizes, estimate_transition
from kspr.noise import circular, symmetric


def drawn(n: int = 6000, c: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores, and true classes that are drawn by them."""
    rng = np.random.default_rng([seed, 21])
    scores = rng.standard_normal((n, c)).astype(np.float32)
    chance = softmax(3.0 * scores.astype(float), axis=1)
    return scores, (rng.random((n, 1)) > chance.cumsum(axis=1)).sum(axis=1)


def by_people(scores: np.ndarray, truth: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return labels with mistakes where rows are unclear, towards what they look like."""
    rng = np.random.default_rng([seed, 22])
    margin = np.diff(np.sort(scores, axis=1)[:, -2:], axis=1)[:, 0]
    unclear = 1 - margin.argsort().argsort() / len(margin)
    wrong = rng.random(len(truth)) < 0.4 * unclear
    alike = softmax(3.0 * scores.astype(float), axis=1)
    alike[np.arange(len(truth)), truth] = 0
    alike /= alike.sum(axis=1, keepdims=True)
    other = (rng.random((len(truth), 1)) > alike.cumsum(axis=1)).sum(axis=1)
    return np.where(wrong, np.minimum(other, scores.shape[1] - 1), truth)


def anchors_of(scores: np.ndarray, label: np.ndarray) -> Transition:
    nowhere = np.zeros(len(label), dtype=int)
    anchors = Anchors(bin_sizes(label, nowhere, scores.shape[1]))
    anchors.add(scores, label, nowhere)
    return estimate_transition(anchors.counts())


@pytest.mark.parametrize("across", [True, False])
@pytest.mark.parametrize("noise", [symmetric, circular])
def test_noise_by_class_is_estimated_and_people_did_not_make_it(noise, across) -> None:
    scores, truth = drawn()
    label = noise(truth, 0.3, 0)
    models = fit_noise(scores, label, anchors_of(scores, label), across=across)
    assert not models.people
    estimate = models.by_class.transition(scores)
    true = np.array([[np.mean(label[truth == a] == k) for k in range(5)] for a in range(5)])
    np.testing.assert_allclose(estimate.matrix, true, atol=0.1)
    assert estimate.wrong_share == pytest.approx(0.3, abs=0.05)


def test_the_link_rises_with_the_score() -> None:
    """Many classes and few rows: a link that falls would give the unlikeliest classes a chance."""
    scores, truth = drawn(n=3000, c=60)
    label = symmetric(truth, 0.2, 0)
    models = fit_noise(scores, label, anchors_of(scores, label), across=False)
    for model in (models.by_class, models.by_people):
        prior = model.prior(scores)
        order = np.argsort(scores, axis=1)
        lowest, highest = (prior[np.arange(3000), order[:, k]].mean() for k in (0, -1))
        assert highest > 20 * lowest


def test_mistakes_of_people_may_be_theirs() -> None:
    """Nor can they be told from rows that are hard: by class alone they seem to be fewer."""
    scores, truth = drawn()
    label = by_people(scores, truth)
    models = fit_noise(scores, label, anchors_of(scores, label), across=False)
    assert models.people
    assert models.chosen is models.by_people
    ends = [m.transition(scores).wrong_share for m in (models.by_class, models.by_people)]
    assert ends[0] < ends[1] < np.mean(label != truth)


def test_a_class_between_two_others_is_not_masked() -> None:
    """The score of the middle class is never the largest, and 13 % of the labels are wrong."""
    rng = np.random.default_rng(4)
    place = rng.normal(size=6000)
    truth = np.digitize(place + 0.1 * rng.normal(size=6000), [0.25, 1.6])
    scores = np.column_stack([-0.4 * place, np.full(6000, -0.3), 0.4 * place - 0.2])
    scores = (scores + 0.02 * rng.normal(size=(6000, 3))).astype(np.float32)
    assert np.mean(scores.argmax(axis=1) == 1) < 0.02
    label = symmetric(truth, 0.13, 0)
    models = fit_noise(scores, label, anchors_of(scores, label), across=True)
    estimate = models.chosen.transition(scores).wrong_share
    assert estimate == pytest.approx(np.mean(label != truth), abs=0.03)


@pytest.mark.parametrize("c", [4, 30])
@pytest.mark.parametrize("habits", [None, _PINNED])
def test_the_gradient_is_that_of_the_likelihood(c: int, habits) -> None:
    scores, truth = drawn(n=200, c=c)
    label = symmetric(truth, 0.2, 0)
    sample = _Sample(scores, label)
    fit = _Fit(sample, habits, across=True).started(anchors_of(scores, label))
    columns = sample.spread_to_label(fit.spread)
    x = fit.x + 0.1 * np.random.default_rng(0).standard_normal(len(fit.x))
    if habits is None:
        # Neither slope nor look-alikes are parameters then.
        x[3 + 2 * c : 5 + 2 * c] = 0.0
    off = check_grad(
        lambda x: fit._loss(x, columns)[0], lambda x: fit._loss(x, columns)[1], x, epsilon=1e-6
    )
    assert off < 1e-3 * np.linalg.norm(fit._loss(x, columns)[1])


def test_chances_of_labels_sum_up_to_those_of_rows() -> None:
    """P(label k) sums to 1 over k, and the true class has the chance that `right` says."""
    scores, truth = drawn(n=500)
    label = by_people(scores, truth)
    model = fit_noise(scores, label, anchors_of(scores, label), across=False).by_people
    prior, right = model.prior(scores), model.right(scores)
    stays = prior * (1 - model.errors(scores))
    np.testing.assert_allclose((stays / right).sum(axis=1), 1, atol=1e-4)
    truth, own = model.true_class(scores, label), (np.arange(500), label)
    np.testing.assert_allclose(truth[own], right[own], atol=1e-5)
    np.testing.assert_allclose(truth.sum(axis=1), 1, atol=1e-5)


def test_more_classes_than_can_be_looked_at_count_as_one() -> None:
    scores, truth = drawn(n=5000, c=40)
    label = symmetric(truth, 0.2, 0)
    models = fit_noise(scores, label, anchors_of(scores, label), across=True, class_only=True)
    assert models.by_class.transition(scores).wrong_share == pytest.approx(0.2, abs=0.04)


def test_a_matrix_that_is_not_written_out_gives_nearly_the_same() -> None:
    scores, truth = drawn(n=4000, c=20)
    label = symmetric(truth, 0.2, 0)
    nowhere = np.zeros(4000, dtype=int)
    anchors = Anchors(bin_sizes(label, nowhere, 20))
    anchors.add(scores, label, nowhere)
    share = [
        fit_noise(scores, label, estimate_transition(anchors.counts(), written=w), across=False)
        .by_class.transition(scores)
        .wrong_share
        for w in (True, False)
    ]
    assert share[0] == pytest.approx(share[1], abs=0.02)


def test_the_sample_is_none_of_a_users_own_draws() -> None:
    counted = np.ones(50_000, dtype=bool)
    counted[:100] = False
    rows = sample_rows(counted, 10)
    assert len(rows) == 12_000
    assert rows.min() >= 100
    assert (np.diff(rows) > 0).all()
    theirs = np.random.default_rng(0).permutation(50_000)[:12_000]
    assert np.isin(rows, theirs).mean() < 0.3
    assert len(sample_rows(counted, 20_000)) == 500
