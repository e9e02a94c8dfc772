"""Prototypes, groups of classes and balanced pieces."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.paper.pieces import (
    Pieces,
    group_classes,
    make_pieces,
    prototypes,
    similarity,
)


@st.composite
def splits(
    draw: st.DrawFn, largest: int = 200, smallest: int = 1
) -> tuple[np.ndarray, list[np.ndarray], int]:
    """Draw shuffled codes of very unequal classes, and a partition of the classes."""
    sizes = draw(
        st.lists(
            st.one_of(st.integers(smallest, 5), st.integers(smallest, largest)),
            min_size=2,
            max_size=9,
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    similar = rng.standard_normal((len(sizes), len(sizes)))
    groups = group_classes(similar + similar.T, draw(st.integers(2, len(sizes))))
    return codes, groups, draw(st.integers(0, 2**32 - 1))


per_class = st.one_of(st.none(), st.integers(2, 20))
laws = settings(max_examples=100)


def split(
    case: tuple[np.ndarray, list[np.ndarray], int], samples_per_class: int | None
) -> list[Pieces]:
    codes, groups, seed = case
    return make_pieces(codes, groups, samples_per_class, np.random.default_rng(seed))


# --- Pieces -----------------------------------------------------------------------------------


@laws
@given(case=splits(), m=per_class)
def test_every_sample_is_judged_exactly_once(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int | None
) -> None:
    judged = np.concatenate([pieces.index[pieces.judged] for pieces in split(case, m)])
    np.testing.assert_array_equal(np.sort(judged), np.arange(len(case[0])))


@laws
@given(case=splits(), m=per_class)
def test_only_valid_slots_are_judged(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int | None
) -> None:
    for pieces in split(case, m):
        assert not (pieces.judged & ~pieces.valid).any()


@laws
@given(case=splits(), m=per_class)
def test_a_slot_holds_a_sample_of_its_label(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int | None
) -> None:
    codes = case[0]
    for pieces in split(case, m):
        classes = np.take_along_axis(
            pieces.classes, pieces.label.reshape(pieces.n_pieces, -1), axis=1
        ).reshape(pieces.label.shape)
        np.testing.assert_array_equal(codes[pieces.index][pieces.valid], classes[pieces.valid])


@laws
@given(case=splits(), m=per_class)
def test_no_sample_stands_in_both_halves_of_a_piece(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int | None
) -> None:
    for pieces in split(case, m):
        for index, valid in zip(pieces.index, pieces.valid, strict=True):
            assert not set(index[0, valid[0]]) & set(index[1, valid[1]])


@laws
@given(case=splits(), m=st.integers(2, 20))
def test_classes_of_two_or_more_have_equal_shares_of_every_half(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int
) -> None:
    """A class of one can stand in one half only; all others fill their slots."""
    size = np.bincount(case[0])
    for pieces in split(case, m):
        for piece in range(pieces.n_pieces):
            for half, share in enumerate(((m + 1) // 2, m // 2)):
                label = pieces.label[piece, half][pieces.valid[piece, half]]
                counts = np.bincount(label, minlength=pieces.classes.shape[1])
                alone = size[pieces.classes[piece]] == 1
                np.testing.assert_array_equal(counts[~alone], share)
                np.testing.assert_array_equal(counts[alone], 0 if half else share)


@laws
@given(case=splits(), m=st.integers(2, 20))
def test_refilled_slots_repeat_a_sample_no_more_often_than_they_must(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int
) -> None:
    """Within a half, the copies of a class's samples differ by one at most."""
    for pieces in split(case, m):
        for index, valid, label in zip(pieces.index, pieces.valid, pieces.label, strict=True):
            for half in (0, 1):
                for k in np.unique(label[half, valid[half]]):
                    own = index[half, valid[half] & (label[half] == k)]
                    copies = np.unique(own, return_counts=True)[1]
                    assert copies.max() - copies.min() <= 1


@laws
@given(case=splits(), m=st.integers(2, 20))
def test_a_group_has_as_few_pieces_as_its_largest_class_needs(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int
) -> None:
    codes, groups, _ = case
    size = np.bincount(codes)
    needed = sum(-(-int(size[group].max()) // m) for group in groups)
    assert sum(pieces.n_pieces for pieces in split(case, m)) == needed


@laws
@given(case=splits())
def test_whole_groups_hold_each_sample_once_in_even_halves(
    case: tuple[np.ndarray, list[np.ndarray], int],
) -> None:
    codes, groups, _ = case
    size = np.bincount(codes)
    pieces = [made[i : i + 1] for made in split(case, None) for i in range(made.n_pieces)]
    assert len(pieces) == len(groups)
    for piece in pieces:
        held = np.sort(piece.index[piece.valid])
        np.testing.assert_array_equal(held, np.flatnonzero(np.isin(codes, piece.classes[0])))
        counts = [
            np.bincount(piece.label[0, half][piece.valid[0, half]], minlength=len(piece.classes[0]))
            for half in (0, 1)
        ]
        assert abs(counts[0].sum() - counts[1].sum()) <= 1
        assert np.abs(counts[0] - counts[1]).max() <= 1
        np.testing.assert_array_equal(counts[0] + counts[1], size[piece.classes[0]])


@laws
@given(case=splits(), m=per_class)
def test_pieces_depend_on_the_seed_alone(
    case: tuple[np.ndarray, list[np.ndarray], int], m: int | None
) -> None:
    for one, other in zip(split(case, m), split(case, m), strict=True):
        for name in ("index", "label", "valid", "judged", "classes"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_another_seed_gives_another_split() -> None:
    codes = np.repeat([0, 1], 50)
    groups = [np.array([0, 1])]
    one, other = (make_pieces(codes, groups, 10, np.random.default_rng(s))[0] for s in (0, 1))
    assert (one.index != other.index).any()


def test_a_slice_of_pieces_is_pieces() -> None:
    pieces = make_pieces(np.repeat([0, 1], 50), [np.array([0, 1])], 10, np.random.default_rng(0))[0]
    part = pieces[1:3]
    assert part.n_pieces == 2
    np.testing.assert_array_equal(part.index, pieces.index[1:3])
    np.testing.assert_array_equal(part.judged, pieces.judged[1:3])


# --- Groups -----------------------------------------------------------------------------------


@laws
@given(n=st.integers(2, 40), size=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_groups_partition_the_classes_and_none_is_alone(n: int, size: int, seed: int) -> None:
    similar = np.random.default_rng(seed).standard_normal((n, n))
    groups = group_classes(similar, size)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(n))
    lengths = [len(group) for group in groups]
    assert min(lengths) >= 2
    # Only an odd class out of pairs may enlarge a group.
    assert max(lengths) <= (size if size > 2 else 3)
    assert sum(length < size for length in lengths) <= 2
    if n % size == 0:
        assert set(lengths) == {size}
    elif n > size and n % size > 1:
        assert sorted(lengths)[0] == n % size
        assert set(sorted(lengths)[1:]) == {size}


def test_most_similar_classes_are_together() -> None:
    """Three directions, two classes each, the codes far apart."""
    prototype = np.repeat(np.eye(3), 2, axis=0)[[0, 2, 4, 1, 3, 5]] * 2 + 0.1
    groups = group_classes(similarity(prototype), 2)
    assert [group.tolist() for group in groups] == [[0, 3], [1, 4], [2, 5]]


def test_similarity_is_the_inner_product_of_prototypes() -> None:
    prototype = np.random.default_rng(0).standard_normal((4, 3))
    for i in range(4):
        for j in range(4):
            assert similarity(prototype)[i, j] == pytest.approx(sum(prototype[i] * prototype[j]))


# --- Prototypes -------------------------------------------------------------------------------


def blocks_of(X: np.ndarray, step: int) -> list[np.ndarray]:
    return [X[start : start + step] for start in range(0, len(X), step)]


@laws
@given(
    seed=st.integers(0, 2**32 - 1),
    step=st.integers(1, 70),
    known=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_prototypes_are_the_means_of_the_clean_samples(
    seed: int, step: int, known: bool, dtype: type
) -> None:
    """The block size does not matter; a class without a clean sample uses all of its own."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.concatenate([np.arange(5), rng.integers(0, 5, 55)]))
    X = rng.standard_normal((60, 3)).astype(dtype)
    clean = rng.random(60) < 0.5
    clean[codes == 2] = False
    before = clean.copy()
    found = prototypes(blocks_of(X, step), codes, 5, clean if known else None)
    for k in range(5):
        used = codes == k
        if known and (used & clean).any():
            used &= clean
        np.testing.assert_allclose(
            found[k], X[used].mean(axis=0), atol=1e-5 if dtype == np.float32 else 1e-12
        )
    np.testing.assert_array_equal(clean, before)


@pytest.mark.parametrize(
    ("m", "digest"),
    [(None, "f9a66a1f1eeb1c01"), (7, "b935fd6d77a9652a"), (20, "276d75ecc8f22a6d")],
)
def test_the_split_without_sets_is_the_one_that_stored_results_were_made_with(m, digest):
    codes = np.random.default_rng(1).integers(0, 5, 301)
    groups = [np.array([0, 2, 4]), np.array([1, 3])]
    found = hashlib.sha256()
    for pieces in make_pieces(codes, groups, m, np.random.default_rng(0)):
        for name in ("index", "label", "valid", "judged", "classes"):
            found.update(np.ascontiguousarray(getattr(pieces, name), dtype=np.int64).tobytes())
    assert found.hexdigest()[:16] == digest
