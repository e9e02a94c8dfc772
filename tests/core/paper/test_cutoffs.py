"""Cut-offs against a literal, slow transcription of Eq. T."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kspr.core.arrays import reachable
from kspr.core.paper.knockoffs import (
    LEVELS,
    best_half,
    first_level,
    q_values,
    theorem_factor,
)
from kspr.errors import InputError


def fsr_estimate(W: np.ndarray, t: float) -> Fraction:
    behind = sum(1 for w in W if 0 < w <= t)
    ahead = sum(1 for w in W if -t <= w < 0)
    return Fraction(1 + behind, max(ahead, 1))


def candidates(W: np.ndarray) -> list[float]:
    return [abs(w) for w in W if w != 0]


def equation_t(W: np.ndarray, q: Fraction) -> float:
    """Eq. T, word for word."""
    return max((t for t in candidates(W) if fsr_estimate(W, t) <= q), default=0.0)


def kept_by_equation_t(W: np.ndarray, q: Fraction) -> np.ndarray:
    T = equation_t(W, q)
    return (W >= -T) & (W < 0)


@st.composite
def tied_groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw W from few integers, so that ties abound, in cut groups of unequal size, some empty."""
    n_cut_groups = draw(st.integers(1, 6))
    n = draw(st.integers(1, 120))
    # More negative than positive values, or no level would ever be met.
    values = draw(st.sampled_from([(-3, 1), (-8, 8), (-20, 2), (-1, 1)]))
    W = draw(arrays(np.float64, n, elements=st.integers(*values).map(float)))
    used = draw(st.lists(st.integers(0, n_cut_groups - 1), min_size=1, max_size=n_cut_groups))
    cut_groups = np.array(used)[draw(arrays(np.int64, n, elements=st.integers(0, len(used) - 1)))]
    return W, cut_groups, n_cut_groups


@st.composite
def random_groups(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw the W of a good day: mostly small and negative, in up to 200 samples."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_cut_groups, n = draw(st.integers(1, 5)), draw(st.integers(1, 400))
    behind = rng.random(n) < draw(st.floats(0, 0.5))
    W = np.where(behind, rng.uniform(0.3, 1.5, n), -rng.gamma(2, 0.2, n))
    decimals = draw(st.sampled_from([1, 2, 12]))
    return (
        np.round(W, decimals),
        rng.integers(0, n_cut_groups, n) ** 2 // n_cut_groups,
        n_cut_groups,
    )


cases = st.one_of(tied_groups(), random_groups())
fiftieths = st.integers(1, 49)


@settings(max_examples=100)
@given(case=cases, k=fiftieths)
def test_q_values_within_a_level_are_what_equation_t_keeps(
    case: tuple[np.ndarray, np.ndarray, int], k: int
) -> None:
    W, cut_groups, n_cut_groups = case
    keep = q_values(W, cut_groups) <= k / 50
    for cut_group in range(n_cut_groups):
        own = cut_groups == cut_group
        np.testing.assert_array_equal(keep[own], kept_by_equation_t(W[own], Fraction(k, 50)))


@settings(max_examples=60)
@given(case=cases)
def test_a_q_value_is_the_first_level_at_which_equation_t_keeps_the_sample(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    """Kept sets change at estimates only: all of them are tried, and nothing is kept below."""
    W, cut_groups, n_cut_groups = case
    levels = q_values(W, cut_groups)
    for cut_group in range(n_cut_groups):
        own = W[cut_groups == cut_group]
        estimates = sorted({fsr_estimate(own, t) for t in candidates(own)})
        expected = np.full(len(own), math.inf)
        for q in reversed(estimates):
            expected[kept_by_equation_t(own, q)] = float(q)
        np.testing.assert_array_equal(levels[cut_groups == cut_group], expected)


@settings(max_examples=100)
@given(case=cases, seed=st.integers(0, 2**32 - 1))
def test_q_values_do_not_depend_on_sample_order(
    case: tuple[np.ndarray, np.ndarray, int], seed: int
) -> None:
    W, cut_groups, _ = case
    order = np.random.default_rng(seed).permutation(len(W))
    np.testing.assert_array_equal(
        q_values(W[order], cut_groups[order]), q_values(W, cut_groups)[order]
    )


@settings(max_examples=100)
@given(case=cases)
def test_a_smaller_magnitude_never_has_a_larger_q_value(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    W, cut_groups, n_cut_groups = case
    levels = q_values(W, cut_groups)
    for cut_group in range(n_cut_groups):
        ahead = (cut_groups == cut_group) & (W < 0)
        order = np.argsort(-W[ahead], kind="stable")
        assert (levels[ahead][order][1:] >= levels[ahead][order][:-1]).all()


@settings(max_examples=100)
@given(case=cases, names=st.permutations(range(6)))
def test_cells_are_names_only(case: tuple[np.ndarray, np.ndarray, int], names: list[int]) -> None:
    W, cut_groups, _ = case
    renamed = 7 * np.array(names)[cut_groups] - 3
    np.testing.assert_array_equal(q_values(W, renamed), q_values(W, cut_groups))


@given(
    estimate=arrays(np.float64, st.integers(0, 30), elements=st.floats(0, 1)),
    q=st.floats(0, 1),
)
def test_a_position_is_reachable_where_a_later_estimate_is_within_the_level(
    estimate: np.ndarray, q: float
) -> None:
    found = reachable(estimate) <= q
    expected = [any(later <= q for later in estimate[i:]) for i in range(len(estimate))]
    np.testing.assert_array_equal(found, expected)


@given(smallest=st.lists(st.one_of(st.floats(0, 1), st.just(math.inf), st.sampled_from(LEVELS))))
def test_first_level_is_the_first_that_can_be_reached(smallest: list[float]) -> None:
    expected = [next((q for q in LEVELS if q >= s), math.nan) for s in smallest]
    np.testing.assert_array_equal(first_level(np.array(smallest), LEVELS), expected)


def test_level_is_met_by_equality() -> None:
    """50 labels ahead and none behind estimate exactly 1/50; 49 do not reach 0.02."""
    W = -np.arange(1, 51) / 100
    one = np.zeros(50, dtype=np.int64)
    assert (q_values(W, one) <= 0.02).all()
    assert not (q_values(W[:49], one[:49]) <= 0.02).any()


def test_zero_is_on_neither_side() -> None:
    W = np.array([0.0, -0.0, -1.0, -1.0, -1.0, -1.0])
    levels = q_values(W, np.zeros(6, dtype=np.int64))
    np.testing.assert_array_equal(levels, [math.inf, math.inf, 0.25, 0.25, 0.25, 0.25])


def test_tied_magnitudes_enter_together() -> None:
    """At |W| = 1 stand four ahead and one behind: 2/4 is above 0.4, however they are sorted."""
    W = np.array([-1.0, -1.0, -1.0, -1.0, 1.0])
    levels = q_values(W, np.zeros(5, dtype=np.int64))
    np.testing.assert_array_equal(levels, [0.5, 0.5, 0.5, 0.5, math.inf])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cutoff_keeps_the_sample_that_defines_it(dtype: type) -> None:
    W = -(np.arange(1, 101) / 7).astype(dtype)
    assert (q_values(W, np.zeros(100, dtype=np.int64)) <= 0.02).all()


def test_no_samples_are_no_reason_to_fail() -> None:
    assert q_values(np.zeros(0), np.zeros(0, dtype=np.int64)).shape == (0,)
    assert best_half(np.zeros(0), np.zeros(0, dtype=np.int64), 3).shape == (0,)


def test_levels_are_the_papers() -> None:
    np.testing.assert_array_equal(LEVELS, [float(Fraction(k, 50)) for k in range(1, 26)])


# --- The bound of Theorem 2 -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_classes", "kappa", "factor"),
    [
        (3, None, 1 / 6),
        (10, None, 0.4),
        (100, None, 0.49),
        (2, 0.25, 1 / 6),
        (2, 0.5, 0.5),
        (4, 0.5, 0.5),
        (10, 0.0, 0.4),
    ],
)
def test_factor_is_that_of_theorem_2(n_classes: int, kappa: float | None, factor: float) -> None:
    assert theorem_factor(n_classes, kappa) == pytest.approx(factor, rel=1e-14)


@given(n_classes=st.integers(3, 1000), kappa=st.floats(0.001, 0.5))
def test_worst_case_factor_is_below_every_other(n_classes: int, kappa: float) -> None:
    assert theorem_factor(n_classes) < theorem_factor(n_classes, kappa) <= 0.5 + 1e-12


def test_two_classes_need_kappa() -> None:
    with pytest.raises(InputError, match=r"(?s)kappa.*got 2 classes"):
        theorem_factor(2)


# --- The fallback -----------------------------------------------------------------------------


@settings(max_examples=80)
@given(case=cases)
def test_best_half_is_the_first_half_of_each_cell_sorted_by_doubt(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    """Labels ahead of their knockoff first, small |W| first; equals in the order given."""
    W, cut_groups, n_cut_groups = case
    keep = best_half(W, cut_groups, n_cut_groups)
    for cut_group in range(n_cut_groups):
        members = np.flatnonzero(cut_groups == cut_group)
        ranked = sorted(members, key=lambda i: (W[i] >= 0, abs(W[i])))
        half = -(-len(members) // 2)
        assert set(np.flatnonzero(keep & (cut_groups == cut_group))) == set(ranked[:half])


def test_best_half_tells_tiny_magnitudes_apart() -> None:
    W = np.array([3e-17, 1e-17, 2e-17, 5e-17])
    keep = best_half(W, np.zeros(4, dtype=np.int64), 1)
    np.testing.assert_array_equal(keep, [False, True, True, False])
