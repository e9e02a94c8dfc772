"""One selection of a training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.selectors.presets import from_preset
from kspr.train.guard import Health
from kspr.train.policies import Chosen, choose, judgement
from tests.train.digits import setup_of


def test_the_spread_of_levels_is_over_the_cut_groups_that_reached_one(small, quick):
    selection = kspr.PaperKnockoffsSPR().fit(small.X, small.y).selection_
    level = np.full(len(selection.cut_groups), np.nan)
    level[:2] = 0.02, 0.1
    other = replace(selection, cut_groups=replace(selection.cut_groups, q_reached=level))
    judged = judgement(setup_of(small.X, small.y, quick), Chosen(other, 0.0), Health(None))
    assert judged.q_spread == pytest.approx(0.04)


def test_a_selection_is_the_selectors_own(small, quick):
    chosen = choose(quick, torch.from_numpy(small.X), small.y, None, None)
    own = kspr.KnockoffsSPR(random_state=0, progress=False, **quick.selection)
    expected = own.fit(small.X, small.y).selection_
    assert np.array_equal(chosen.selection.clean_mask, expected.clean_mask)
    assert chosen.seconds > 0


@pytest.mark.parametrize("selector", ["spr", "paper"])
def test_prototypes_are_those_of_the_last_clean_set(small, quick, selector):
    settings = quick.changed(selector=selector, selection={"classes_per_group": 2})
    last = small.y == small.y_true
    chosen = choose(settings, torch.from_numpy(small.X), small.y, None, torch.from_numpy(last))
    own = from_preset(selector, classes_per_group=2, random_state=0)
    expected, without = (
        own.fit(small.X, small.y, clean_mask=mask).selection_.clean_mask for mask in (last, None)
    )
    assert np.array_equal(chosen.selection.clean_mask, expected)
    assert not np.array_equal(expected, without)


def test_each_epoch_has_pieces_halves_and_random_knockoffs_of_its_own(small, quick):
    """They follow from the seed and the epoch alone, so that a resumed run has the same."""
    settings = quick.changed(selector="paper", selection={"knockoff": "random"})
    first, second, again = (
        choose(settings, torch.from_numpy(small.X), small.y, None, None, epoch).selection
        for epoch in (1, 2, 1)
    )
    half = [one.cut_groups.half[one.cut_group] for one in (first, second, again)]
    assert 0.3 < np.mean(half[0] != half[1]) < 0.7
    assert np.mean(first.knockoff_label != second.knockoff_label) > 0.5
    assert np.array_equal(half[0], half[2])
    assert np.array_equal(first.knockoff_label, again.knockoff_label)
