"""Weighted draws, and flips by class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.noise._drawing import draw_rows, flip_classes, following


@given(
    weight=st.lists(st.sampled_from([0.0, 0.1, 1.0, 7.0]), min_size=1, max_size=40),
    wanted=st.integers(0, 50),
    seed=st.integers(0, 99),
)
def test_rows_are_drawn_once_and_never_without_weight(weight, wanted, seed):
    weights = np.array(weight)
    rows = draw_rows(weights, wanted, np.random.default_rng(seed))
    assert len(set(rows.tolist())) == len(rows) == min(wanted, int((weights > 0).sum()))
    assert (weights[rows] > 0).all()


def test_rows_are_drawn_by_their_weight():
    """Of 4,000 draws of one row, the heavier of two comes in 3 of 4, within 4 standard errors."""
    rng = np.random.default_rng(0)
    first = [int(draw_rows(np.array([3.0, 1.0]), 1, rng)[0]) for _ in range(4000)]
    assert np.mean(first) == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 4000))


def test_the_last_class_is_followed_by_the_first():
    assert following(3).tolist() == [1, 2, 0]


@given(rate=st.floats(0, 0.99), seed=st.integers(0, 99), sizes=st.lists(st.integers(0, 9)))
def test_each_class_sends_exactly_its_share(rate, seed, sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    flipped = flip_classes(codes, rate, following(len(sizes)), seed)
    for k, size in enumerate(sizes):
        moved = int((flipped[codes == k] != k).sum())
        assert moved == (round(rate * size) if len(sizes) > 1 else 0)
