"""Rows that belong together stay in one half, and halves stay as even as that allows."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kspr.core.paper.pieces import Pieces, make_pieces
from kspr.errors import InputError

PARTS = ("index", "label", "valid", "judged", "classes")
laws = settings(max_examples=100, deadline=None)
per_class = st.one_of(st.none(), st.integers(2, 20))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[np.ndarray], np.ndarray, int]:
    """Draw codes, groups of classes, and sets of very unequal sizes, across classes or within."""
    sizes = draw(st.lists(st.integers(1, 80), min_size=2, max_size=6))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    groups = np.array_split(np.arange(len(sizes)), 2 if len(sizes) > 3 and seed % 2 else 1)
    together = rng.integers(-1, draw(st.integers(1, 60)), len(codes))
    together[rng.random(len(codes)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = -1
    if draw(st.booleans()):
        together = np.where(together < 0, -1, together * len(sizes) + codes)
    for group in groups:
        sets = together[np.isin(codes, group)]
        assume(len(np.unique(sets)) > 1 or sets[0] == -1)
        assume(len(sets) > 1)
    return codes, groups, together, seed


def split(case, m: int | None) -> list[Pieces]:
    codes, groups, together, seed = case
    return make_pieces(codes, groups, m, np.random.default_rng(seed), together)


@laws
@given(case=cases(), m=per_class)
def test_no_set_stands_in_both_halves_of_a_piece(case, m):
    together = case[2]
    for pieces in split(case, m):
        for index, valid in zip(pieces.index, pieces.valid, strict=True):
            a, b = (set(together[index[half, valid[half]]]) - {-1} for half in (0, 1))
            assert not a & b


@laws
@given(case=cases(), m=per_class)
def test_every_sample_is_judged_once_by_a_fit_on_others(case, m):
    codes = case[0]
    parts = split(case, m)
    judged = np.concatenate([pieces.index[pieces.judged] for pieces in parts])
    np.testing.assert_array_equal(np.sort(judged), np.arange(len(codes)))
    for pieces in parts:
        assert not (pieces.judged & ~pieces.valid).any()
        own = np.take_along_axis(pieces.classes, pieces.label.reshape(pieces.n_pieces, -1), axis=1)
        own = own.reshape(pieces.label.shape)
        np.testing.assert_array_equal(codes[pieces.index][pieces.valid], own[pieces.valid])
        for index, valid in zip(pieces.index, pieces.valid, strict=True):
            assert not set(index[0, valid[0]]) & set(index[1, valid[1]])


@laws
@given(case=cases())
def test_halves_of_a_class_differ_by_its_largest_set_at_most(case):
    """For sets within one class; those across classes bind classes to each other."""
    codes, groups, together, seed = case
    together = np.where(together < 0, -1, together * (codes.max() + 1) + codes)
    for pieces in split((codes, groups, together, seed), None):
        for i in range(pieces.n_pieces):
            width = pieces.classes.shape[1]
            a, b = (
                np.bincount(pieces.label[i, half][pieces.valid[i, half]], minlength=width)
                for half in (0, 1)
            )
            for k, code in enumerate(pieces.classes[i]):
                sets = together[(codes == code) & (together >= 0)]
                assert abs(int(a[k]) - int(b[k])) <= max(1, np.bincount(sets, minlength=1).max())


def test_sets_of_one_class_leave_its_halves_even():
    """Thirty sets of three and sixty rows alone: as even as without sets."""
    codes = np.repeat([0, 1], 150)
    together = np.where(np.arange(300) % 150 < 90, np.arange(300) // 3, -1)
    (pieces,) = make_pieces(codes, [np.array([0, 1])], None, np.random.default_rng(0), together)
    for half in (0, 1):
        label = pieces.label[0, half][pieces.valid[0, half]]
        np.testing.assert_array_equal(np.bincount(label), [75, 75])


@pytest.mark.parametrize("m", [None, 10])
def test_a_set_larger_than_half_of_its_class_takes_one_half_and_the_rest_the_other(m):
    codes = np.repeat([0, 1], 40)
    together = np.where(np.arange(80) < 30, 0, -1)
    for pieces in make_pieces(codes, [np.array([0, 1])], m, np.random.default_rng(0), together):
        sides = [set(pieces.index[:, h][pieces.valid[:, h]]) for h in (0, 1)]
        large = next(side for side in sides if 0 in side)
        assert set(range(30)) <= large
        assert not large & set(range(30, 40))


@pytest.mark.parametrize("m", [None, 7, 20])
def test_sets_of_one_row_change_nothing(m):
    codes = np.random.default_rng(1).integers(0, 5, 301)
    groups = [np.array([0, 2, 4]), np.array([1, 3])]
    plain = make_pieces(codes, groups, m, np.random.default_rng(0))
    for together in (np.full(301, -1), np.arange(301)):
        for one, other in zip(
            plain, make_pieces(codes, groups, m, np.random.default_rng(0), together), strict=True
        ):
            for name in PARTS:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize(
    ("m", "digest"),
    [(None, "f9a66a1f1eeb1c01"), (7, "b935fd6d77a9652a"), (20, "276d75ecc8f22a6d")],
)
def test_the_split_without_sets_is_the_one_that_stored_results_were_made_with(m, digest):
    codes = np.random.default_rng(1).integers(0, 5, 301)
    groups = [np.array([0, 2, 4]), np.array([1, 3])]
    found = hashlib.sha256()
    for pieces in make_pieces(codes, groups, m, np.random.default_rng(0)):
        for name in PARTS:
            found.update(np.ascontiguousarray(getattr(pieces, name), dtype=np.int64).tobytes())
    assert found.hexdigest()[:16] == digest


def test_a_piece_of_one_set_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="All 4 rows of a piece belong together"):
        make_pieces(
            np.array([0, 0, 1, 1, 2, 2]),
            [np.array([0, 1]), np.array([2])],
            None,
            np.random.default_rng(0),
            np.array([5, 5, 5, 5, -1, -1]),
        )
