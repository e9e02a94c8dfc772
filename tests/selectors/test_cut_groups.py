"""Cut groups, the paper's rule on them, and the curve over all levels."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.test_cutoffs import equation_t, random_cells, tied_cells

from kspr import SPR, InputError, KnockoffsSPR, Selection
from kspr.core.cutoffs import LEVELS, q_values
from kspr.core.metrics import selection_quality
from kspr.selectors.curve import trace_curve
from kspr.selectors.cut_groups import uncut, with_fallback
from kspr.selectors.manifest import Manifest

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


# --- The curve --------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(case=cases, k=st.integers(1, 49))
def test_the_curve_says_what_a_cut_at_that_level_does(
    case: tuple[np.ndarray, np.ndarray, int], k: int
) -> None:
    selection = as_selection(*case)
    curve, cut = selection.curve(), selection.at(k / 50)
    last = int(np.searchsorted(curve.q, k / 50, side="right")) - 1
    kept = int(cut.clean_mask.sum())
    assert (curve.n_kept[last] if last >= 0 else 0) == kept
    if kept:
        some = cut.cut_groups.n_kept > 0
        wrong = np.sum(cut.cut_groups.n_kept[some] * cut.cut_groups.estimated_fsr[some])
        assert curve.estimated_fsr[last] == pytest.approx(wrong / kept)
        assert curve.share_kept[last] == kept / len(cut)


@settings(max_examples=60, deadline=None)
@given(case=cases)
def test_the_curve_rises_and_its_estimate_stays_within_its_level(
    case: tuple[np.ndarray, np.ndarray, int],
) -> None:
    W, cut_group, _ = case
    curve = trace_curve(q_values(W, cut_group), cut_group)
    assert (np.diff(curve.q) > 0).all()
    assert (np.diff(curve.n_kept) > 0).all()
    assert (curve.estimated_fsr <= curve.q).all()


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
@pytest.mark.parametrize("cut", ["per_class", "pooled"])
def test_the_curve_of_a_fit_agrees_with_every_cut(digits40, control, cut):
    selection = KnockoffsSPR(control=control, cut=cut).fit(digits40.X, digits40.y).selection_
    curve = selection.curve()
    assert len(curve) > 10
    for q in np.linspace(0.01, 0.6, 25):
        last = int(np.searchsorted(curve.q, q, side="right")) - 1
        moved = selection.at(q)
        assert moved.clean_mask.sum() == (curve.n_kept[last] if last >= 0 else 0)
        assert set(moved.cut_groups.status) <= {"controlled", "empty"}
        assert (moved.cut_groups.estimated_fsr[moved.cut_groups.n_kept > 0] <= q).all()
    lines = str(curve).splitlines()
    assert len(lines) == 8
    assert lines[0].split() == ["q", "kept", "share", "estimate"]
    at_tenth = next(line.split() for line in lines if line.split()[0] == "0.1")
    assert int(at_tenth[1].replace(",", "")) == selection.at(0.1).clean_mask.sum()


def f1_of(selection: Selection, data) -> float:
    return selection_quality(selection.clean_mask, data.right).f1


@pytest.mark.parametrize("cut", ["per_class", "pooled"])
def test_level_f1_cuts_where_the_estimated_f1_is_greatest(digits40, cut):
    fixed = KnockoffsSPR(cut=cut).fit(digits40.X, digits40.y).selection_
    chosen = KnockoffsSPR(cut=cut, level="f1").fit(digits40.X, digits40.y).selection_
    curve = fixed.curve()
    n_right = len(fixed) * (1 - fixed.noise.rate)
    by_hand = [
        2 * n * (1 - wrong) / (n + n_right)
        for n, wrong in zip(curve.n_kept, curve.estimated_fsr, strict=True)
    ]
    best = curve.q[int(np.argmax(by_hand))]
    assert curve.best_f1 == best
    np.testing.assert_array_equal(chosen.clean_mask, fixed.at(best).clean_mask)
    assert chosen.manifest.parameters["level"] == "f1"
    assert chosen.manifest.parameters["q"] == best
    far = [f1_of(fixed.at(q), digits40) for q in (0.01, 0.3, 0.5)]
    assert f1_of(chosen, digits40) > max(far)


def test_level_f1_keeps_everything_where_nothing_is_wrong(blobs):
    selection = KnockoffsSPR(level="f1", cut="pooled").fit(blobs.X, blobs.y_true).selection_
    assert selection.clean_mask.mean() > 0.98


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [({"control": "paper"}, "control='transition'"), ({"n_splits": 3}, "n_splits=1")],
)
def test_level_f1_says_what_it_goes_with(blobs, parameters, rule):
    with pytest.raises(InputError, match=rule):
        KnockoffsSPR(level="f1", **parameters).fit(blobs.X, blobs.y)


def test_a_curve_without_a_noise_rate_has_no_f1(blobs):
    curve = KnockoffsSPR(control="paper").fit(blobs.X, blobs.y).selection_.curve()
    assert curve.estimated_f1 is None
    assert curve.best_f1 is None


def test_a_curve_of_nothing_prints(blobs):
    selection = KnockoffsSPR().fit(blobs.X, blobs.y).selection_
    nothing = replace(selection, q_value=np.full(len(selection), np.inf)).curve()
    assert len(nothing) == 0
    assert str(nothing).count("0.0%") == 7


def test_spr_has_no_curve(blobs):
    with pytest.raises(InputError, match="SPR does not have"):
        SPR().fit(blobs.X, blobs.y).selection_.curve()
