"""Random halves of the rows that are fitted."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kspr.core.halves import n_folds, random_folds, random_halves, rows_by_half, thinned
from kspr.errors import InputError

laws = settings(max_examples=100)
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


@st.composite
def cases_of_sets(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw codes and sets of very unequal sizes, across classes or within."""
    sizes = draw(st.lists(st.integers(1, 80), min_size=2, max_size=6))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    together = rng.integers(-1, draw(st.integers(1, 60)), len(codes))
    together[rng.random(len(codes)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = -1
    if draw(st.booleans()):
        together = np.where(together < 0, -1, together * len(sizes) + codes)
    assume(len(np.unique(together)) > 1 or together[0] == -1)
    return codes, together, seed


@laws
@given(case=cases_of_sets())
def test_no_set_stands_in_both_halves(case):
    codes, together, seed = case
    first, second = random_halves(codes, np.random.default_rng(seed), together)
    assert not (set(together[first.index]) & set(together[second.index])) - {-1}
    rows = np.concatenate([first.index, second.index])
    assert np.array_equal(np.sort(rows), np.arange(len(codes)))


@laws
@given(case=cases_of_sets())
def test_halves_of_a_class_differ_by_its_largest_set_at_most(case):
    """For sets within one class; those across classes bind classes to each other."""
    codes, together, seed = case
    together = np.where(together < 0, -1, together * (codes.max() + 1) + codes)
    assume(len(np.unique(together)) > 1 or together[0] == -1)
    halves = random_halves(codes, np.random.default_rng(seed), together)
    a, b = (np.bincount(half.label, minlength=codes.max() + 1) for half in halves)
    for k in range(codes.max() + 1):
        sets = together[(codes == k) & (together >= 0)]
        assert abs(int(a[k]) - int(b[k])) <= max(1, np.bincount(sets, minlength=1).max())


def test_sets_of_one_class_leave_its_halves_even():
    """Thirty sets of three and sixty rows alone: as even as without sets."""
    together = np.where(np.arange(300) % 150 < 90, np.arange(300) // 3, -1)
    for half in random_halves(np.repeat([0, 1], 150), np.random.default_rng(0), together):
        np.testing.assert_array_equal(np.bincount(half.label), [75, 75])


def test_a_set_larger_than_half_of_its_class_takes_one_half_and_the_rest_the_other():
    together = np.where(np.arange(80) < 30, 0, -1)
    halves = random_halves(np.repeat([0, 1], 40), np.random.default_rng(0), together)
    large = next(set(half.index) for half in halves if 0 in half.index)
    assert set(range(30)) <= large
    assert not large & set(range(30, 40))


def test_sets_of_one_row_change_nothing():
    codes = np.random.default_rng(1).integers(0, 5, 301)
    plain = random_halves(codes, np.random.default_rng(0))
    for together in (np.full(301, -1), np.arange(301)):
        for one, other in zip(
            plain, random_halves(codes, np.random.default_rng(0), together), strict=True
        ):
            np.testing.assert_array_equal(one.index, other.index)


def test_a_single_set_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="All 90 rows belong together"):
        random_halves(np.arange(90) % 3, np.random.default_rng(0), np.zeros(90, dtype=int))


def test_given_rows_stand_class_by_class_in_their_halves():
    rows, codes, half = np.array([3, 5, 8, 9]), np.array([1, 0, 1, 0]), np.array([0, 1, 0, 0])
    first, second = rows_by_half(rows, codes, half)
    assert (first.index.tolist(), first.label.tolist()) == ([9, 3, 8], [0, 1, 1])
    assert (second.index.tolist(), second.label.tolist()) == ([5], [0])


def test_folds_divide_every_class_and_those_with_even_numbers_are_one_half():
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(3), [80, 40, 17]))
    folds = random_folds(codes, 8, np.random.default_rng(1))
    assert np.array_equal(np.sort(np.concatenate([f.index for f in folds])), np.arange(137))
    counts = np.stack([np.bincount(f.label, minlength=3) for f in folds])
    assert (counts.max(axis=0) - counts.min(axis=0)).max() <= 2
    half, _ = random_halves(codes, np.random.default_rng(1))
    even = np.concatenate([fold.index for fold in folds[::2]])
    assert set(even) == set(half.index)


def test_rows_that_belong_together_are_in_one_fold():
    together = np.random.default_rng(0).integers(0, 30, 400)
    # More than an eighth of the rows, so that one fold cannot be halved.
    together[:120] = 30
    folds = random_folds(np.arange(400) % 2, 8, np.random.default_rng(1), together)
    number = np.empty(400, dtype=int)
    for k, fold in enumerate(folds):
        number[fold.index] = k
    assert all(len(set(number[together == t])) == 1 for t in range(31))


def test_only_classes_with_few_rows_are_cut_in_more_than_halves():
    assert n_folds(10_000, 77) == n_folds(22_500, 150) == n_folds(500, 10) == 8
    assert n_folds(50_000, 10) == 2
    # Rows times classes are many: every fit of a fold would cost as much.
    assert n_folds(60_000, 6_000) == 2
