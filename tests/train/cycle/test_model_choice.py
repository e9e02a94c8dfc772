"""Which network a run ends with."""

import pytest
import torch

from kspr.train.guard import BestSoFar, choose_model, credit_table
from kspr.train.metrics import Performance

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
