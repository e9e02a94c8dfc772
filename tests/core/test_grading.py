"""Levels from graded doubt against slow loops, in blocks of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.grading import CAUTION, Grading, Tally
from kspr.core.transition import Transition, estimate_transition
from tests.core.transitions import drawn_anchors, transition_levels, transition_of
from tests.selectors.simulated import draw_labels, pairs, symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40)


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
    renamed = transition_of(
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


@laws
@given(seed=seeds, c=st.integers(2, 6), pooled=st.booleans(), step=st.integers(1, 60))
def test_blocks_of_any_size_and_joined_counts_give_the_same_levels(
    seed: int, c: int, pooled: bool, step: int
) -> None:
    right, label, transition = case_of(seed, c, ties=False)
    grading = Grading(c, len(label), transition, pooled=pooled)
    tallies, grades = [], []
    for start in range(0, len(label), step):
        block = slice(start, start + step)
        tally, grade = grading.count(right[block], label[block])
        tallies.append(tally)
        grades.append(grade)
    # In any order, and joined in parts: the sums are exact.
    half = len(tallies) // 2 + 1
    parts = [tallies[half:][::-1], tallies[:half]]
    joined = Tally.joined([Tally.joined(part) for part in parts if part])
    found = grading.levels(joined).of(np.concatenate(grades), label)
    expected = transition_levels(right, label, transition, pooled=pooled)
    np.testing.assert_array_equal(found, expected)


def test_very_many_classes_have_fewer_grades_and_nearly_the_same_levels(monkeypatch) -> None:
    right, label, transition = case_of(1, 4, ties=False, n=4000)
    fine = transition_levels(right, label, transition, pooled=False)
    monkeypatch.setattr("kspr.core.grading._TABLE", 4 * 1024)
    coarse = transition_levels(right, label, transition, pooled=False)
    assert len(np.unique(coarse)) < len(np.unique(fine))
    np.testing.assert_allclose(coarse, fine, atol=0.02)


@pytest.mark.parametrize("pooled", [False, True])
def test_with_very_many_classes_only_hopeless_labels_are_left_out(monkeypatch, pooled) -> None:
    """All others have the levels that they would have; what is left out has the level 1."""
    right, label, transition = case_of(1, 4, ties=False, n=2000)
    every = transition_levels(right, label, transition, pooled=pooled)
    monkeypatch.setattr("kspr.core.grading._FEW_CLASSES", 3)
    monkeypatch.setattr("kspr.core.grading._HOPELESS", 0.2)
    some = transition_levels(right, label, transition, pooled=pooled)
    hopeless = right[np.arange(2000), label] < 0.2
    assert 0 < hopeless.sum() < 1000
    assert (some[hopeless] == 1).all()
    # A looser cut with a smaller estimate keeps a row as well: such cuts are left out too.
    close = np.isclose(some, every, rtol=1e-9) | (some > every)
    assert close[~hopeless].all()
    assert np.isclose(some, every, rtol=1e-9)[~hopeless].mean() > 0.9


def test_with_thousands_of_classes_unlikely_labels_change_no_other_level(monkeypatch) -> None:
    c, rng = 4_100, np.random.default_rng(0)
    right = np.full((400, c), 1e-5)
    label = rng.integers(0, c, 400)
    chance = np.where(rng.random(400) < 0.2, rng.random(400) * 0.02, 1 - rng.random(400) ** 3 / 2)
    right[np.arange(400), label] = chance

    def levels() -> np.ndarray:
        grading = Grading(c, 400, None, pooled=True)
        tally, grade = grading.count(right, label)
        return grading.levels(tally).of(grade, label)

    some = levels()
    monkeypatch.setattr("kspr.core.grading._VERY_MANY", c)
    every = levels()
    unlikely = chance < 0.02
    assert (some[unlikely] == 1).all()
    assert (every[unlikely] < 1).any()
    assert some[~unlikely].tolist() == every[~unlikely].tolist()
