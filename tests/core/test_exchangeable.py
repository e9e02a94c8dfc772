"""All knockoffs at once against loops over pairs, and its error rate where it must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.grading import Losses, Tally

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40)


def times(
    rng: np.random.Generator, n: int, c: int, noise: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, labels and which are wrong: any wrong class, with equal chance.

    A sample's hardness is in all of its times, so they are far from independent.
    """
    true = rng.integers(0, c, n)
    wrong = rng.random(n) < noise
    label = np.where(wrong, (true + rng.integers(1, c, n)) % c, true)
    Z = rng.gamma(6, 0.2, (n, c)) + 0.2 * rng.random((n, 1))
    Z[np.arange(n), true] *= 0.45
    # Ten bits behind the leading one, fewer than grades tell apart: grading loses nothing.
    Z = (Z.astype(np.float32).view(np.int32) >> 13 << 13).view(np.float32).astype(np.float64)
    return Z, label, wrong


def exchangeable_levels(
    Z: np.ndarray, label: np.ndarray, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    losses = Losses(Z.shape[1], pooled=pooled)
    tally, grades, doubt = losses.count(Z, label)
    return losses.levels(tally).of(grades, label), doubt


def levels_of(Z: np.ndarray, label: np.ndarray, *, pooled: bool) -> np.ndarray:
    return exchangeable_levels(Z, label, pooled=pooled)[0]


def share_beaten(Z: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the share of the other classes that each label beats."""
    return np.array([np.mean(np.delete(Z[i], k) > Z[i, k]) for i, k in enumerate(label)])


def levels_by_hand(Z: np.ndarray, label: np.ndarray, pooled: bool) -> np.ndarray:
    """Count pairs (sample, knockoff), each with the chance that the knockoff is drawn."""
    n, c = Z.shape

    def beats_half(i: int, k: int) -> bool:
        return sum(Z[i, k] < Z[i, j] for j in range(c) if j != k) >= (c - 1) / 2

    levels = np.full(n, np.inf)
    for cut_group in range(1 if pooled else c):
        members = [i for i in range(n) if pooled or label[i] == cut_group]
        eligible = [i for i in members if beats_half(i, label[i])]
        ahead, behind = [], []  # the magnitudes of pairs, min(Z, Z~)
        for i in members:
            own = Z[i, label[i]]
            for k in range(c):
                if k == label[i]:
                    continue
                if own < Z[i, k] and i in eligible:
                    ahead.append(min(own, Z[i, k]))
                if own > Z[i, k] and beats_half(i, k):
                    behind.append(min(own, Z[i, k]))
        cuts, most, estimates = sorted(Z[i, label[i]] for i in eligible), 0.0, []
        for t in cuts:
            won, lost = (sum(m <= t for m in side) / (c - 1) for side in (ahead, behind))
            most = max(most, lost)
            estimates.append((1 + most) / won)
        for i in eligible:
            levels[i] = min(e for t, e in zip(cuts, estimates, strict=True) if t >= Z[i, label[i]])
    return levels


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("c", [3, 4, 5, 8])
def test_levels_are_those_of_counted_pairs(c: int, pooled: bool) -> None:
    Z, label, _ = times(np.random.default_rng(c), 90, c, 0.3)
    found = levels_of(Z, label, pooled=pooled)
    np.testing.assert_allclose(found, levels_by_hand(Z, label, pooled), rtol=1e-9)


@laws
@given(seed=seeds, c=st.integers(3, 8), pooled=st.booleans())
def test_levels_do_not_depend_on_the_order_of_samples_or_classes(
    seed: int, c: int, pooled: bool
) -> None:
    rng = np.random.default_rng(seed)
    Z, label, _ = times(rng, 150, c, 0.3)
    rows, old = rng.permutation(150), rng.permutation(c)
    straight = levels_of(Z, label, pooled=pooled)
    mixed = levels_of(Z[rows][:, old], np.argsort(old)[label[rows]], pooled=pooled)
    np.testing.assert_allclose(mixed, straight[rows], rtol=1e-9)


@laws
@given(seed=seeds, c=st.integers(3, 8))
def test_only_labels_that_beat_half_of_the_others_are_ever_kept(seed: int, c: int) -> None:
    Z, label, _ = times(np.random.default_rng(seed), 150, c, 0.5)
    levels, doubt = exchangeable_levels(Z, label, pooled=False)
    ahead = share_beaten(Z, label) >= 0.5
    np.testing.assert_array_equal(np.isfinite(levels), ahead)
    np.testing.assert_array_equal(doubt, np.where(ahead, Z[np.arange(150), label], np.inf))


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("c", [3, 5, 10])
def test_the_error_rate_holds_for_wrong_labels_that_fall_evenly(c: int, noise: float) -> None:
    """Mean FSR over 100 draws is below q + 2 standard errors for every q, as it stands and
    weighted by the share of others that a label beats, which is what the proof speaks of.
    """
    rng = np.random.default_rng(11)
    levels_asked = (0.05, 0.1, 0.2, 0.3)
    plain, weighted, kept = np.zeros((3, 100, 4))
    for draw in range(100):
        Z, label, wrong = times(rng, 600, c, noise)
        share = share_beaten(Z, label)
        levels = levels_of(Z, label, pooled=True)
        for j, q in enumerate(levels_asked):
            keep = levels <= q
            plain[draw, j] = np.sum(keep & wrong) / max(1, np.sum(keep))
            weighted[draw, j] = share[keep & wrong].sum() / max(1e-9, share[keep].sum())
            kept[draw, j] = keep.mean()
    for fsr in (plain, weighted):
        assert (fsr.mean(axis=0) <= levels_asked + 2 * fsr.std(axis=0) / 10).all()
    if noise < 0.2:
        assert kept[:, -1].mean() > 0.5, "a rate of nothing would hold too"


def test_the_error_rate_breaks_where_wrong_labels_look_right() -> None:
    """Wrong labels that go where the sample looks: FSR at q = 0.1 is beyond 3 standard errors."""
    rng = np.random.default_rng(12)
    fsr = []
    for _ in range(50):
        Z, label, _ = times(rng, 600, 10, 0.0)
        wrong = rng.random(600) < 0.3
        second = np.argsort(Z, axis=1)[:, 1]
        label = np.where(wrong, second, label)
        Z[wrong] = Z[wrong] * np.where(np.arange(10) == second[wrong][:, None], 0.4, 1.0)
        keep = levels_of(Z, label, pooled=True) <= 0.1
        fsr.append(np.sum(keep & wrong) / max(1, np.sum(keep)))
    assert np.mean(fsr) > 0.1 + 3 * np.std(fsr) / np.sqrt(50)


@laws
@given(seed=seeds, pooled=st.booleans(), cuts=st.lists(st.integers(0, 300), max_size=3))
def test_joined_blocks_have_the_levels_of_the_whole(seed, pooled, cuts):
    Z, label, _ = times(np.random.default_rng(seed), 300, 5, 0.3)
    losses = Losses(5, pooled=pooled)
    blocks = [losses.count(Z[rows], label[rows]) for rows in np.split(np.arange(300), sorted(cuts))]
    tallies, grades, doubts = zip(*blocks, strict=True)
    found = losses.levels(Tally.joined(tallies[::-1])).of(np.concatenate(grades), label)
    levels, doubt = exchangeable_levels(Z, label, pooled=pooled)
    np.testing.assert_array_equal(found, levels)
    np.testing.assert_array_equal(np.concatenate(doubts), doubt)


def test_times_beyond_all_grades_count_as_their_ends():
    Z = np.array([[0.0, 50.0, 60.0], [1e-9, 1e9, 1e10], [40.0, 30.0, 20.0]])
    losses = Losses(3, pooled=True)
    tally, grade, doubt = losses.count(Z, np.array([0, 0, 2]))
    assert grade[0] == grade[1] == 0
    assert grade[2] > 60_000
    np.testing.assert_array_equal(doubt, [0.0, 1e-9, 20.0])
    lost = losses.levels(tally).of(np.array([-1]), np.array([0]))
    assert lost.tolist() == [np.inf]
