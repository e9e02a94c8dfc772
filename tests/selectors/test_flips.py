"""Flips for the self-check: other labels, no class emptied, each kind by its rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.selectors.flips import KINDS, FlipData, draw_rows, flip
from kspr.selectors.parts import HostFeatures


@pytest.fixture
def ground(blobs):
    noise = np.array([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    return FlipData(HostFeatures(blobs.X), blobs.y, noise, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_labels_are_other_labels(kind, ground):
    rows, codes = flip(kind, ground, 0.1, np.random.default_rng(0))
    changed = np.flatnonzero(codes != ground.codes)
    assert np.array_equal(np.sort(rows), changed)
    assert 25 <= len(changed) <= 36


def test_estimated_flips_follow_the_estimate(ground):
    rows, codes = flip("estimated", ground, 0.1, np.random.default_rng(0))
    assert set(ground.codes[rows]) == {0}
    assert set(codes[rows]) == {1}


def test_no_class_is_flipped_away(blobs):
    y = np.where(np.arange(360) < 3, 2, np.arange(360) % 2)
    ground = FlipData(HostFeatures(blobs.X), y, np.full((3, 3), 1 / 3), 2)
    for seed in range(20):
        _, codes = flip("symmetric", ground, 0.5, np.random.default_rng(seed))
        assert (y[codes == y] == 2).sum() >= 2


def test_hard_flips_lie_near_the_border(ground):
    _, margin = ground.nearest
    rows, _ = flip("hard", ground, 0.1, np.random.default_rng(0))
    assert np.median(margin[rows]) < np.quantile(margin, 0.3)


def test_pair_flips_go_to_the_next_class(ground):
    rows, codes = flip("pair", ground, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(codes[rows], (ground.codes[rows] + 1) % 3)


def test_similar_flips_go_to_the_class_with_the_nearest_mean(ground):
    distance = np.linalg.norm(ground.means[:, None] - ground.means, axis=2)
    np.fill_diagonal(distance, np.inf)
    rows, codes = flip("similar", ground, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(codes[rows], distance.argmin(axis=1)[ground.codes[rows]])


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
