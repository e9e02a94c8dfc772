"""Which network a run ends with."""

import torch

from kspr.train.cycle.metrics import Performance
from kspr.train.cycle.model_choice import BestSoFar, choose_model

NAMES = ("cycle weights", "cycle average", "reference weights", "reference average")


def performance(share, n=1000):
    return Performance(torch.arange(n) < share * n, share)


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


def test_the_cycle_is_chosen_unless_the_other_is_clearly_better():
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    close = dict(zip(NAMES, map(performance, (0.7, 0.69, 0.6, 0.7)), strict=True))
    # One more than the cycle, and right where the other is not in twenty more.
    ahead = (torch.arange(1000) >= 10) & (torch.arange(1000) < 711)
    close["reference average"] = Performance(ahead, 0.7)
    best = BestSoFar()
    best.consider(4, close, networks)
    assert choose_model(4, close, networks, best).name == "cycle weights"
