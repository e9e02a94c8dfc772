"""Halves and fitted rows that are decided row by row: shares are kept, and copies together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.halves import assign_halves, content_keys, row_content, row_keys

seeds = st.integers(0, 2**63 - 1)
laws = settings(max_examples=40)


@laws
@given(seed=seeds, n=st.integers(200, 3000), c=st.integers(2, 40))
def test_every_class_is_fitted_in_both_halves_and_small_ones_are_divided_equally(seed, n, c):
    # Sizes from one row to most of them.
    codes = np.random.default_rng(seed).geometric(0.3, n).clip(1, c) - 1
    keys = row_keys(0, n, seed)
    half, fitted = assign_halves(codes, keys, keys, n // 10)
    sizes, parts = (
        np.stack([np.bincount(codes[rows][half[rows] == h], minlength=c) for h in (0, 1)])
        for rows in (slice(None), fitted)
    )
    few = sizes.sum(axis=0) <= 64
    assert (np.abs(sizes[0] - sizes[1])[few] <= 1).all()
    assert (parts >= np.minimum(sizes, 1)).all()


def test_the_share_of_fitted_rows_and_of_halves_is_the_one_asked_for():
    codes = np.arange(200_000) % 7
    keys = row_keys(0, len(codes), 3)
    half, fitted = assign_halves(codes, keys, keys, 20_000)
    assert abs(len(fitted) - 20_000) < 4 * np.sqrt(20_000)
    assert abs(half.mean() - 0.5) < 4 * 0.5 / np.sqrt(200_000)


def test_a_row_keeps_its_half_when_others_join():
    codes, keys = np.arange(6000) % 3, row_keys(0, 6000, 1)
    few, _ = assign_halves(codes[:3000], keys[:3000], keys[:3000], 300)
    many, _ = assign_halves(codes, keys, keys, 300)
    np.testing.assert_array_equal(few, many[:3000])
    np.testing.assert_array_equal(row_keys(1000, 5, 1), keys[1000:1005])


def test_equal_rows_have_equal_keys_whatever_their_block_and_the_sign_of_zero():
    X = np.random.default_rng(0).standard_normal((5000, 9)).astype(np.float32)
    X[:, 3] = 0
    X[4000:] = X[:1000]
    X[4000:, 3] = -0.0
    keys = content_keys(X, 5)
    np.testing.assert_array_equal(keys[4000:], keys[:1000])
    np.testing.assert_array_equal(content_keys(X[17:40], 5), keys[17:40])
    assert len(np.unique(keys)) == 4000
    assert 0.45 < (keys & np.uint64(1)).mean() < 0.55


@pytest.mark.parametrize(("different", "together"), [(3000, True), (8, False)])
def test_copies_share_a_half_unless_most_rows_have_one(different, together):
    codes, keys = np.zeros(4000, dtype=int), row_keys(0, 4000, 1)
    contents = content_keys((np.arange(4000.0) % different)[:, None], 1)
    half, _ = assign_halves(codes, keys, contents, 400)
    assert (half[different:] == half[: 4000 - different]).all() == together
    assert 0.4 < half.mean() < 0.6


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_different_rows_of_small_whole_numbers_have_different_content(kind):
    """Most bits of them are zeros: rows of zeros and ones once had 4,096 numbers between them."""
    rng = np.random.default_rng(0)
    for X in (rng.integers(0, 2, (20_000, 60)), rng.integers(0, 17, (20_000, 5))):
        different = len(np.unique(X, axis=0))
        assert len(np.unique(row_content(X.astype(kind)))) == different
