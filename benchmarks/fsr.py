"""Measure the realised error rate of every control, and of other methods, on known noise.

    python benchmarks/fsr.py            # measure what is missing, then write docs/error-rate.md

A trial (data, noise, seed, method) is a line of benchmarks/results/fsr.jsonl; a run that was
interrupted continues with the missing ones. Labels and splits of a trial depend on its seed only.
"""

from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from _common import RESULTS, add_trial, arguments, either, parsed, read_trials
from _data import Case, check_shared
from _fsr_cases import CASES
from _fsr_methods import METHODS, Shared
from _fsr_page import PAGE, write_page
from kspr import selection_quality

TRIALS = RESULTS / "fsr.jsonl"
COST = RESULTS / "fsr-cost.jsonl"
MEASURES = ("src/kspr/core", "src/kspr/selectors", "src/kspr/experiments/compare")
COST_CASE = "CIFAR-10, Sym. 40%"
PEERS_BY_CLASS = tuple(name for name in METHODS if name.startswith("cleanlab"))
"""Cross-validated logistic regression, which takes an hour with 150 classes on one thread. Peers on
people's labels are on the page of own models."""
COST_METHODS = (
    "default",
    "per class",
    "exchangeable",
    "paper",
    "theorem",
    "cleanlab both",
    "nearest neighbours",
)


def measured() -> list[dict[str, Any]]:
    return read_trials(TRIALS)


def key(trial: dict[str, Any]) -> tuple[str, str, int, str]:
    return trial["data"], trial["noise"], trial["seed"], trial["method"]


def measure() -> None:
    """Measure the missing trials, case by case."""
    done = {key(trial) for trial in measured()}
    neighbours: dict[str, Any] = {}
    planned = [(case, seed) for case in CASES for seed in range(either(case.seeds, 1))]
    for case, seed in track(planned, description="measuring"):
        missing = [
            name
            for name in METHODS
            if (case.data, case.noise, seed, name) not in done and _applies(name, case)
        ]
        if missing:
            _measure(case, seed, missing, neighbours)


def _applies(name: str, case: Case) -> bool:
    """Return whether a method can be used: not all take two classes or spare rows to check."""
    if case.data == "breast cancer" and (name == "theorem" or name.startswith("exchangeable")):
        return False
    if case.group == "people" and (name in PEERS_BY_CLASS or name == "nearest neighbours"):
        return False
    return "checks" not in name or case.group != "small"


def _measure(case: Case, seed: int, missing: list[str], neighbours: dict[str, Any]) -> None:
    # The selector draws from a stream of its own, so one seed serves noise and splits.
    sample = case.make(seed)
    # Cases that differ in labels only have the same neighbours.
    same = f"{case.data} {len(sample.X)}" if case.noise[:6] != "shares" else None
    shared = Shared(sample, neighbours.get(same))
    right = sample.y == sample.y_true
    for name in missing:
        answer = METHODS[name](shared, seed)
        if name == "nearest neighbours" and same and not case.noise.startswith("dupl"):
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
        add_trial(TRIALS, trial)


def _mean_quality(masks: list[np.ndarray], right: np.ndarray) -> dict[str, float]:
    found = [{**vars(selection_quality(kept, right)), "kept": np.sum(kept)} for kept in masks]
    return {name: round(float(np.mean([one[name] for one in found])), 5) for name in found[0]}


def measure_cost(repeats: int = either(5, 1)) -> None:
    """Time the methods in turns on one sample, as only ratios inside one run can be compared."""
    case = next(case for case in CASES if case.name == COST_CASE)
    sample = case.make(0)
    seconds: dict[str, list[float]] = {name: [] for name in COST_METHODS}
    for turn in track(range(repeats), description="timing"):
        for name in COST_METHODS:
            # Neighbours take half a minute and vary little: once is enough.
            if name != "nearest neighbours" or turn == 0:
                answer = METHODS[name](Shared(sample, None), 0)
                seconds[name].append(round(answer.seconds, 3))
    about = {"case": COST_CASE, "shape": list(sample.X.shape), "seconds": seconds}
    add_trial(COST, about, ["case"])


def cost() -> dict[str, Any]:
    return read_trials(COST)[0]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cost", action="store_true", help="measure the times again")
    chosen = parsed(parser, TRIALS, COST)
    if not chosen.page:
        check_shared()
        # One thread each: other work on the machine then disturbs the times less.
        with threadpool_limits(1):
            measure()
            if chosen.cost or not COST.exists():
                measure_cost()
    write_page(measured(), cost())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
