"""The matrix of very many classes against the one that is written out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kspr.core.transition import estimate_transition, wrong_among, wrong_share
from tests.core.transitions import drawn_anchors
from tests.selectors.simulated import pairs, symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=25, deadline=None)


def counts_of(seed: int, c: int, share: float) -> np.ndarray:
    """Return counts of 20 anchors a class: spread evenly, to one class each, or to two."""
    matrix = [
        symmetric(c, share),
        pairs(c, share),
        (symmetric(c, share) + pairs(c, share)) / 2,
    ][seed % 3]
    return drawn_anchors(np.random.default_rng(seed), matrix, 20)


@laws
@given(seed=seeds, c=st.integers(3, 40), share=st.floats(0, 0.3))
def test_a_wide_matrix_is_the_written_one(seed: int, c: int, share: float) -> None:
    counts, rng = counts_of(seed, c, share), np.random.default_rng(seed)
    written, wide = estimate_transition(counts), estimate_transition(csr_array(counts))
    label = rng.integers(0, c, 50)
    chance = rng.dirichlet(np.ones(c), 50)
    np.testing.assert_allclose(wide.right, written.right, atol=1e-12)
    np.testing.assert_allclose(wide.mix(chance), written.mix(chance), atol=1e-12)
    columns = [noise.columns(label, np.dtype(float)) for noise in (wide, written)]
    np.testing.assert_allclose(*columns, atol=1e-12)
    for name in ("dot", "solve", "solve_transposed"):
        found, expected = (getattr(noise, name)(chance[0]) for noise in (wide, written))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@laws
@given(seed=seeds, c=st.integers(3, 40), share=st.floats(0, 0.3))
def test_what_follows_from_a_wide_matrix_follows_from_the_written_one(
    seed: int, c: int, share: float
) -> None:
    counts, rng = counts_of(seed, c, share), np.random.default_rng(seed)
    written, wide = estimate_transition(counts), estimate_transition(csr_array(counts))
    label, column = rng.integers(0, c, (2, 200))
    column[:50] = label[:50]
    weights = [noise.weights(label, column) for noise in (wide, written)]
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-5)
    # A class that nobody was given counts too.
    sizes = np.bincount(label, minlength=c)
    np.testing.assert_allclose(wrong_share(wide, sizes), wrong_share(written, sizes), atol=1e-9)
    among = [wrong_among(noise, sizes, 1.0) for noise in (wide, written)]
    np.testing.assert_allclose(*among, atol=1e-6)


def test_classes_that_lose_most_labels_to_one_class_keep_an_inverse() -> None:
    """What is beyond the labels that stay right counts as spread evenly."""
    counts = drawn_anchors(np.random.default_rng(0), pairs(10, 0.6), 200)
    wide = estimate_transition(csr_array(counts))
    own = wide.own.sum(axis=1)
    assert (own < wide.right).all()
    np.testing.assert_allclose(wide.right + 9 * wide.even + own, 1)
    np.testing.assert_allclose(wide.dot(wide.solve(np.arange(10.0))), np.arange(10.0), atol=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_labels_that_never_go_wrong_twice_the_same_way_are_spread_evenly(share: float) -> None:
    counts = 10 * np.eye(8)
    counts[np.arange(8), (np.arange(8) + 3) % 8] = share * 5
    wide = estimate_transition(csr_array(counts))
    assert not wide.own.nnz
    np.testing.assert_allclose(wide.right + 7 * wide.even, 1)
