"""The guard's rules on selections and networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.train.cycle.guard import examine, is_behind, keeps_nearly_all


@pytest.fixture(scope="module")
def selection(digits40):
    return kspr.KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_


def emptied(selection, *labels):
    """The same selection, with nothing kept of some classes."""
    return replace(selection, clean_mask=selection.clean_mask & ~np.isin(selection.label, labels))


def test_a_healthy_selection_is_used_as_it_is(selection):
    health = examine(selection)
    assert np.array_equal(health.keep, selection.clean_mask)
    assert health.reasons == ()


def test_an_empty_class_gets_its_best_ranked_samples(selection):
    health = examine(emptied(selection, 3))
    of_three = selection.label == 3
    assert np.array_equal(health.keep[~of_three], selection.clean_mask[~of_three])
    share = health.keep[of_three].mean()
    assert 0.3 < share < 0.8
    worst_used = selection.selection_time[of_three & health.keep].max()
    assert worst_used <= selection.selection_time[of_three & ~health.keep].min()
    assert "1 classes kept hardly any labels (3)" in health.reasons[0]


def test_a_selection_that_starves_most_classes_is_not_used(selection):
    health = examine(emptied(selection, *range(6)))
    assert health.keep is None
    assert "all given labels are used" in health.reasons[0]
    assert examine(emptied(selection, *range(10))).keep is None


def test_behind_is_more_than_luck():
    generator = torch.Generator().manual_seed(0)
    own = torch.rand(1000, generator=generator) < 0.6
    better = own | (torch.rand(1000, generator=generator) < 0.1)
    assert is_behind(own, better)
    assert not is_behind(better, own)
    assert not is_behind(own, own)
    one_more = own.clone()
    one_more[int(torch.nonzero(~own)[0])] = True
    assert not is_behind(own, one_more)


def test_chance_alone_seldom_stops_the_cycle():
    """Two equal networks: at two standard errors, about 2.5 % of 400 draws; at most 6 %."""
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(400, 2, 500, generator=generator) < 0.5
    assert sum(is_behind(a, b) for a, b in draws) <= 24


@pytest.mark.parametrize(("n_rejected", "lets_go"), [(0, True), (1, True), (2, False), (50, False)])
def test_the_guard_lets_go_where_nearly_every_label_is_kept(n_rejected, lets_go):
    keep = torch.ones(100, dtype=torch.bool)
    keep[:n_rejected] = False
    assert keeps_nearly_all(keep) == lets_go
    assert not keeps_nearly_all(None)
