"""The methods of `fsr.py`: ours at every level, and those of others, which have no level."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from _common import SMOKE, either
from _data import Sample
from kspr import KnockoffsSPR, PaperKnockoffsSPR, Selection
from kspr.experiments.compare.peers import PEERS, charge
from kspr.experiments.compare.peers.shared import Product
from kspr.experiments.compare.peers.shared import Shared as Question
from kspr.selectors.checked import Guarantee

__all__ = ["LEVELS", "METHODS", "Answer", "Bench", "Shared"]

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)


CHECKED_AT = (0.05, 0.1, 0.2)
DRAWS = either(20, 1)
"""Draws of the rows to check that a trial is the mean of."""


@dataclass(frozen=True)
class Answer:
    """What is kept at each level; under ``own`` for methods without a level.

    One mask, or one for each draw of the rows to check.
    """

    keep: dict[str, list[np.ndarray]]
    seconds: float
    noise_rate: float | None = None


class Shared:
    """Intermediate results of one sample that several methods use, with their seconds."""

    def __init__(self, sample: Sample, neighbours: tuple[np.ndarray, float] | None) -> None:
        self.sample = sample
        self.default: tuple[Selection, float] | None = None
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


UNSPLIT = {
    "level": "fixed",
    "reduction": 128,
    "fit_intercept": True,
    "classes_per_group": None,
    "samples_per_class": None,
}
"""The paper's controls on all rows at once, as the default fits them."""


def ours(selector: Any = KnockoffsSPR, **parameters: Any) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        sample = shared.sample
        start = time.perf_counter()
        model = selector(q=0.1, random_state=seed, progress=False, **parameters)
        selection = model.fit(sample.X, sample.y).selection_
        seconds = time.perf_counter() - start
        if not parameters:
            # Checks need no second fit.
            shared.default = selection, seconds
        keep = {str(q): [selection.at(q).clean_mask] for q in LEVELS}
        rate = None if selection.noise is None else selection.noise.rate
        return Answer(keep, seconds, rate)

    return run


def checked(n: int, guarantee: Guarantee = "mean", draws: int = DRAWS) -> Bench:
    """Return the default with `n` rows that a person has checked, drawn from the pool."""

    def run(shared: Shared, seed: int) -> Answer:
        if shared.default is None:
            ours()(shared, seed)
        assert shared.default is not None
        selection, seconds = shared.default
        truth = shared.sample.y_true
        start = time.perf_counter()
        keep: dict[str, list[np.ndarray]] = {}
        for q in CHECKED_AT:
            keep[str(q)] = []
            for draw in range(draws):
                how = {"q": q, "seed": 1000 * seed + draw}
                rows = selection.draw_checks(n, **how)
                told = selection.with_checks(rows, truth[rows], guarantee=guarantee, **how)
                keep[str(q)].append(told.clean_mask)
        each = (time.perf_counter() - start) / (len(CHECKED_AT) * draws)
        return Answer(keep, seconds + each)

    return run


def theirs(name: str) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        peer = PEERS[name]
        found = charge(shared.question, lambda: peer.judge(shared.question, seed=seed))
        return Answer({"own": [found.answer.clean]}, found.seconds)

    return run


METHODS: dict[str, Bench] = {
    "default": ours(),
    "50 checks": checked(50),
    "100 checks": checked(100),
    "200 checks": checked(200),
    "500 checks, 95 %": checked(500, "confidence", draws=either(5, 1)),
    "class only": ours(control="transition"),
    "per class": ours(cut="per_class"),
    "exchangeable": ours(control="exchangeable"),
    "paper": ours(PaperKnockoffsSPR, control="paper", **UNSPLIT),
    "theorem": ours(PaperKnockoffsSPR, control="theorem", **UNSPLIT),
    "cleanlab prune_by_noise_rate": theirs("cleanlab-noise-rate"),
    "cleanlab prune_by_class": theirs("cleanlab-class"),
    "cleanlab both": theirs("cleanlab-both"),
    "cleanlab confident_learning": theirs("cleanlab-confident"),
    "nearest neighbours": theirs("neighbours"),
}
if SMOKE:
    # One filter of cleanlab's stands for all: they share what takes long.
    METHODS = {name: run for name, run in METHODS.items() if not name.startswith("cleanlab prune")}
