"""Measure every choice of the method, one change at a time, to choose the defaults.

    python benchmarks/defaults.py            # measure what is missing, then write docs/defaults.md

A trial (variant, noise, seed) is a line of benchmarks/results/defaults.jsonl; a run that was
interrupted continues with the missing ones.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.progress import track

import kspr
from _common import SMOKE, Bench, Store, either, markdown_table
from _data import cifar10
from kspr.noise import pair_flip, symmetric

TRIALS = Store("defaults")

CIFAR_PAIRS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
"""The usual asymmetric noise: truck to automobile, bird to plane, deer to horse, cat and dog."""
NOISES = [("Sym.", rate) for rate in (0.2, 0.4, 0.6, 0.8)] + [
    ("Asy.", rate) for rate in (0.2, 0.3, 0.4)
]
SEEDS = either((0, 1, 2), (0,))
LEVELS = (0.05, 0.1, 0.2)

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "8 dimensions": {"reduction": 8},
    "16 dimensions": {"reduction": 16},
    "32 dimensions": {"reduction": 32},
    "64 dimensions": {"reduction": 64},
    "128 dimensions": {"reduction": 128},
    "256 dimensions": {"reduction": 256},
    "no intercept": {"fit_intercept": False},
    "lasso penalty": {"penalty": "lasso"},
    "least squares first": {"first_step": "least_squares"},
    "SPR keeps 30 %": {"clean_ratio": 0.3},
    "SPR keeps 70 %": {"clean_ratio": 0.7},
    "pooled cut": {"cut": "pooled"},
    "theorem's bound": {"control": "theorem"},
    "symmetric (max)": {"statistic": "symmetric_max"},
    "symmetric (min)": {"statistic": "symmetric_min"},
    "random knockoff": {"knockoff": "random"},
    "random, symmetric (min)": {"knockoff": "random", "statistic": "symmetric_min"},
    "75 samples a class": {"samples_per_class": 75, "n_jobs": 2},
    "500 samples a class": {"samples_per_class": 500, "n_jobs": 2},
}
"""What is changed against `BASE`."""
if SMOKE:
    # The small data has fewer columns.
    VARIANTS = {name: c for name, c in VARIANTS.items() if c.get("reduction", 0) <= 16}
BASE = {
    "level": "fixed",
    "reduction": either(128, 8),
    "fit_intercept": True,
    "classes_per_group": None,
    "samples_per_class": None,
}
"""The paper's control with the choices that this comparison led to."""


def noisy(y: np.ndarray, kind: str, rate: float, seed: int) -> np.ndarray:
    if kind == "Sym.":
        return symmetric(y, rate, seed)
    return pair_flip(y, rate, CIFAR_PAIRS, seed)


def variants() -> Iterator[tuple[str, kspr.PaperKnockoffsSPR]]:
    for name, changes in VARIANTS.items():
        yield name, kspr.PaperKnockoffsSPR(**{**BASE, **changes})
    yield "paper", kspr.PaperKnockoffsSPR(n_jobs=2)


def signature(model: kspr.PaperKnockoffsSPR) -> dict[str, Any]:
    """Return the parameters that can change an answer."""
    ignored = {"n_jobs", "progress", "q", "random_state"}
    return {k: v for k, v in model.get_params().items() if k not in ignored}


def measured() -> list[dict[str, Any]]:
    trials = TRIALS.trials()
    # Options that the class has lost since: no trial has changed them.
    kept = signature(kspr.PaperKnockoffsSPR())
    for trial in trials:
        trial["parameters"] = {k: v for k, v in trial["parameters"].items() if k in kept}
    return trials


def key(trial: dict[str, Any]) -> str:
    return json.dumps([trial["parameters"], trial["noise"], trial["seed"]], sort_keys=True)


def measure() -> None:
    X, y_true, _, _ = cifar10()
    done = {key(trial) for trial in measured()}
    planned = [(m, noise, seed) for seed in SEEDS for noise in NOISES for _, m in variants()]
    for model, (kind, rate), seed in track(planned, description="measuring"):
        trial: dict[str, Any] = {
            "parameters": signature(model),
            "noise": f"{kind} {rate:.0%}",
            "seed": seed,
        }
        if key(trial) in done:
            continue
        done.add(key(trial))
        y = noisy(y_true, kind, rate, seed)
        start = time.perf_counter()
        selection = model.set_params(random_state=seed).fit(X, y).selection_
        trial["seconds"] = round(time.perf_counter() - start, 3)
        # The paper's rule chooses its own level; all others are measured at three levels.
        cuts = {"own": selection} if model.level == "smallest" else {}
        cuts |= {str(q): selection.at(q) for q in LEVELS} if not cuts else {}
        trial["at"] = {
            q: {k: round(v, 5) for k, v in vars(quality(cut, y == y_true)).items()}
            for q, cut in cuts.items()
        }
        TRIALS.add(trial)


def quality(selection: kspr.Selection, right: np.ndarray) -> kspr.SelectionQuality:
    return kspr.selection_quality(selection.clean_mask, right)


def shown() -> dict[str, str]:
    trials = measured()
    by_variant: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for name, model in variants():
        found = by_variant.setdefault(name, defaultdict(list))
        for trial in trials:
            if trial["parameters"] == signature(model):
                found[trial["noise"]].append(trial)
    return {f"q = {q:g}": table(by_variant, str(q)) for q in LEVELS}


def table(by_variant: dict[str, dict[str, list[dict[str, Any]]]], q: str) -> str:
    columns = [f"{kind} {rate:.0%}" for kind, rate in NOISES]
    rows = []
    for name, found in by_variant.items():
        cells, scores, seconds = [], [], []
        for column in columns:
            runs = [(r["at"].get(q) or r["at"].get("own"), r["seconds"]) for r in found[column]]
            if not runs:
                cells.append("-")
                continue
            fsr = np.mean([run["fsr"] for run, _ in runs])
            recall = np.mean([run["recall"] for run, _ in runs])
            scores.append(np.mean([run["f1"] for run, _ in runs]))
            seconds += [s for _, s in runs]
            mark = "**" if name != "paper" and fsr > float(q) else ""
            cells.append(f"{mark}{fsr:.3f}{mark} / {recall:.3f}")
        means = [f"{np.mean(scores):.3f}", f"{np.median(seconds):.2f}"] if scores else ["-", "-"]
        rows.append([name, *cells, *means])
    return markdown_table(["variant", *columns, "mean F1", "seconds"], rows)


BENCH = Bench("make defaults", "defaults.md", (TRIALS,), shown, lambda _: measure())

if __name__ == "__main__":
    BENCH.run(__doc__)
