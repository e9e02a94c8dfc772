"""Cut-offs against a literal, slow transcription of Eq. T and of Alg. 1's loop."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kspr.core.cutoffs import (
    LEVELS,
    best_half,
    cut_at,
    cut_smallest,
    fsr_cutoff,
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


def smallest_estimate(W: np.ndarray) -> float:
    return min((float(fsr_estimate(W, t)) for t in candidates(W)), default=math.inf)


def alg_1(W: np.ndarray) -> tuple[float, Fraction | None]:
    """Alg. 1, lines 4 to 7: raise q until something is selectable."""
    q, T, met = Fraction(2, 100), 0.0, None
    while q <= Fraction(1, 2) and T == 0:
        T = equation_t(W, q)
        met = q if T > 0 else None
        q += Fraction(2, 100)
    return T, met


@st.composite
def tied_cells(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw W from few integers, so that ties abound, in cells of unequal size, some empty."""
    n_cells = draw(st.integers(1, 6))
    n = draw(st.integers(1, 120))
    # More negative than positive values, or no level would ever be met.
    values = draw(st.sampled_from([(-3, 1), (-8, 8), (-20, 2), (-1, 1)]))
    W = draw(arrays(np.float64, n, elements=st.integers(*values).map(float)))
    used = draw(st.lists(st.integers(0, n_cells - 1), min_size=1, max_size=n_cells))
    cells = np.array(used)[draw(arrays(np.int64, n, elements=st.integers(0, len(used) - 1)))]
    return W, cells, n_cells


@st.composite
def random_cells(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Draw the W of a good day: mostly small and negative, in up to 200 samples."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_cells, n = draw(st.integers(1, 5)), draw(st.integers(1, 400))
    behind = rng.random(n) < draw(st.floats(0, 0.5))
    W = np.where(behind, rng.uniform(0.3, 1.5, n), -rng.gamma(2, 0.2, n))
    decimals = draw(st.sampled_from([1, 2, 12]))
    return np.round(W, decimals), rng.integers(0, n_cells, n) ** 2 // n_cells, n_cells


cases = st.one_of(tied_cells(), random_cells())
fiftieths = st.integers(1, 49)


@settings(max_examples=80, deadline=None)
@given(case=cases, data=st.data())
def test_every_cell_is_cut_exactly_by_equation_t(
    case: tuple[np.ndarray, np.ndarray, int], data: st.DataObject
) -> None:
    W, cells, n_cells = case
    k = np.array([data.draw(fiftieths) for _ in range(n_cells)])
    cut = cut_at(W, cells, n_cells, k / 50)
    for cell in range(n_cells):
        own = W[cells == cell]
        T = equation_t(own, Fraction(int(k[cell]), 50))
        assert cut.T[cell] == T
        assert cut.smallest[cell] == smallest_estimate(own)
        assert cut.estimate[cell] == (float(fsr_estimate(own, T)) if T else math.inf)
        np.testing.assert_equal(cut.level[cell], k[cell] / 50 if T else math.nan)
        np.testing.assert_array_equal(cut.keep[cells == cell], (own >= -T) & (own < 0))


@settings(max_examples=100, deadline=None)
@given(case=cases, k=fiftieths)
def test_single_cutoff_is_exactly_equation_t(
    case: tuple[np.ndarray, np.ndarray, int], k: int
) -> None:
    W, _, _ = case
    assert fsr_cutoff(W, k / 50) == equation_t(W, Fraction(k, 50))


@settings(max_examples=80, deadline=None)
@given(case=cases)
def test_smallest_level_is_the_one_that_alg_1_stops_at(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    W, cells, n_cells = case
    cut = cut_smallest(W, cells, n_cells, np.ones(n_cells), LEVELS)
    for cell in range(n_cells):
        own = W[cells == cell]
        T, met = alg_1(own)
        assert cut.T[cell] == T
        np.testing.assert_equal(cut.level[cell], math.nan if met is None else float(met))
        np.testing.assert_array_equal(cut.keep[cells == cell], (own >= -T) & (own < 0))


@settings(max_examples=100, deadline=None)
@given(case=cases, data=st.data())
def test_factor_tightens_a_cell_and_leaves_its_level_in_words_of_q(
    case: tuple[np.ndarray, np.ndarray, int], data: st.DataObject
) -> None:
    """The first level q with an attainable ``factor * q``, cell by cell."""
    W, cells, n_cells = case
    factor = np.array([data.draw(st.sampled_from([0.125, 0.4, 1.0])) for _ in range(n_cells)])
    cut = cut_smallest(W, cells, n_cells, factor, LEVELS)
    for cell in range(n_cells):
        own = W[cells == cell]
        smallest = smallest_estimate(own)
        reached = [q for q in LEVELS if smallest <= factor[cell] * q]
        np.testing.assert_equal(cut.level[cell], reached[0] if reached else math.nan)
        expected = fsr_cutoff(own, factor[cell] * reached[0]) if reached else 0.0
        assert cut.T[cell] == expected
        np.testing.assert_array_equal(cut.keep[cells == cell], (-expected <= own) & (own < 0))


@settings(max_examples=100, deadline=None)
@given(case=cases, seed=st.integers(0, 2**32 - 1), k=fiftieths)
def test_cutoff_does_not_depend_on_sample_order(
    case: tuple[np.ndarray, np.ndarray, int], seed: int, k: int
) -> None:
    W, cells, n_cells = case
    order = np.random.default_rng(seed).permutation(len(W))
    levels = np.full(n_cells, k / 50)
    straight, mixed = (
        cut_at(W, cells, n_cells, levels),
        cut_at(W[order], cells[order], n_cells, levels),
    )
    np.testing.assert_array_equal(mixed.T, straight.T)
    np.testing.assert_array_equal(mixed.estimate, straight.estimate)
    np.testing.assert_array_equal(mixed.keep, straight.keep[order])


@settings(max_examples=100, deadline=None)
@given(case=cases, q=st.lists(st.floats(0.001, 1), min_size=2, max_size=2).map(sorted))
def test_a_higher_level_never_keeps_less(
    case: tuple[np.ndarray, np.ndarray, int], q: list[float]
) -> None:
    W, cells, n_cells = case
    low, high = (cut_at(W, cells, n_cells, np.full(n_cells, level)) for level in q)
    assert (low.T <= high.T).all()
    assert (high.keep | ~low.keep).all()


def test_level_is_met_by_equality() -> None:
    """50 labels ahead and none behind estimate exactly 1/50; 49 do not reach 0.02."""
    W = -np.arange(1, 51) / 100
    assert fsr_cutoff(W, 0.02) == 0.5
    assert fsr_cutoff(W[:49], 0.02) == 0.0


def test_zero_is_on_neither_side() -> None:
    W = np.array([0.0, -0.0, -1.0, -1.0, -1.0, -1.0])
    cut = cut_at(W, np.zeros(6, dtype=np.int64), 1, np.array([0.25]))
    assert cut.T[0] == 1.0
    np.testing.assert_array_equal(cut.keep, [False, False, True, True, True, True])


def test_tied_magnitudes_enter_together() -> None:
    """At |W| = 1 stand four ahead and one behind: 2/4 is above 0.4, however they are sorted."""
    W = np.array([-1.0, -1.0, -1.0, -1.0, 1.0])
    assert fsr_cutoff(W, 0.4) == 0.0
    assert fsr_cutoff(W, 0.5) == 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cutoff_keeps_the_sample_that_defines_it(dtype: type) -> None:
    W = -(np.arange(1, 101) / 7).astype(dtype)
    cut = cut_at(W, np.zeros(100, dtype=np.int64), 1, np.array([0.02]))
    assert cut.keep.all()


def test_no_samples_are_no_reason_to_fail() -> None:
    assert fsr_cutoff(np.zeros(0), 0.1) == 0.0
    cut = cut_smallest(np.zeros(0), np.zeros(0, dtype=np.int64), 3, np.ones(3), LEVELS)
    assert cut.keep.shape == (0,)
    np.testing.assert_array_equal(cut.T, np.zeros(3))
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


@settings(max_examples=80, deadline=None)
@given(case=cases)
def test_best_half_is_the_first_half_of_each_cell_sorted_by_doubt(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    """Labels ahead of their knockoff first, small |W| first; equals in the order given."""
    W, cells, n_cells = case
    keep = best_half(W, cells, n_cells)
    for cell in range(n_cells):
        members = np.flatnonzero(cells == cell)
        ranked = sorted(members, key=lambda i: (W[i] >= 0, abs(W[i])))
        half = -(-len(members) // 2)
        assert set(np.flatnonzero(keep & (cells == cell))) == set(ranked[:half])


def test_best_half_tells_tiny_magnitudes_apart() -> None:
    W = np.array([3e-17, 1e-17, 2e-17, 5e-17])
    keep = best_half(W, np.zeros(4, dtype=np.int64), 1)
    np.testing.assert_array_equal(keep, [False, True, True, False])
