"""The curve of all levels agrees with every cut."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr import SPR, InputError, KnockoffsSPR
from kspr.core.paper.knockoffs import q_values
from kspr.selectors.cut_groups import trace_curve
from tests.core.paper.test_cutoffs import random_groups, tied_groups
from tests.selectors.simulated import as_selection, by_control

cases = st.one_of(tied_groups(), random_groups())


@settings(max_examples=60)
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


@settings(max_examples=60)
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
    selection = by_control(control=control, cut=cut).fit(digits40.X, digits40.y).selection_
    curve = selection.curve()
    assert len(curve) > 10
    for q in np.linspace(0.01, 0.6, 25):
        last = int(np.searchsorted(curve.q, q, side="right")) - 1
        moved = selection.at(q)
        assert moved.clean_mask.sum() == (curve.n_kept[last] if last >= 0 else 0)
        assert set(moved.cut_groups.status) <= {"assumed", "empty"}
        assert (moved.cut_groups.estimated_fsr[moved.cut_groups.n_kept > 0] <= q).all()
    lines = str(curve).splitlines()
    assert len(lines) == 8
    assert lines[0].split() == ["q", "kept", "share", "estimate"]
    at_tenth = next(line.split() for line in lines if line.split()[0] == "0.1")
    assert int(at_tenth[1].replace(",", "")) == selection.at(0.1).clean_mask.sum()


def test_a_curve_without_a_noise_rate_has_no_f1(blobs):
    curve = by_control(control="paper").fit(blobs.X, blobs.y).selection_.curve()
    assert curve.estimated_f1 is None
    assert curve.best_f1_level is None


def test_a_curve_of_nothing_prints(blobs):
    selection = KnockoffsSPR().fit(blobs.X, blobs.y).selection_
    nothing = replace(selection, q_value=np.full(len(selection), np.inf)).curve()
    assert len(nothing) == 0
    assert str(nothing).count("0.0%") == 7


def test_spr_has_no_curve(blobs):
    with pytest.raises(InputError, match="SPR does not have"):
        SPR().fit(blobs.X, blobs.y).selection_.curve()


def test_a_session_shows_the_table():
    curve = trace_curve(np.array([0.1, 0.2]), np.zeros(2, dtype=int))
    assert repr(curve) == str(curve)
