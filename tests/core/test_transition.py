"""The transition matrix from its anchors, and the cut-offs it gives against slow loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.transition import (
    _SOFTENING,
    ANCHOR_SHARE,
    CAUTION,
    Transition,
    count_anchors,
    estimate_transition,
    probability_right,
    transition_levels,
    wrong_among,
    wrong_share,
)
from tests.selectors.simulated import KINDS, draw_labels, pairs, symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40, deadline=None)


def drawn_anchors(rng: np.random.Generator, matrix: np.ndarray, each: int) -> np.ndarray:
    return np.stack([rng.multinomial(each, row) for row in matrix]).astype(float)


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
    np.testing.assert_array_equal(count_anchors(prediction, label, half, c), expected)


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
        _, low, high = wrong_share(found, label)
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
    np.testing.assert_allclose(wrong_among(found, label, 0.0), made, atol=0.03)
    assert (wrong_among(found, label, -2.0) <= wrong_among(found, label, 2.0) + 1e-9).all()


def test_labels_without_errors_have_no_wrong_share() -> None:
    found = estimate_transition(60.0 * np.eye(4))
    share, low, high = wrong_share(found, np.arange(400) % 4)
    assert share == low == 0
    assert 0 < high < 0.05


# --- How surely a label is right --------------------------------------------------------------


@laws
@given(seed=seeds, c=st.integers(2, 5), e=st.floats(0, 0.7))
def test_the_chance_to_be_right_is_bayes_rule(seed: int, c: int, e: float) -> None:
    rng = np.random.default_rng(seed)
    matrix = symmetric(c, e * (1 - 1 / c))
    right, prior = probability_right(rng.standard_normal((50, c)), matrix, rng.integers(0, c, 50))
    np.testing.assert_allclose(prior.sum(axis=1), 1)
    # The order goes by a softer softmax than the chances that come back.
    soft = np.where(prior > 0, prior, 1e-300) ** (1 / _SOFTENING)
    soft /= soft.sum(axis=1, keepdims=True)
    for k in range(c):
        seen = sum(soft[:, a] * matrix[a, k] for a in range(c))
        expected = soft[:, k] * matrix[k, k] / np.maximum(seen, 1e-12)
        np.testing.assert_allclose(right[:, k], expected, rtol=1e-9, atol=1e-12)


def test_without_noise_every_label_is_right() -> None:
    right, _ = probability_right(np.eye(3), np.eye(3), np.arange(3))
    np.testing.assert_allclose(right, 1)


# --- Levels -----------------------------------------------------------------------------------


def case_of(
    seed: int, c: int, ties: bool, n: int = 120
) -> tuple[np.ndarray, np.ndarray, Transition]:
    """Return chances, labels and noise. Log-odds lie on a grid that grading does not merge."""
    rng = np.random.default_rng(seed)
    matrix = symmetric(c, 0.2) if seed % 2 else pairs(c, 0.3)
    true = rng.integers(0, c, n)
    label = draw_labels(rng, true, matrix)
    odds = rng.standard_normal((n, c)) + 2 * np.eye(c)[true]
    right = 1 / (1 + np.exp(-np.round(odds, 0 if ties else 2)))
    return right, label, estimate_transition(drawn_anchors(rng, matrix, 60))


def noisier(matrix: np.ndarray, change: float) -> np.ndarray:
    changed = matrix.copy()
    for a, row in enumerate(matrix):
        wrong = 1 - row[a]
        more = np.clip(wrong + change, 0, 0.99 * (1 - 1 / len(matrix)))
        changed[a] = row * more / wrong if wrong else more / (len(matrix) - 1)
        changed[a, a] = 1 - more
    return changed


def wrong_by_hand(seen: list[np.ndarray], transition: Transition) -> float:
    """Return the wrong labels that the counts ``seen[k]`` of labels below the cut of k speak of."""

    def solved(matrix: np.ndarray) -> float:
        each = [np.linalg.solve(matrix.T, seen[k])[k] if seen[k].any() else 0 for k in classes]
        return sum(seen[k][k] - matrix[k, k] * m for k, m in zip(classes, each, strict=True))

    matrix, classes = transition.matrix, range(len(seen))
    variance = 0.0
    for k in classes:
        for j, count in enumerate(seen[k]):
            one = np.eye(len(matrix))[j]
            weight = float(j == k) - matrix[k, k] * np.linalg.solve(matrix.T, one)[k]
            variance += count * weight**2
    above, below = (solved(noisier(matrix, s * transition.error)) for s in (1, -1))
    return solved(matrix) + CAUTION * np.sqrt(variance + ((above - below) / 2) ** 2)


def levels_by_hand(
    right: np.ndarray, label: np.ndarray, transition: Transition, pooled: bool
) -> np.ndarray:
    """Solve the mixture at every cut, one class or all of them at a time."""
    n, c = right.shape
    doubt = np.round(1 - right, 9)
    own = doubt[np.arange(n), label]
    levels = np.full(n, np.inf)
    for classes in [range(c)] if pooled else [[k] for k in range(c)]:
        members = np.isin(label, list(classes))
        cuts, most, estimates = np.unique(doubt[:, list(classes)]), 0.0, []
        for t in cuts:
            seen = [
                np.bincount(label[doubt[:, k] <= t], minlength=c) * float(k in classes)
                for k in range(c)
            ]
            kept = np.sum(members & (own <= t))
            most = max(most, wrong_by_hand(seen, transition))
            estimates.append((1 + min(most, kept)) / max(kept, 1))
        for i in np.flatnonzero(members):
            levels[i] = min(estimates[np.searchsorted(cuts, own[i]) :])
    return levels


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("seed", "c"), [(0, 2), (1, 2), (2, 3), (3, 4)])
def test_levels_are_those_of_the_mixture_solved_at_every_cut(
    seed: int, c: int, ties: bool, pooled: bool
) -> None:
    right, label, transition = case_of(seed, c, ties, n=60)
    found = transition_levels(right, label, transition, pooled=pooled)
    expected = levels_by_hand(right, label, transition, pooled)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@laws
@given(seed=seeds, c=st.integers(2, 6), ties=st.booleans(), pooled=st.booleans())
def test_levels_do_not_depend_on_sample_order(seed: int, c: int, ties: bool, pooled: bool) -> None:
    right, label, transition = case_of(seed, c, ties)
    order = np.random.default_rng(seed).permutation(len(label))
    straight = transition_levels(right, label, transition, pooled=pooled)
    mixed = transition_levels(right[order], label[order], transition, pooled=pooled)
    np.testing.assert_allclose(mixed, straight[order], rtol=1e-9)


@laws
@given(seed=seeds, c=st.integers(2, 6), ties=st.booleans(), pooled=st.booleans())
def test_renamed_classes_have_the_same_levels(seed: int, c: int, ties: bool, pooled: bool) -> None:
    right, label, found = case_of(seed, c, ties)
    old = np.random.default_rng(seed).permutation(c)  # the class that each new name stands for
    renamed = Transition(
        found.matrix[np.ix_(old, old)], found.error, found.counts[np.ix_(old, old)]
    )
    straight = transition_levels(right, label, found, pooled=pooled)
    other = transition_levels(right[:, old], np.argsort(old)[label], renamed, pooled=pooled)
    np.testing.assert_allclose(other, straight, rtol=1e-9)


@laws
@given(seed=seeds, c=st.integers(2, 6), ties=st.booleans())
def test_the_less_doubtful_of_a_class_is_never_kept_later(seed: int, c: int, ties: bool) -> None:
    right, label, transition = case_of(seed, c, ties)
    levels = transition_levels(right, label, transition, pooled=False)
    for k in range(c):
        own, level = 1 - right[label == k, k], levels[label == k]
        assert (np.diff(level[np.argsort(own, kind="stable")]) >= 0).all()
        for value in np.unique(own):
            assert len(set(level[own == value])) == 1, "ties enter together"


def test_a_class_without_samples_is_no_reason_to_fail() -> None:
    right, label, transition = case_of(0, 3, ties=False)
    levels = transition_levels(right, np.where(label == 2, 1, label), transition, pooled=False)
    assert np.isfinite(levels).all()
