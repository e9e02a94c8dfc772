"""One selection of a training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.train.policies import Chosen, choose


def test_the_spread_of_levels_is_over_the_cut_groups_that_reached_one(small):
    selection = kspr.PaperKnockoffsSPR().fit(small.X, small.y).selection_
    level = np.full(len(selection.cut_groups), np.nan)
    level[:2] = 0.02, 0.1
    chosen = Chosen(
        replace(selection, cut_groups=replace(selection.cut_groups, q_reached=level)), 0.0
    )
    assert chosen.q_spread == pytest.approx(0.04)


def test_a_selection_is_the_selectors_own(small, quick):
    chosen = choose(quick, torch.from_numpy(small.X), small.y, None, None)
    own = kspr.KnockoffsSPR(random_state=0, progress=False, **quick.selection)
    expected = own.fit(small.X, small.y).selection_
    assert np.array_equal(chosen.selection.clean_mask, expected.clean_mask)
    assert chosen.seconds > 0


def test_spr_takes_neither_scores_nor_the_last_clean_set(small, quick):
    settings = quick.changed(selector="spr")
    scores, last = torch.rand(300, 10), torch.ones(300, dtype=torch.bool)
    with_all = choose(settings, torch.from_numpy(small.X), small.y, scores, last)
    without = choose(settings, torch.from_numpy(small.X), small.y, None, None)
    assert np.array_equal(with_all.selection.clean_mask, without.selection.clean_mask)
