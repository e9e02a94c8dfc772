"""The paper's rule for levels, on hand-made and random groups."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.paper.cutoffs import LEVELS
from kspr.selectors.cut_groups import with_fallback
from tests.core.test_cutoffs import equation_t, random_groups, tied_groups
from tests.selectors.simulated import as_selection

cases = st.one_of(tied_groups(), random_groups())


def alg_1(W: np.ndarray, factor: Fraction) -> tuple[float, Fraction | None]:
    """Alg. 1, lines 4 to 7: raise q until something is selectable."""
    q, T, met = Fraction(2, 100), 0.0, None
    while q <= Fraction(1, 2) and T == 0:
        T = equation_t(W, factor * q)
        met = q if T > 0 else None
        q += Fraction(2, 100)
    return T, met


@settings(max_examples=40, deadline=None)
@given(
    case=cases,
    factor=st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)]),
)
def test_the_smallest_level_is_the_one_that_alg_1_stops_at(
    case: tuple[np.ndarray, np.ndarray, int], factor: Fraction
) -> None:
    """Group by group, with Theorem 2's factor on q; the better half where no level is reached."""
    W, cut_group, n_cut_groups = case
    keep, cut_groups = with_fallback(
        as_selection(W, cut_group, n_cut_groups, float(factor)), LEVELS
    )
    for k in range(n_cut_groups):
        own = W[cut_group == k]
        T, met = alg_1(own, factor)
        np.testing.assert_equal(cut_groups.q_reached[k], math.nan if met is None else float(met))
        if met is None:
            assert cut_groups.status[k] == "fallback"
            assert cut_groups.n_kept[k] == -(-len(own) // 2)
            assert cut_groups.estimated_fsr[k] == math.inf
        else:
            assert cut_groups.status[k] == ("assumed" if met == Fraction(1, 50) else "raised")
            np.testing.assert_array_equal(keep[cut_group == k], (own >= -T) & (own < 0))
            assert cut_groups.estimated_fsr[k] <= float(met)
