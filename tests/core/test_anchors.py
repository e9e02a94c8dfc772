"""Anchors: the samples that look most like a class, in blocks of any size."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.transition import ANCHOR_SHARE, Anchors, bin_sizes
from tests.core.transitions import anchors_of

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40)


@laws
@given(seed=seeds, n=st.integers(1, 400), c=st.integers(2, 5))
def test_anchors_are_the_samples_that_look_most_like_a_class(seed: int, n: int, c: int) -> None:
    """Half by half, whatever their own label is."""
    rng = np.random.default_rng(seed)
    prediction, label = rng.standard_normal((n, c)), rng.integers(0, c, n)
    half = rng.integers(0, 2, n)
    expected = np.zeros((c, c))
    for side in (0, 1):
        rows = [i for i in range(n) if half[i] == side]
        for k in range(c):
            size = sum(label[i] == k for i in rows)
            wanted = max(min(15, -(-size // 5)), round(ANCHOR_SHARE * size))
            for i in sorted(rows, key=lambda i, k=k: -prediction[i, k])[:wanted]:
                expected[k, label[i]] += 1
    np.testing.assert_array_equal(anchors_of(prediction, label, half, c), expected)


@laws
@given(
    seed=seeds,
    n=st.integers(2, 400),
    c=st.integers(2, 5),
    step=st.integers(1, 200),
    ties=st.booleans(),
)
def test_blocks_of_any_size_and_joined_states_give_the_same_anchors(
    seed: int, n: int, c: int, step: int, ties: bool
) -> None:
    rng = np.random.default_rng(seed)
    prediction = rng.standard_normal((n, c)).round(0 if ties else 9).astype(np.float32)
    label, half = rng.integers(0, c, n), rng.integers(0, 2, n)
    parts = []
    for blocks in np.array_split(np.arange(n), 3):
        part = Anchors(bin_sizes(label, half, c))
        for start in range(0, len(blocks), step):
            rows = blocks[start : start + step]
            part.add(prediction[rows], label[rows], half[rows])
        parts.append(part)
    joined = Anchors.joined(parts)
    assert joined.complete
    np.testing.assert_array_equal(joined.counts().toarray(), anchors_of(prediction, label, half, c))


def test_of_samples_that_tie_the_first_are_anchors() -> None:
    label = np.repeat([0, 1], 50)
    nowhere = np.zeros_like(label)
    counts = anchors_of(np.ones((100, 2)), label, nowhere, 2)
    np.testing.assert_array_equal(counts, [[10, 0], [10, 0]])


@laws
@given(seed=seeds, n=st.integers(50, 400), c=st.integers(2, 4), share=st.floats(0.05, 1.0))
def test_a_guess_is_told_if_it_was_too_high_and_else_changes_nothing(
    seed: int, n: int, c: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    prediction = rng.standard_normal((n, c)).astype(np.float32)
    label, half = rng.integers(0, c, n), rng.integers(0, 2, n)
    sizes = bin_sizes(label, half, c)
    rows = np.flatnonzero(rng.random(n) < share)
    guided = Anchors(sizes, Anchors(sizes).guess(prediction[rows], half[rows]))
    guided.add(prediction, label, half)
    if guided.complete:
        expected = anchors_of(prediction, label, half, c)
        np.testing.assert_array_equal(guided.counts().toarray(), expected)
    high = Anchors(sizes, np.full(2 * c, 100.0))
    high.add(prediction, label, half)
    assert not high.complete
