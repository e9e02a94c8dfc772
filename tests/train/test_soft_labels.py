"""Chances of the true class, from probabilities and given labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from kspr.noise import symmetric
from kspr.train.soft_labels import (
    combined,
    likely_noise,
    linear_probabilities,
    linear_soft_labels,
    mean_of,
    parts_of,
    soft_labels,
    with_given_labels,
)


def chances(seed: int, n: int = 20, classes: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), n)


@given(st.integers(0, 100))
def test_soft_labels_are_probabilities(seed):
    label = np.random.default_rng(seed).integers(0, 4, 20)
    found = with_given_labels(chances(seed), chances(seed + 1, 4), label)
    assert (found >= 0).all()
    assert found.sum(axis=1) == pytest.approx(1)


@given(st.integers(0, 100))
def test_without_noise_a_soft_label_is_the_given_one_and_with_pure_noise_it_is_ignored(seed):
    label = np.random.default_rng(seed).integers(0, 4, 20)
    assert np.array_equal(with_given_labels(chances(seed), np.eye(4), label), np.eye(4)[label])
    ignored = with_given_labels(chances(seed), np.full((4, 4), 0.25), label)
    assert ignored == pytest.approx(chances(seed))


def test_a_label_that_is_ruled_out_leaves_the_look_of_the_row():
    prior = np.array([[0.0, 1.0]])
    assert np.array_equal(with_given_labels(prior, np.eye(2), np.array([0])), prior)


def test_soft_labels_tell_more_than_the_given_labels_or_the_probabilities_alone():
    """30 % of the labels are wrong, and so is the best class of 25 % of the rows."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 4000)
    logits = 2.5 * np.eye(5)[truth] + rng.gumbel(size=(4000, 5))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    label = symmetric(truth, 0.3, seed=0)
    found = soft_labels(probabilities, label)
    alone = max((label == truth).mean(), (probabilities.argmax(axis=1) == truth).mean())
    assert (found.chance.argmax(axis=1) == truth).mean() > alone + 0.05
    assert np.diag(found.transition).mean() == pytest.approx(0.7, abs=0.05)


def test_a_class_that_no_row_has_is_the_true_one_of_none():
    label = np.repeat([0, 2], 50)
    probabilities = 0.1 + 0.7 * np.eye(3)[label]
    found = soft_labels(probabilities, label)
    assert not found.chance[:, 1].any()
    assert found.chance.sum(axis=1) == pytest.approx(1)


def test_the_share_of_every_class_is_found_under_heavy_noise():
    """A model that likes one class too much, and 70 % wrong labels: shares differ by at most 0.03.

    With 20,000 rows their standard error is about 0.006.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 20_000)
    logits = 2.0 * np.eye(5)[truth] + rng.gumbel(size=(20_000, 5)) + [1.5, 0, 0, 0, -1.5]
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = soft_labels(probabilities, symmetric(truth, 0.7, seed=0))
    assert found.prior.mean(axis=0) == pytest.approx(0.2, abs=0.03)


def test_two_priors_tell_more_than_one_and_a_useless_one_is_ignored():
    """60 % of the labels are wrong; two models err apart from each other, a third guesses."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 8000)
    models = [1.5 * np.eye(5)[truth] + rng.gumbel(size=(8000, 5)) for _ in range(2)]
    models.append(rng.gumbel(size=(8000, 5)))
    priors = [np.exp(m) / np.exp(m).sum(axis=1, keepdims=True) for m in models]
    label, noise = symmetric(truth, 0.6, seed=0), np.full((5, 5), 0.15) + 0.25 * np.eye(5)

    def right(*chosen: int) -> float:
        found = combined([priors[k] for k in chosen], noise, label)
        return float((found.argmax(axis=1) == truth).mean())

    assert right(0, 1) > max(right(0), right(1)) + 0.05
    assert right(0, 1, 2) == pytest.approx(right(0, 1), abs=0.01)


@given(st.integers(0, 100))
def test_the_mean_of_equal_priors_is_the_prior(seed):
    assert mean_of([chances(seed), chances(seed)]) == pytest.approx(chances(seed))


def test_the_noise_of_a_weak_model_is_estimated_by_the_likelihood():
    """40 % wrong labels, and a model that is wrong on 40 % of the rows and never sure."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 4000)
    logits = 0.9 * np.eye(5)[truth] + rng.gumbel(size=(4000, 5)) / 2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    label = symmetric(truth, 0.4, seed=0)
    first = soft_labels(probabilities, label)
    assert np.diag(first.transition).mean() == pytest.approx(0.6, abs=0.05)
    found = likely_noise([probabilities], first.transition, label)
    assert np.diag(found.transition).mean() == pytest.approx(0.6, abs=0.05)


def test_probabilities_that_say_nothing_do_not_become_certain():
    """Under Sym. 80 % the likelihood is nearly flat, and any power would do as well as another."""
    rng = np.random.default_rng(0)
    label, probabilities = rng.integers(0, 10, 2000), rng.dirichlet(np.full(10, 20.0), 2000)
    found = likely_noise([probabilities], soft_labels(probabilities, label).transition, label)
    assert found.prior.max(axis=1).mean() < 0.5
    assert found.chance.sum(axis=1) == pytest.approx(1)


def test_few_rows_and_heavy_noise_do_not_make_the_matrix_a_random_one():
    """80 % wrong labels of 2,000 rows, and a weak model: every class goes wrong alike."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 10, 2000)
    logits = 1.2 * np.eye(10)[truth] + rng.gumbel(size=(2000, 10)) / 2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    start = np.full((10, 10), 0.5 / 9)
    np.fill_diagonal(start, 0.5)
    found = likely_noise([probabilities], start, symmetric(truth, 0.8, seed=0))
    # Far from where the search began, and no entry is as good as ruled out.
    assert np.diag(found.transition).mean() == pytest.approx(0.2, abs=0.06)
    assert found.transition.min() > 0.03
    own = np.arange(2000), truth
    assert np.log(found.chance[own]).mean() > np.log(found.prior[own]).mean()


def test_likely_noise_gives_a_class_that_no_row_has_no_chance():
    label = np.repeat([0, 2], 50)
    probabilities = 0.1 + 0.7 * np.eye(3)[label]
    found = likely_noise([probabilities], np.eye(3), label)
    assert not found.chance[:, 1].any()


NOISE = np.full((5, 5), 0.15) + 0.25 * np.eye(5)
"""60 % wrong labels, of any other class alike."""


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 3000)
    X = rng.normal(size=(5, 40))[truth] + 2 * rng.normal(size=(3000, 40)) + 7
    return X.astype(np.float32), truth, symmetric(truth, 0.6, seed=0)


def test_it_is_right_more_often_than_logistic_regression_on_the_given_labels(made):
    X, truth, label = made
    part = parts_of(np.arange(3000), 0)
    found = linear_probabilities(X, label, NOISE, part)
    assert found.sum(axis=1) == pytest.approx(1, abs=1e-4)
    asked = part == 0
    plain = LogisticRegression(max_iter=500).fit(X[~asked], label[~asked]).predict(X[asked])
    ours = found[asked].argmax(axis=1)
    assert (ours == truth[asked]).mean() > (plain == truth[asked]).mean() + 0.03


def test_a_label_of_the_last_part_has_no_part_in_what_is_said_of_it(made):
    """The first part chooses the penalty by its own labels: one of four, for all rows together."""
    X, _, label = made
    part = parts_of(np.arange(3000), 0)
    other = np.where(part == part.max(), (label + 1) % 5, label)
    found, changed = (linear_probabilities(X, y, NOISE, part) for y in (label, other))
    same = part == part.max()
    assert np.array_equal(found[same], changed[same])
    assert not np.allclose(found[~same], changed[~same], atol=0.01)


def test_copies_share_a_part_and_parts_are_of_about_one_size():
    first = np.arange(1000)
    first[500:600] = np.arange(100)
    part = parts_of(first, 3)
    assert np.array_equal(part[500:600], part[:100])
    assert np.bincount(part).min() > 150


def test_noise_that_is_not_known_is_found_with_the_soft_labels(made):
    X, truth, label = made
    found = linear_soft_labels(X, label, parts_of(np.arange(3000), 0), 5)
    known = linear_probabilities(X, label, NOISE, parts_of(np.arange(3000), 0))
    assert np.diag(found.transition).mean() == pytest.approx(0.4, abs=0.08)
    before, best = ((values.argmax(axis=1) == truth).mean() for values in (found.prior, known))
    assert before > best - 0.02
    # The given label is evidence too.
    own = np.arange(len(truth)), truth
    assert np.log(found.chance[own]).mean() > np.log(found.prior[own]).mean() + 0.01


def test_a_class_that_no_row_is_labelled_with_has_no_chance(made):
    X, _, label = made
    found = linear_soft_labels(X, np.where(label == 2, 6, label), parts_of(np.arange(3000), 0), 8)
    assert found.chance.shape == (3000, 8)
    assert (found.chance[:, [2, 5, 7]] == 0).all()
    assert found.chance.sum(axis=1) == pytest.approx(1)
    assert np.array_equal(found.transition[2], np.eye(8)[2])


def test_rows_of_one_class_only_are_of_that_class(made):
    X = made[0][:50]
    found = linear_soft_labels(X, np.full(50, 1), parts_of(np.arange(50), 0), 3)
    assert np.array_equal(found.chance, np.eye(3)[np.full(50, 1)])
