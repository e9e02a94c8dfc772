"""The transition matrix from its anchors, and how much is wrong by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kspr.core.transition import estimate_transition
from tests.core.transitions import drawn_anchors
from tests.selectors.simulated import KINDS, pairs, symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40)


# --- The matrix -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_many_anchors_give_the_true_matrix(kind: str) -> None:
    matrix = KINDS[kind].matrix
    found = estimate_transition(drawn_anchors(np.random.default_rng(0), matrix, 10**6))
    np.testing.assert_allclose(found.matrix, matrix, atol=0.003)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_borrow_gain_where_they_are_alike_and_lose_little_elsewhere(kind: str) -> None:
    """60 anchors a class: mean error of 100 draws against that of plain shares. Alike, the gain
    is above 3 standard errors; else the loss is below 0.01.
    """
    rng, noise = np.random.default_rng(1), KINDS[kind]
    gain = []
    for _ in range(100):
        counts = drawn_anchors(rng, noise.matrix, 60)
        raw = np.abs(counts / 60 - noise.matrix).mean()
        gain.append(raw - np.abs(estimate_transition(counts).matrix - noise.matrix).mean())
    assert np.mean(gain) > (3 * np.std(gain) / 10 if noise.alike else -0.01)


@laws
@given(seed=seeds, c=st.integers(2, 7), each=st.integers(0, 40))
def test_every_estimate_is_a_transition_matrix_that_can_be_inverted(
    seed: int, c: int, each: int
) -> None:
    """Even from no anchors, or from labels that say nothing."""
    rng = np.random.default_rng(seed)
    counts = drawn_anchors(rng, rng.dirichlet(np.ones(c), c), each)
    found = estimate_transition(counts)
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1)
    assert (found.matrix >= 0).all()
    assert (1 - np.diag(found.matrix) <= 0.98 * (1 - 1 / c) + 1e-12).all()
    assert np.isfinite(found.error)


@laws
@given(seed=seeds, c=st.integers(2, 6))
def test_renamed_classes_give_the_renamed_matrix(seed: int, c: int) -> None:
    rng = np.random.default_rng(seed)
    counts = drawn_anchors(rng, rng.dirichlet(np.ones(c), c), 30)
    name = rng.permutation(c)
    straight = estimate_transition(counts).matrix
    renamed = estimate_transition(counts[np.ix_(name, name)]).matrix
    np.testing.assert_allclose(renamed, straight[np.ix_(name, name)], atol=1e-12)


# --- How much is wrong ------------------------------------------------------------------------


def test_a_spread_with_its_wrong_labels_is_the_matrix_again() -> None:
    rng = np.random.default_rng(0)
    for written in (True, False):
        noise = estimate_transition(drawn_anchors(rng, symmetric(6, 0.3), 200), written=written)
        spread = noise.wrong_spread()
        np.testing.assert_allclose(spread.mix(np.eye(6)).sum(axis=1), 1)
        np.testing.assert_allclose(np.diag(spread.mix(np.eye(6))), 0, atol=1e-12)
        again = spread.with_wrong(1 - noise.right)
        np.testing.assert_allclose(again.mix(np.eye(6)), noise.mix(np.eye(6)))
        assert again.counted(np.arange(6.0)).wrong_share == pytest.approx(
            np.average(1 - noise.right, weights=np.arange(6.0))
        )


# --- Very many classes: the matrix is not written out -----------------------------------------


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
    written, wide = estimate_transition(counts), estimate_transition(counts, written=False)
    label = rng.integers(0, c, 50)
    chance = rng.dirichlet(np.ones(c), 50)
    np.testing.assert_allclose(wide.right, written.right, atol=1e-12)
    np.testing.assert_allclose(wide.mix(chance), written.mix(chance), atol=1e-12)
    columns = [noise.columns(label, np.dtype(float)) for noise in (wide, written)]
    np.testing.assert_allclose(*columns, atol=1e-12)
    np.testing.assert_allclose(wide.unmix(chance), written.unmix(chance), rtol=1e-5, atol=1e-5)


@laws
@given(seed=seeds, c=st.integers(3, 40), share=st.floats(0, 0.3))
def test_what_follows_from_a_wide_matrix_follows_from_the_written_one(
    seed: int, c: int, share: float
) -> None:
    counts, rng = counts_of(seed, c, share), np.random.default_rng(seed)
    written, wide = estimate_transition(counts), estimate_transition(counts, written=False)
    label, column = rng.integers(0, c, (2, 200))
    column[:50] = label[:50]
    weights = [noise.weights(label, column) for noise in (wide, written)]
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-5)


def test_classes_that_lose_most_labels_to_one_class_keep_an_inverse() -> None:
    """What is beyond the labels that stay right counts as spread evenly."""
    counts = drawn_anchors(np.random.default_rng(0), pairs(10, 0.6), 200)
    wide = estimate_transition(counts, written=False)
    own = wide.own.sum(axis=1)
    assert (own < wide.right).all()
    np.testing.assert_allclose(wide.right + 9 * wide.even + own, 1)
    chance = np.eye(10)
    np.testing.assert_allclose(wide.unmix(wide.mix(chance)), chance, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_labels_that_never_go_wrong_twice_the_same_way_are_spread_evenly(share: float) -> None:
    counts = 10 * np.eye(8)
    counts[np.arange(8), (np.arange(8) + 3) % 8] = share * 5
    wide = estimate_transition(counts, written=False)
    assert not wide.own.nnz
    np.testing.assert_allclose(wide.right + 7 * wide.even, 1)


def test_labels_are_mixed_and_unmixed() -> None:
    rng = np.random.default_rng(0)
    chance = rng.dirichlet(np.ones(5), 20)
    found = estimate_transition(drawn_anchors(rng, symmetric(5, 0.2), 50))
    np.testing.assert_allclose(found.mix(chance).sum(axis=1), 1)
    np.testing.assert_allclose(found.unmix(found.mix(chance)), chance, atol=1e-12)


def test_a_few_thousand_classes_need_no_matrix() -> None:
    counts = csr_array(drawn_anchors(np.random.default_rng(0), np.eye(1100), 5))
    found = estimate_transition(counts)
    assert not found.written
    assert not found.matrix.size
