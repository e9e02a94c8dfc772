"""The methods of `fsr.py`: ours at every level, and those of others, which have no level."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from _common import Sample
from kspr import KnockoffsSPR
from kspr.experiments.compare.peers import PEERS, charge
from kspr.experiments.compare.peers.shared import Product
from kspr.experiments.compare.peers.shared import Shared as Question

__all__ = ["LEVELS", "METHODS", "Answer", "Bench", "Shared"]

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


@dataclass(frozen=True)
class Answer:
    """What is kept at each level; under ``own`` for methods without a level."""

    keep: dict[str, np.ndarray]
    seconds: float
    noise_rate: float | None = None


class Shared:
    """Intermediate results of one sample that several methods use, with their seconds."""

    def __init__(self, sample: Sample, neighbours: tuple[np.ndarray, float] | None) -> None:
        self.sample = sample
        codes = np.unique(sample.y, return_inverse=True)[1]
        self.question = Question(sample.X, codes)
        if neighbours is not None:
            found, seconds = neighbours
            self.question.products[f"neighbours {found.shape[1]}"] = Product(found, seconds, None)

    def neighbours(self) -> tuple[np.ndarray, float]:
        """Return each row's nearest rows and the seconds; labels do not change them."""
        found = self.question.neighbours()
        return found, self.question.products[f"neighbours {found.shape[1]}"].seconds


Bench = Callable[[Shared, int], Answer]


def ours(n_checked: int = 0, **parameters: Any) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        sample = shared.sample
        checked = None
        if n_checked:
            rows = np.random.default_rng([seed, 1]).choice(len(sample.y), n_checked, replace=False)
            checked = rows, sample.y_true[rows]
        start = time.perf_counter()
        chosen = {"cut": "per_class", **parameters}
        model = KnockoffsSPR(q=0.1, random_state=seed, progress=False, **chosen)
        selection = model.fit(sample.X, sample.y, checked=checked).selection_
        seconds = time.perf_counter() - start
        keep = {str(q): selection.at(q).clean_mask for q in LEVELS}
        rate = None if selection.noise is None else selection.noise.rate
        return Answer(keep, seconds, rate)

    return run


def theirs(name: str) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        peer = PEERS[name]
        found = charge(shared.question, lambda: peer.judge(shared.question, seed=seed))
        return Answer({"own": found.answer.clean}, found.seconds)

    return run


METHODS: dict[str, Bench] = {
    "transition": ours(),
    "transition, pooled": ours(cut="pooled"),
    "transition, 500 checked": ours(n_checked=500),
    "exchangeable": ours(control="exchangeable"),
    "exchangeable, no floor": ours(control="exchangeable", remove_floor=True),
    "paper": ours(control="paper"),
    "theorem": ours(control="theorem"),
    "cleanlab prune_by_noise_rate": theirs("cleanlab-noise-rate"),
    "cleanlab prune_by_class": theirs("cleanlab-class"),
    "cleanlab both": theirs("cleanlab-both"),
    "cleanlab confident_learning": theirs("cleanlab-confident"),
    "nearest neighbours": theirs("neighbours"),
}
