"""E-values of several splits: what they sum to, and what they let through."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.cutoffs import combine_levels, q_values

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=60, deadline=None)
CLEAN, WRONG = 300, 120


def split_levels(rng: np.random.Generator, sizes: np.ndarray) -> np.ndarray:
    """Return one split's levels: wrong ones, the last, are ahead or behind by a fair coin."""
    ahead = rng.random(len(sizes)) < np.where(np.arange(len(sizes)) < CLEAN, 0.98, 0.5)
    return q_values(np.where(ahead, -sizes, sizes), np.zeros(len(sizes), dtype=np.int64))


def magnitudes(rng: np.random.Generator, far: float = 0.2) -> np.ndarray:
    return np.concatenate([rng.gamma(2, 0.1, CLEAN), rng.gamma(3, far, WRONG)])


def random_levels(rng: np.random.Generator, splits: int, n: int) -> np.ndarray:
    """Return levels as splits make them: with plateaus, and some never kept."""
    cut_groups = np.zeros(n, dtype=np.int64)
    W = rng.gamma(2, 1, (splits, n)) * np.where(rng.random((splits, n)) < 0.85, -1, 1)
    return np.stack([q_values(own, cut_groups) for own in W])


@laws
@given(seed=seeds, n=st.integers(1, 150), level=st.sampled_from([0.05, 0.1, 0.3]))
def test_one_split_keeps_at_its_level_what_it_keeps_alone(seed: int, n: int, level: float) -> None:
    levels = random_levels(np.random.default_rng(seed), 1, n)
    combined = combine_levels(levels, np.zeros(n, dtype=np.int64), level)
    np.testing.assert_array_equal(np.isfinite(combined), levels[0] <= level)
    kept = np.isfinite(combined)
    assert combined[kept] == pytest.approx(np.max(levels[0][kept], initial=0.0))


@laws
@given(seed=seeds, n=st.integers(1, 150), splits=st.integers(1, 5))
def test_what_no_split_keeps_is_not_kept(seed: int, n: int, splits: int) -> None:
    rng = np.random.default_rng(seed)
    levels, cut_groups = random_levels(rng, splits, n), rng.integers(0, 3, n)
    combined = combine_levels(levels, cut_groups, 0.2)
    assert np.isinf(combined[(levels > 0.2).all(axis=0)]).all()


@laws
@given(seed=seeds, n=st.integers(1, 150), splits=st.integers(1, 5))
def test_the_order_of_samples_and_splits_does_not_matter(seed: int, n: int, splits: int) -> None:
    rng = np.random.default_rng(seed)
    levels, cut_groups = random_levels(rng, splits, n), rng.integers(0, 3, n)
    straight = combine_levels(levels, cut_groups, 0.2)
    rows, turns = rng.permutation(n), rng.permutation(splits)
    mixed = combine_levels(levels[turns][:, rows], cut_groups[rows], 0.2)
    np.testing.assert_allclose(mixed, straight[rows], rtol=1e-9)


@laws
@given(seed=seeds, n=st.integers(1, 150), splits=st.integers(1, 4))
def test_equal_splits_count_as_one(seed: int, n: int, splits: int) -> None:
    levels = random_levels(np.random.default_rng(seed), 1, n)
    cut_groups = np.zeros(n, dtype=np.int64)
    np.testing.assert_allclose(
        combine_levels(np.repeat(levels, splits, axis=0), cut_groups, 0.2),
        combine_levels(levels, cut_groups, 0.2),
    )


def test_e_values_of_wrong_labels_sum_to_at_most_their_number_on_average() -> None:
    """E-values are m / (K level), for K kept at `level`. Where V is exact (signs of wrong labels
    are fair coins) the mean over 2,000 draws of the sum over wrong ones is below m + 2 standard
    errors; above m / 2 too, or the test would hold nothing.
    """
    rng, sums = np.random.default_rng(5), []
    for _ in range(2000):
        levels = split_levels(rng, magnitudes(rng))
        combined = combine_levels(levels[None], np.zeros(len(levels), dtype=np.int64), 0.1)
        kept = np.isfinite(combined)
        # m / (rank x e-value) is the combined level, so e = m / (K x combined).
        e_values = len(levels) / (kept.sum() * combined[kept]) if kept.any() else np.zeros(0)
        sums.append(e_values[kept[:CLEAN].sum() :].sum() / len(levels))
    assert np.mean(sums) <= 1 + 2 * np.std(sums) / np.sqrt(2000)
    assert np.mean(sums) > 0.5


@pytest.mark.parametrize("splits", [1, 3, 10])
def test_the_error_rate_holds_however_many_splits_are_combined(splits: int) -> None:
    """Mean FSR over 300 draws at q = 0.1 is below q + 2 standard errors, and most is kept."""
    rng, fsr, recall = np.random.default_rng(6), [], []
    for _ in range(300):
        sizes = magnitudes(rng, far=0.3)
        levels = np.stack([split_levels(rng, sizes) for _ in range(splits)])
        keep = combine_levels(levels, np.zeros(len(sizes), dtype=np.int64), 0.08) <= 0.1
        fsr.append(keep[CLEAN:].sum() / max(1, keep.sum()))
        recall.append(keep[:CLEAN].mean())
    assert np.mean(fsr) <= 0.1 + 2 * np.std(fsr) / np.sqrt(300)
    assert np.mean(recall) > 0.6
