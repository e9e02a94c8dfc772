"""The guard's rules on selections and networks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.train.guard import (
    BestSoFar,
    choose_model,
    credit_table,
    estimated_transition,
    examine,
    is_behind,
    keeps_nearly_all,
)
from kspr.train.task import Performance


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


def test_the_mean_worth_of_a_prediction_is_its_chance_to_be_right():
    """For every true class, over the labels that the noise gives it."""
    generator = torch.Generator().manual_seed(0)
    transition = torch.rand((6, 6), generator=generator) + 6 * torch.eye(6)
    transition /= transition.sum(dim=1, keepdim=True)
    expected = transition @ credit_table(transition)
    torch.testing.assert_close(expected, torch.eye(6), atol=1e-5, rtol=0)


def test_classes_that_noise_makes_equal_are_not_told_apart():
    same = credit_table(torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    torch.testing.assert_close(same[0], same[1])
    assert float(same.abs().max()) < 2


def test_classes_without_an_estimate_keep_their_labels(selection):
    classes = np.arange(12)  # of two, there are no samples
    found = estimated_transition(selection, classes)
    np.testing.assert_allclose(found[:10, :10], selection.noise.transition, rtol=1e-6)
    torch.testing.assert_close(found[10:], torch.eye(12)[10:])
    torch.testing.assert_close(estimated_transition(None, classes), torch.eye(12))
    unknown = replace(selection, noise=None)
    torch.testing.assert_close(estimated_transition(unknown, classes), torch.eye(12))


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


NAMES = ("cycle weights", "cycle average", "reference weights", "reference average")


def performance(share, n=1000):
    right = torch.arange(n) < share * n
    return Performance(right, right.float(), share)


def test_the_best_of_any_epoch_is_chosen_if_it_is_clearly_better():
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    early = dict(zip(NAMES, map(performance, (0.5, 0.5, 0.7, 0.9)), strict=True))
    late = dict(zip(NAMES, map(performance, (0.6, 0.5, 0.4, 0.4)), strict=True))
    best = BestSoFar()
    best.consider(3, early, networks)
    best.consider(4, late, networks)
    found = choose_model(4, late, networks, best)
    assert (found.name, found.epoch, found.test_accuracy) == ("reference average", 3, 0.9)
    assert torch.equal(found.weights["weight"], networks["reference average"].weight)


def test_the_best_of_many_epochs_must_be_ahead_by_more_than_luck():
    """Two standard errors of one comparison: of four networks it is enough, of four hundred not."""
    generator = torch.Generator().manual_seed(0)
    own = torch.rand(1000, generator=generator) < 0.6
    gained, lost = torch.nonzero(~own)[:60, 0], torch.nonzero(own)[:35, 0]
    luckier = own.clone()
    luckier[gained], luckier[lost] = True, False  # ahead by 25 of 95, which is 2.6 standard errors
    now = dict.fromkeys(NAMES, Performance(own, own.float(), 0.6))
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    best = BestSoFar()
    best.consider(1, dict.fromkeys(NAMES, Performance(luckier, luckier.float(), 0.5)), networks)
    assert choose_model(1, now, networks, best).test_accuracy == 0.5
    assert choose_model(100, now, networks, best).test_accuracy == 0.6


def test_the_cycle_is_chosen_unless_the_other_is_clearly_better():
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    close = dict(zip(NAMES, map(performance, (0.7, 0.69, 0.6, 0.7)), strict=True))
    # One more than the cycle, and right where the other is not in twenty more.
    ahead = (torch.arange(1000) >= 10) & (torch.arange(1000) < 711)
    close["reference average"] = Performance(ahead, ahead.float(), 0.7)
    best = BestSoFar()
    best.consider(4, close, networks)
    assert choose_model(4, close, networks, best).name == "cycle weights"


def test_the_network_that_is_right_is_chosen_over_the_one_that_predicts_more_given_labels():
    """A third of class 1 is labelled 0, and many rows look like either class.

    For such rows, a network that has learned the labels says 0. On 4,000 held-out samples its
    true accuracy is lower by about 0.04, four standard errors of the estimate.
    """
    generator = torch.Generator().manual_seed(0)
    chance = torch.rand(4000, generator=generator)  # of class 1
    truth = torch.rand(4000, generator=generator) < chance
    given = truth & (torch.rand(4000, generator=generator) >= 1 / 3)
    credit = credit_table(torch.tensor([[1.0, 0.0], [1 / 3, 2 / 3]]))

    def found(predicted):
        worth = credit[given.long(), predicted.long()]
        return Performance(predicted == given, worth, float((predicted == truth).float().mean()))

    right, fitted = found(chance > 0.5), found(2 / 3 * chance > 0.5)
    assert fitted.held_out > right.held_out
    for network in (right, fitted):
        assert network.mean_worth == pytest.approx(network.test_accuracy, abs=0.03)
    performances = dict(zip(NAMES, (right, right, fitted, fitted), strict=True))
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    best = BestSoFar()
    best.consider(4, performances, networks)
    assert best.name.startswith("cycle")
    assert choose_model(4, performances, networks, best).name == "cycle average"
