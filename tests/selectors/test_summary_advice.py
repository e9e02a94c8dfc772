"""What a summary advises where a level is out of reach."""

import numpy as np
import pytest

from kspr import KnockoffsSPR, Selection


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_level_out_of_reach_is_empty_and_says_what_would_help(digits40, control):
    model = KnockoffsSPR(q=0.001, control=control).fit(digits40.X, digits40.y)
    selection: Selection = model.selection_
    assert not selection.clean_mask.any()
    assert set(selection.cut_groups.status) == {"empty"}, "no fallback that was not asked for"
    assert np.isnan(selection.cut_groups.q_reached).all()
    assert (selection.cut_groups.smallest_q > 0.001).all()
    advice = selection.summary().advice
    assert "would" in advice
    assert "checked=" in advice
    assert advice in str(selection.summary())
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"controlled"}
    assert reachable.summary().advice is None


def test_the_advised_level_reaches_every_cell(digits40):
    selection = KnockoffsSPR(q=0.001).fit(digits40.X, digits40.y).selection_
    advice = selection.summary().advice
    level = float(advice.split("q = ")[1].split(" ")[0])
    assert set(selection.at(level).cut_groups.status) == {"controlled"}
