"""Votes of neighbours: they never hold a row's own label, and correct the noise in them."""

import numpy as np
import pytest

from kspr.core.votes import count_votes, with_votes
from tests.core.transitions import transition_of


@pytest.fixture
def halves():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, 3))
    return rows, (rows[:, 0] > 0).astype(int), rng.integers(0, 2, 200)


def votes_of(rows, label, half, k=7):
    return count_votes(rows, label, half, 2, k, np.random.default_rng(1))


def test_votes_are_shares_of_the_nearest_rows_in_the_other_half(halves):
    rows, label, half = halves
    votes = votes_of(rows, label, half)
    others = np.flatnonzero(half != half[5])
    nearest = others[np.argsort(np.linalg.norm(rows[others] - rows[5], axis=1))[:7]]
    np.testing.assert_allclose(votes[5], np.bincount(label[nearest], minlength=2) / 7)


def test_a_label_has_no_part_in_the_votes_of_its_own_half(halves):
    rows, label, half = halves
    flipped = np.where(half == 0, 1 - label, label)
    before, after = votes_of(rows, label, half), votes_of(rows, flipped, half)
    np.testing.assert_array_equal(before[half == 0], after[half == 0])
    np.testing.assert_allclose(before[half == 1], after[half == 1][:, ::-1])


def test_a_half_with_fewer_rows_than_neighbours_gives_all_of_them(halves):
    rows, label, half = halves
    votes = votes_of(rows, label, half, k=1000)
    np.testing.assert_allclose(votes[half == 0], label_shares(label[half == 1]), rtol=1e-6)


def label_shares(label):
    return np.tile(np.bincount(label, minlength=2) / len(label), (200 - len(label), 1))


def test_votes_that_say_what_the_noise_makes_of_a_class_support_it():
    """Of neighbours of class 0, four in ten have the label 1: the votes speak for 0 all the same.

    Votes that are split as the fit expects leave its order alone.
    """
    matrix = np.array([[0.6, 0.4], [0.0, 1.0]])
    right = np.full((2, 2), 0.5)
    told = with_votes(
        right, np.array([[0.6, 0.4], [0.0, 1.0]], dtype=np.float32), transition_of(matrix), 50
    )
    # Every label 0 comes from class 0.
    assert told[0, 0] > 0.9
    # Around the first row all are of class 0, so a label 1 is wrong there; not around the second.
    assert told[0, 1] < 0.5 < told[1, 1]


def test_more_votes_for_a_class_never_make_its_label_less_likely():
    rng = np.random.default_rng(2)
    share = np.linspace(0, 1, 21, dtype=np.float32)
    matrix = np.array([[0.8, 0.2], [0.3, 0.7]])
    right = np.full((21, 2), rng.random())
    told = with_votes(right, np.stack([share, 1 - share], axis=1), transition_of(matrix), 50)
    assert (np.diff(told[:, 0]) >= 0).all()
    assert (np.diff(told[:, 1]) <= 0).all()
