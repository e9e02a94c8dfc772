"""The paper's rule for levels, on hand-made and random groups."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr import Selection
from kspr.core.cutoffs import LEVELS, q_values
from kspr.selectors.cut_groups import uncut, with_fallback
from kspr.selectors.manifest import Manifest
from tests.core.test_cutoffs import equation_t, random_cells, tied_cells

cases = st.one_of(tied_cells(), random_cells())


def as_selection(
    W: np.ndarray, cut_group: np.ndarray, n_cut_groups: int, factor: float = 1.0
) -> Selection:
    """Return what the paper's controls make of W, before any cut."""
    table = np.stack(
        [np.zeros(n_cut_groups), np.zeros(n_cut_groups), np.arange(n_cut_groups)], axis=1
    )
    label = cut_group
    return Selection(
        label=label,
        clean_mask=np.zeros(len(W), dtype=bool),
        q_value=q_values(W, cut_group) / factor,
        statistic=W,
        selection_time=np.abs(W),
        knockoff_label=label,
        suggested_label=label,
        cut_group=cut_group,
        cut_groups=uncut(table.astype(np.int64), cut_group),
        classes=np.arange(n_cut_groups),
        manifest=Manifest("KnockoffsSPR", {"control": "paper"}, 0, len(W), 1, "", {}),
    )


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
            assert cut_groups.status[k] == ("controlled" if met == Fraction(1, 50) else "raised")
            np.testing.assert_array_equal(keep[cut_group == k], (own >= -T) & (own < 0))
            assert cut_groups.estimated_fsr[k] <= float(met)
