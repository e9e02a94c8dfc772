"""Random halves of the rows that are fitted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.halves import random_halves, rows_by_half, thinned
from kspr.errors import InputError

laws = settings(max_examples=100, deadline=None)
sizes = st.lists(st.integers(2, 60), min_size=2, max_size=5)


@laws
@given(sizes=sizes, seed=st.integers(0, 100))
def test_every_row_is_in_one_half_and_classes_are_divided_equally(sizes, seed):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    halves = random_halves(codes, rng)
    rows = np.concatenate([half.index for half in halves])
    assert np.array_equal(np.sort(rows), np.arange(len(codes)))
    counts = [np.bincount(half.label, minlength=len(sizes)) for half in halves]
    assert np.abs(counts[0] - counts[1]).max() <= 1
    assert abs(len(halves[0].index) - len(halves[1].index)) <= 1
    for half in halves:
        assert np.array_equal(codes[half.index], half.label)
        assert (np.diff(half.label) >= 0).all()


@laws
@given(sizes=sizes, n_rows=st.integers(2, 300), seed=st.integers(0, 100))
def test_thinned_halves_have_the_same_share_of_every_class(sizes, n_rows, seed):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    whole = random_halves(codes, np.random.default_rng(seed))
    share = min(1.0, n_rows / len(codes))
    for half, part in zip(whole, thinned(whole, n_rows), strict=True):
        members, chosen = (np.bincount(h.label, minlength=len(sizes)) for h in (half, part))
        np.testing.assert_array_equal(chosen, np.ceil(share * members))
        assert set(part.index) <= set(half.index)
        assert len(set(part.index)) == len(part.index)
        np.testing.assert_array_equal(codes[part.index], part.label)


def test_rows_of_a_set_are_in_one_half():
    rng = np.random.default_rng(0)
    codes, together = rng.integers(0, 3, 90), np.repeat(np.arange(30), 3)
    halves = random_halves(codes, rng, together)
    assert not set(together[halves[0].index]) & set(together[halves[1].index])
    with pytest.raises(InputError, match="belong together"):
        random_halves(codes, rng, np.zeros(90, dtype=int))


def test_given_rows_stand_class_by_class_in_their_halves():
    rows, codes, half = np.array([3, 5, 8, 9]), np.array([1, 0, 1, 0]), np.array([0, 1, 0, 0])
    first, second = rows_by_half(rows, codes, half)
    assert (first.index.tolist(), first.label.tolist()) == ([9, 3, 8], [0, 1, 1])
    assert (second.index.tolist(), second.label.tolist()) == ([5], [0])
