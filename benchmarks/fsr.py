"""Measure the realised error rate of every control, and of other methods, on known noise.

    python benchmarks/fsr.py            # measure what is missing, then write docs/error-rate.md

A trial (data, noise, seed, method) is a line of benchmarks/results/fsr.jsonl; a run that was
interrupted continues with the missing ones. Labels and splits of a trial depend on its seed only.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from _common import DOCS, SMOKE, Bench, Store, arguments, either, measured_when
from _data import Case, Sample
from _fsr_cases import CASES
from _fsr_page import FIGURES, Measured, figure, parts
from kspr import KnockoffsSPR, PaperKnockoffsSPR, Selection, selection_quality
from kspr.experiments.compare.peers import PEERS, charge
from kspr.experiments.compare.peers.shared import Product
from kspr.experiments.compare.peers.shared import Shared as Question
from kspr.selectors.checked import Guarantee

TRIALS, COST = Store("fsr"), Store("fsr-cost")
COST_CASE = "CIFAR-10, Sym. 40%"
LEVELS, CHECKED_AT = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3), (0.05, 0.1, 0.2)


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

    def __init__(self, sample: Sample, neighbours: Product | None) -> None:
        self.sample = sample
        self.default: tuple[Selection, float] | None = None
        self.question = Question(sample.X, np.unique(sample.y, return_inverse=True)[1])
        if neighbours is not None:
            self.question.products[f"neighbours {neighbours.value.shape[1]}"] = neighbours

    def neighbours(self) -> Product:
        """Return each row's nearest rows and their cost; labels do not change them."""
        return self.question.products[f"neighbours {self.question.neighbours().shape[1]}"]


Method = Callable[[Shared, int], Answer]

UNSPLIT = {
    "level": "fixed",
    "reduction": 128,
    "fit_intercept": True,
    "classes_per_group": None,
    "samples_per_class": None,
}
"""The paper's controls on all rows at once, as the default fits them."""


def ours(selector: Any = KnockoffsSPR, **parameters: Any) -> Method:
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


def checked(n: int, guarantee: Guarantee = "mean", draws: int = either(20, 1)) -> Method:
    """Return the default with `n` rows that a person has checked, drawn from the pool."""

    def run(shared: Shared, seed: int) -> Answer:
        if shared.default is None:
            ours()(shared, seed)
        assert shared.default is not None
        selection, seconds = shared.default
        truth = shared.sample.y_true
        start = time.perf_counter()
        keep: dict[str, list[np.ndarray]] = {str(q): [] for q in CHECKED_AT}
        for q in CHECKED_AT:
            for draw in range(draws):
                how = {"q": q, "seed": 1000 * seed + draw}
                rows = selection.draw_checks(n, **how)
                told = selection.with_checks(rows, truth[rows], guarantee=guarantee, **how)
                keep[str(q)].append(told.clean_mask)
        each = (time.perf_counter() - start) / (len(CHECKED_AT) * draws)
        return Answer(keep, seconds + each)

    return run


def theirs(name: str) -> Method:
    def run(shared: Shared, seed: int) -> Answer:
        found = charge(shared.question, lambda: PEERS[name].judge(shared.question, seed=seed))
        return Answer({"own": [found.answer.clean]}, found.seconds)

    return run


METHODS: dict[str, Method] = {
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
COST_METHODS = (
    "default",
    "per class",
    "exchangeable",
    "paper",
    "theorem",
    "cleanlab both",
    "nearest neighbours",
)


def measure(chosen: argparse.Namespace) -> None:
    """Measure the missing trials, case by case, and the times once."""
    stored = TRIALS.done("data", "noise", "seed", "method")
    neighbours: dict[str, Product] = {}
    planned = [(case, seed) for case in CASES for seed in range(either(case.seeds, 1))]
    # One thread each: other work on the machine then disturbs the times less.
    with threadpool_limits(1):
        for case, seed in track(planned, description="measuring"):
            names = [name for name in METHODS if _applies(name, case)]
            missing = [n for n in names if (case.data, case.noise, seed, n) not in stored]
            if missing:
                _measure(case, seed, missing, neighbours)
        if chosen.cost or not COST.trials():
            measure_cost()


def _applies(name: str, case: Case) -> bool:
    """Return whether a method can be used: not all take two classes or spare rows to check."""
    if case.data == "breast cancer" and name in ("theorem", "exchangeable"):
        return False
    # Cross-validated logistic regression takes an hour with 150 classes on one thread. Peers on
    # people's labels are on the page of own models.
    if case.group == "people" and (name.startswith("cleanlab") or name == "nearest neighbours"):
        return False
    return "checks" not in name or case.group != "small"


def _measure(case: Case, seed: int, missing: list[str], neighbours: dict[str, Product]) -> None:
    # The selector draws from a stream of its own, so one seed serves noise and splits.
    sample = case.make(seed)
    # Cases that differ in labels only have the same neighbours.
    same = f"{case.data} {len(sample.X)}" if case.noise[:6] not in ("shares", "duplic") else ""
    shared = Shared(sample, neighbours.get(same))
    right = sample.y == sample.y_true
    for name in missing:
        answer = METHODS[name](shared, seed)
        if name == "nearest neighbours" and same:
            neighbours[same] = shared.neighbours()
        trial = {
            "data": case.data,
            "noise": case.noise,
            "group": case.group,
            "seed": seed,
            "method": name,
            "n": len(right),
            "wrong": round(float(1 - right.mean()), 5),
            "noise_rate": answer.noise_rate,
            "seconds": round(answer.seconds, 3),
            "at": {q: _mean_quality(masks, right) for q, masks in answer.keep.items()},
        }
        TRIALS.add(trial)


def _mean_quality(masks: list[np.ndarray], right: np.ndarray) -> dict[str, float]:
    found = [{**vars(selection_quality(kept, right)), "kept": np.sum(kept)} for kept in masks]
    return {name: round(float(np.mean([one[name] for one in found])), 5) for name in found[0]}


def measure_cost(repeats: int = either(5, 1)) -> None:
    """Time the methods in turns on one sample, as only ratios inside one run can be compared."""
    sample = next(case for case in CASES if case.name == COST_CASE).make(0)
    seconds: dict[str, list[float]] = {name: [] for name in COST_METHODS}
    for turn in track(range(repeats), description="timing"):
        for name in COST_METHODS:
            # Neighbours take half a minute and vary little: once is enough.
            if name != "nearest neighbours" or turn == 0:
                answer = METHODS[name](Shared(sample, None), 0)
                seconds[name].append(round(answer.seconds, 3))
    about = {"case": COST_CASE, "shape": list(sample.X.shape), "seconds": seconds}
    COST.add(about, ["case"])


def shown() -> dict[str, str]:
    cost = COST.trials()[0]
    found = parts(TRIALS.trials(), cost, METHODS)
    return found | {"time": f"{found['time']}\n\n{measured_when([cost])}"}


def draw() -> None:
    for group, name in FIGURES.items():
        drawn = figure(Measured(TRIALS.trials(), group, METHODS))
        drawn.savefig(DOCS / "figures" / name, format="svg", metadata={"Date": None})


BENCH = Bench(
    "make fsr",
    "error-rate.md",
    (TRIALS, COST),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/experiments/compare"),
    draw=draw,
)

if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--cost", action="store_true", help="measure the times again")
    BENCH.run(parser)
