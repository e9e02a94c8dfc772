"""All knockoffs at once against loops over pairs, and its error rate where it must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.exchangeable import Losses, lead

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40, deadline=None)


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


def levels_of(
    Z: np.ndarray, label: np.ndarray, floor: np.ndarray | None, *, pooled: bool
) -> np.ndarray:
    losses = Losses(Z.shape[1], pooled=pooled)
    grade, _ = losses.add(Z, label)
    return losses.levels(floor).of(grade, label)


def levels_by_hand(
    Z: np.ndarray, label: np.ndarray, floor: np.ndarray | None, pooled: bool
) -> np.ndarray:
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
        share = 0.0 if floor is None else float(floor.mean() if pooled else floor[cut_group])
        off = share / (1 - share) / (c - 1)
        cuts, most, estimates = sorted(Z[i, label[i]] for i in eligible), 0.0, []
        for t in cuts:
            won, lost = (sum(m <= t for m in side) / (c - 1) for side in (ahead, behind))
            most = max(most, min(lost, (lost - off * won) / (1 - off)))
            estimates.append((1 + most) / won)
        for i in eligible:
            levels[i] = min(e for t, e in zip(cuts, estimates, strict=True) if t >= Z[i, label[i]])
    return levels


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("c", [3, 4, 5, 8])
@pytest.mark.parametrize("floor", [None, 0.2])
def test_levels_are_those_of_counted_pairs(c: int, pooled: bool, floor: float | None) -> None:
    rng = np.random.default_rng(c)
    Z, label, _ = times(rng, 90, c, 0.3)
    shares = None if floor is None else floor * rng.random(c)
    found = levels_of(Z, label, shares, pooled=pooled)
    np.testing.assert_allclose(found, levels_by_hand(Z, label, shares, pooled), rtol=1e-9)


@laws
@given(
    seed=seeds,
    c=st.integers(3, 8),
    e=st.floats(0, 0.4),
    noise=st.floats(0.3, 0.95),
    pooled=st.booleans(),
)
def test_a_floor_never_keeps_less(seed: int, c: int, e: float, noise: float, pooled: bool) -> None:
    """Even where labels lose more often than they win."""
    rng = np.random.default_rng(seed)
    Z, label, _ = times(rng, 200, c, noise)
    plain = levels_of(Z, label, None, pooled=pooled)
    removed = levels_of(Z, label, e * rng.random(c), pooled=pooled)
    assert (removed <= plain * (1 + 1e-12)).all()


@laws
@given(seed=seeds, c=st.integers(3, 8), pooled=st.booleans())
def test_levels_do_not_depend_on_the_order_of_samples_or_classes(
    seed: int, c: int, pooled: bool
) -> None:
    rng = np.random.default_rng(seed)
    Z, label, _ = times(rng, 150, c, 0.3)
    rows, old = rng.permutation(150), rng.permutation(c)
    straight = levels_of(Z, label, None, pooled=pooled)
    mixed = levels_of(Z[rows][:, old], np.argsort(old)[label[rows]], None, pooled=pooled)
    np.testing.assert_allclose(mixed, straight[rows], rtol=1e-9)


@laws
@given(seed=seeds, c=st.integers(3, 8))
def test_only_labels_that_beat_half_of_the_others_are_ever_kept(seed: int, c: int) -> None:
    Z, label, _ = times(np.random.default_rng(seed), 150, c, 0.5)
    own, share = lead(Z, label)
    np.testing.assert_array_equal(own, [Z[i, k] for i, k in enumerate(label)])
    assert share == pytest.approx(
        [np.mean(np.delete(Z[i], k) > Z[i, k]) for i, k in enumerate(label)]
    )
    levels = levels_of(Z, label, None, pooled=False)
    np.testing.assert_array_equal(np.isfinite(levels), share >= 0.5)


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
        share = lead(Z, label)[1]
        levels = levels_of(Z, label, None, pooled=True)
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
        keep = levels_of(Z, label, None, pooled=True) <= 0.1
        fsr.append(np.sum(keep & wrong) / max(1, np.sum(keep)))
    assert np.mean(fsr) > 0.1 + 3 * np.std(fsr) / np.sqrt(50)


@laws
@given(seed=seeds, pooled=st.booleans(), cuts=st.lists(st.integers(0, 300), max_size=3))
def test_merged_blocks_have_the_levels_of_the_whole(seed, pooled, cuts):
    rng = np.random.default_rng(seed)
    Z, label, _ = times(rng, 300, 5, 0.3)
    floor = np.full(5, 0.1) if seed % 2 else None
    parts, grades, statistic = [], [], []
    for rows in np.split(np.arange(300), sorted(cuts)):
        part = Losses(5, pooled=pooled)
        grade, shown = part.add(Z[rows], label[rows])
        parts.append(part)
        grades.append(grade)
        statistic.append(shown)
    whole = Losses(5, pooled=pooled)
    for part in reversed(parts):
        whole.merge(part)
    found = whole.levels(floor).of(np.concatenate(grades), label)
    expected = levels_of(Z, label, floor, pooled=pooled)
    np.testing.assert_array_equal(found, expected)
    own, share = lead(Z, label)
    np.testing.assert_array_equal(np.concatenate(statistic), np.where(share >= 0.5, -own, own))


def test_times_beyond_all_grades_count_as_their_ends():
    Z = np.array([[0.0, 50.0, 60.0], [1e-9, 1e9, 1e10], [40.0, 30.0, 20.0]])
    losses = Losses(3, pooled=True)
    grade, _ = losses.add(Z, np.array([0, 0, 1]))
    assert grade[0] == grade[1] == 0
    assert grade[2] > 60_000
    assert losses.levels(None).of(np.array([-1]), np.array([0])).tolist() == [np.inf]
