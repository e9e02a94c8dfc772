"""Logistic regression through a transition matrix, each row asked of a fit to other rows."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from kspr.noise import symmetric
from kspr.train.cycle.linear_judge import (
    linear_probabilities,
    linear_soft_labels,
    parts_of,
)

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
