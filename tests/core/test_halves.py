"""Halves and fitted rows that are decided row by row: states merge, and shares are kept."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.halves import Census, content_keys, row_keys, text_keys

seeds = st.integers(0, 2**63 - 1)
laws = settings(max_examples=40, deadline=None)


def counted(
    codes: np.ndarray, seed: int, start: int = 0, coins: np.ndarray | None = None
) -> Census:
    keys = row_keys(start, len(codes), seed)
    classes, own = np.unique(codes, return_inverse=True)
    return Census.of(classes, own, keys, keys if coins is None else coins)


@laws
@given(seed=seeds, n=st.integers(2, 3000), c=st.integers(1, 9), data=st.data())
def test_blocks_merge_to_the_census_of_all_rows(seed, n, c, data):
    codes = np.random.default_rng(seed).integers(0, c, n)
    cut = data.draw(st.integers(1, n - 1))
    merged = counted(codes[:cut], seed).merge(counted(codes[cut:], seed, cut))
    whole = counted(codes, seed)
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(getattr(merged, name), value, err_msg=name)


@laws
@given(seed=seeds, n=st.integers(200, 3000), c=st.integers(2, 40))
def test_every_class_is_fitted_in_both_halves_and_small_ones_are_divided_equally(seed, n, c):
    # Sizes from one row to most of them.
    codes = np.random.default_rng(seed).geometric(0.3, n).clip(1, c) - 1
    census, keys = counted(codes, seed), row_keys(0, n, seed)
    own = np.searchsorted(census.classes, codes)
    deal = census.assign(n // 10)
    half = deal.halves(own, keys, keys)
    fitted = deal.fitted(own, keys)
    sizes = np.stack([np.bincount(own[half == h], minlength=len(census.classes)) for h in (0, 1)])
    np.testing.assert_array_equal(deal.sizes.T, sizes)
    few = sizes.sum(axis=0) <= 64
    assert (np.abs(sizes[0] - sizes[1])[few] <= 1).all()
    for h in (0, 1):
        there = np.bincount(own[fitted][half[fitted] == h], minlength=len(census.classes))
        assert (there >= np.minimum(sizes[h], 1)).all()


def test_the_share_of_fitted_rows_and_of_halves_is_the_one_asked_for():
    codes = np.arange(200_000) % 7
    keys = row_keys(0, len(codes), 3)
    deal = counted(codes, 3).assign(20_000)
    assert abs(len(deal.fitted(codes, keys)) - 20_000) < 4 * np.sqrt(20_000)
    assert abs(deal.halves(codes, keys, keys).mean() - 0.5) < 4 * 0.5 / np.sqrt(200_000)


def test_equal_rows_have_equal_coins_whatever_their_block_and_the_sign_of_zero():
    X = np.random.default_rng(0).standard_normal((5000, 9)).astype(np.float32)
    X[:, 3] = 0
    X[4000:] = X[:1000]
    X[4000:, 3] = -0.0
    coins = content_keys(X, 5)
    np.testing.assert_array_equal(coins[4000:], coins[:1000])
    np.testing.assert_array_equal(content_keys(X[17:40], 5), coins[17:40])
    assert len(np.unique(coins)) == 4000
    assert 0.45 < (coins & np.uint64(1)).mean() < 0.55
    # A fifth and a fifth of the rows have a copy.
    census = counted(np.zeros(5000, dtype=int), 5, coins=coins)
    assert abs(census.share_of_copies - 0.4) < 0.1


def test_copies_share_a_half_unless_most_rows_have_one():
    codes = np.zeros(4000, dtype=int)
    keys = row_keys(0, 4000, 1)
    for different, together in ((3000, True), (8, False)):
        coins = content_keys((np.arange(4000.0) % different)[:, None], 1)
        deal = counted(codes, 1, coins=coins).assign(400)
        half = deal.halves(codes, keys, coins)
        assert (half[different:] == half[: 4000 - different]).all() == together
        assert 0.4 < half.mean() < 0.6


def test_groups_stay_together_even_in_small_classes():
    codes = np.arange(40) % 20
    coins = text_keys(np.repeat(["a", "b", "c", "d", "e", "f", "g", "h"], 5), 0)
    deal = counted(codes, 0, coins=coins).assign(10, groups=True)
    half = deal.halves(codes, row_keys(0, 40, 0), coins).reshape(8, 5)
    assert (half == half[:, :1]).all()


def test_coins_of_groups_go_by_their_text():
    numbers, texts = (text_keys(np.array(values), 0) for values in ([1, 2], ["1", "2"]))
    np.testing.assert_array_equal(numbers, texts)
