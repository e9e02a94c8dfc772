"""The transition matrix from its anchors, and how much is wrong by it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from kspr.core.transition import estimate_transition, wrong_among, wrong_share
from tests.core.transitions import drawn_anchors
from tests.selectors.simulated import KINDS, draw_labels, pairs, symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40, deadline=None)


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


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_for_the_share_of_wrong_labels_covers_it(kind: str) -> None:
    """Anchors and labels drawn as assumed, 300 times. Of 95 %, sampling takes 3 standard errors
    (3.8 %); where rows differ, shrinking them costs some more: 85 % are asked for there.
    """
    rng, noise = np.random.default_rng(3), KINDS[kind]
    covered = []
    for _ in range(300):
        true = rng.choice(len(noise.shares), 2000, p=noise.shares)
        label = draw_labels(rng, true, noise.matrix)
        found = estimate_transition(drawn_anchors(rng, noise.matrix, 60))
        _, low, high = wrong_share(found, np.bincount(label))
        covered.append(low <= np.mean(label != true) <= high)
    assert np.mean(covered) > (0.912 if noise.alike else 0.85)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_ones_are_counted_among_their_label_not_their_class(kind: str) -> None:
    """With many anchors, over 20,000 labels: each share within 0.03 of the one that was made."""
    rng, noise = np.random.default_rng(4), KINDS[kind]
    true = rng.choice(len(noise.shares), 20_000, p=noise.shares)
    label = draw_labels(rng, true, noise.matrix)
    found = estimate_transition(drawn_anchors(rng, noise.matrix, 10**5))
    made = [np.mean(true[label == k] != k) for k in range(len(noise.shares))]
    np.testing.assert_allclose(wrong_among(found, np.bincount(label), 0.0), made, atol=0.03)
    assert (
        wrong_among(found, np.bincount(label), -2.0)
        <= wrong_among(found, np.bincount(label), 2.0) + 1e-9
    ).all()


def test_labels_without_errors_have_no_wrong_share() -> None:
    found = estimate_transition(60.0 * np.eye(4))
    share, low, high = wrong_share(found, np.full(4, 100))
    assert share == low == 0
    assert 0 < high < 0.05


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
    for found, expected in (
        (wide.dot(chance[0]), written.dot(chance[0])),
        (wide.solve(chance[0]), written.solve(chance[0])),
        (wide.unmix(chance), written.unmix(chance)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


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
    # A class that nobody was given counts too.
    sizes = np.bincount(label, minlength=c)
    np.testing.assert_allclose(wrong_share(wide, sizes), wrong_share(written, sizes), atol=1e-9)
    among = [wrong_among(noise, sizes, 1.0) for noise in (wide, written)]
    np.testing.assert_allclose(*among, atol=1e-6)


def test_classes_that_lose_most_labels_to_one_class_keep_an_inverse() -> None:
    """What is beyond the labels that stay right counts as spread evenly."""
    counts = drawn_anchors(np.random.default_rng(0), pairs(10, 0.6), 200)
    wide = estimate_transition(counts, written=False)
    own = wide.own.sum(axis=1)
    assert (own < wide.right).all()
    np.testing.assert_allclose(wide.right + 9 * wide.even + own, 1)
    np.testing.assert_allclose(wide.dot(wide.solve(np.arange(10.0))), np.arange(10.0), atol=1e-9)


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
