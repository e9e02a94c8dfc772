"""Train a small network on the CIFAR-10 features, with every noise and method.

    python benchmarks/train_head.py               # measure what is missing, two trials at a time
    python benchmarks/train_head.py --only "Sym. 40 %" --methods "plain;default cycle"

A trial (method, noise, seed) is a line of benchmarks/results/train_head.jsonl; a run that was
interrupted continues with the missing ones. The page is docs/training-results.md.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

from _common import Bench, Store, arguments, either, markdown_table
from _data import checked_rates, cifar10, human_labels, memorised
from kspr.noise import asymmetric_cifar10, symmetric
from kspr.train import Trained, TrainSettings, fit

TRIALS = Store("train_head")
NOISES = [
    ("none", 0.0),
    *(("Sym.", rate) for rate in (0.2, 0.4, 0.6, 0.8)),
    *(("Asy.", rate) for rate in (0.2, 0.3, 0.4)),
]
HUMAN = [("random1", 0.0), ("aggre", 0.0)]
"""Columns of CIFAR-10N: one person's answer, and the majority of three."""
HUMAN_METHODS = ("plain", "default cycle", "right labels")
SEEDS = either((0, 1), (0,))
Q = 0.1
"""The error rate of the preset `cpu`."""
LIMITS = {
    "Sym. 20 %": 0.5,
    "Sym. 40 %": 1.3,
    "Sym. 60 %": 1.5,
    "Sym. 80 %": 4,
    "Asy. 20 %": 0.7,
    "Asy. 30 %": 0.7,
    "Asy. 40 %": 1,
}
"""Largest distance to training on the right labels, in points of accuracy."""
CHECKS, DRAWS = 100, either(50, 1)
"""Rows that a person checks, and how many draws of them are averaged."""


class Data:
    """CIFAR-10 features with one noise."""

    def __init__(self, kind: str, rate: float, seed: int) -> None:
        self.X, self.truth, X_test, y_test = cifar10()
        self.test = X_test, y_test
        self.y = _labels(kind, rate, seed, self.truth)
        self.rate, self.seed = rate, seed


def _labels(kind: str, rate: float, seed: int, truth: np.ndarray) -> np.ndarray:
    if kind == "none":
        return truth
    if (kind, rate) in HUMAN:
        return human_labels(kind)[0]
    make = symmetric if kind == "Sym." else asymmetric_cifar10
    return make(truth, rate, seed)


SHORT: dict[str, Any] = either({}, {"epochs": 3, "warmup_epochs": 1})


def settings(data: Data, **changes: Any) -> TrainSettings:
    return TrainSettings.from_preset("cpu", seed=data.seed, **{**SHORT, **changes})


def on_all(data: Data, keep: np.ndarray | None = None) -> Trained:
    """Train on the given labels of all samples, or of those in `keep`."""
    keep = np.ones(len(data.y), dtype=bool) if keep is None else keep
    plain = settings(data, guard=False, select_every=0)
    plain = plain.changed(warmup_epochs=plain.epochs)
    return fit(data.X[keep], data.y[keep], settings=plain, test=data.test, classes=range(10))


def small_loss(data: Data) -> Trained:
    """Train two epochs, keep the known share with the smallest losses, and train on it."""
    short = settings(data, guard=False, select_every=0, epochs=2, warmup_epochs=2)
    sure = fit(data.X, data.y, settings=short).predict_proba(data.X)
    loss = -np.log(sure[np.arange(len(data.y)), data.y] + 1e-12)
    keep = loss <= np.quantile(loss, 1 - data.rate)
    return on_all(data, keep)


def selected(data: Data, *, once: bool, **changes: Any) -> Trained:
    # Once is before training, on the embeddings; the rest of the preset is the same.
    every = {"select_every": 0} if once else {}
    return fit(
        data.X,
        data.y,
        settings=settings(data, **every, **changes),
        truth=data.truth,
        test=data.test,
    )


METHODS: dict[str, Callable[[Data], Trained]] = {
    "plain": on_all,
    "small loss, rate known": small_loss,
    "SPR once": lambda data: selected(data, once=True, selector="spr", guard=False),
    "SPR cycle": lambda data: selected(data, once=False, selector="spr", guard=False),
    "paper once": lambda data: selected(data, once=True, selector="paper", guard=False),
    "paper cycle": lambda data: selected(data, once=False, selector="paper", guard=False),
    "default once": lambda data: selected(data, once=True, guard=False),
    "default cycle, no guard": lambda data: selected(data, once=False, guard=False),
    "own features": lambda data: selected(data, once=False, select_on="network"),
    "default cycle": lambda data: selected(data, once=False),
    "right labels": lambda data: on_all(data, data.y == data.truth),
}

ON_REQUEST = ("default cycle, no guard", "own features")
"""Measured only if named with --methods: shows what the guard does, and what referees do."""


def name_of(kind: str, rate: float) -> str:
    return f"{kind} {rate:.0%}".replace("%", " %") if rate else kind


def measured(method: str, kind: str, rate: float, seed: int) -> dict[str, Any]:
    """Run one trial; called in a process of its own."""
    torch.set_num_threads(1)
    data = Data(kind, rate, seed)
    start = time.perf_counter()
    trained = METHODS[method](data)
    last = trained.history[-1]
    total = sum(line["seconds"] for line in trained.history)
    # The network is the same: checks move the cut-off.
    fsr, _, recall = (
        checked_rates(trained.selection, data.truth, Q, CHECKS, DRAWS)
        if method == "default cycle" and trained.selection is not None
        else [None] * 3
    )
    return {
        "method": method,
        "noise": name_of(kind, rate),
        "seed": seed,
        "accuracy": trained.test_accuracy,
        "accuracy_weights": last["accuracy"],
        "model_choice": trained.model_choice,
        "memorised": memorised(trained, data.X, data.y, data.truth),
        "fsr": last["fsr"],
        "recall": last["recall"],
        "f1": last["f1"],
        "fsr_checked": fsr,
        "recall_checked": recall,
        "select_share": sum(line["select_seconds"] for line in trained.history) / total,
        "seconds": round(time.perf_counter() - start, 1),
    }


def measure(chosen: argparse.Namespace) -> None:
    stored, noises = TRIALS.done("method", "noise", "seed"), chosen.only.split(",")
    missing = [
        (method, kind, rate, int(seed))
        for seed in chosen.seeds.split(",")
        for kind, rate in [*NOISES, *HUMAN]
        for method in chosen.methods.split(";")
        if name_of(kind, rate) in noises
        and (method in HUMAN_METHODS or (kind, rate) not in HUMAN)
        and (method, name_of(kind, rate), int(seed)) not in stored
    ]
    TRIALS.run(measured, missing, chosen.workers)


def shown() -> dict[str, str]:
    trials = TRIALS.trials()
    columns = [name_of(*noise) for noise in NOISES]
    ran = {trial["method"] for trial in trials}
    methods = [method for method in METHODS if method in ran or method not in ON_REQUEST]
    rows = [[method, *(_entry(trials, method, noise) for noise in columns)] for method in methods]
    cycles = [r for r in trials if r["method"] == "default cycle"]
    noisy, clean = (
        _usual_share([r for r in cycles if (r["noise"] == "none") == is_clean])
        for is_clean in (False, True)
    )
    seeds, own = (", ".join(sorted({str(r["seed"]) for r in some})) for some in (trials, cycles))
    minutes = sum(r["seconds"] for r in trials) / 60
    said = (
        f"Means over the seeds {seeds} (the default cycle: {own}); {len(trials)} trials that took "
        f"{minutes:.0f} minutes on one core, beside other work. The selection, referees and "
        f"teachers included, took {noisy} of the default cycle's time where there is noise (the "
        f"median), and {clean} where there is none and no other network is trained."
    )
    head = ["labels", *HUMAN_METHODS, "FSR / recall", f"with {CHECKS} checks"]
    return {
        "accuracy": f"{said}\n\n{markdown_table(['method', *columns], rows)}",
        "people": markdown_table(head, [_human(trials, kind) for kind, _ in HUMAN]),
        "targets": markdown_table(
            ["the default cycle", "measured", "target", ""], _targets(trials)
        ),
    }


def _usual_share(trials: list[dict[str, Any]]) -> str:
    shares = [trial["select_share"] for trial in trials]
    # The median: some trials were paused for minutes, in the selection or outside of it.
    return f"{np.median(shares):.1%}" if shares else "an unknown part"


def _targets(trials: list[dict[str, Any]]) -> list[list[str]]:
    """Return the default cycle against its targets, over the seeds that both were run with."""
    lines: list[list[Any]] = []
    for noise, limit in LIMITS.items():
        points = _gap(trials, "right labels", "default cycle", noise)
        words = [f"points below the right labels, {noise}", points, f"<= {limit}"]
        lines += [] if points is None else [[*words, points <= limit]]
    for noise in LIMITS:
        rates = [r["fsr"] for r in trials if (r["method"], r["noise"]) == ("default cycle", noise)]
        if rates:
            rate, limit = float(np.mean(rates)), Q + 0.01
            lines.append([f"FSR, {noise}", f"{rate:.3f}", f"<= {limit:g}", rate <= limit])
    for words, other in (("plain training", "plain"), ("own features", "own features")):
        for noise in [name_of(*noise) for noise in NOISES]:
            points = _gap(trials, "default cycle", other, noise)
            if points is not None:
                lines.append([f"points above {words}, {noise}", points, ">= 0", points >= 0])
    shown = [[what, v if isinstance(v, str) else f"{v:.2f}", *rest] for what, v, *rest in lines]
    return [[*words, "met" if met else "not met"] for *words, met in shown]


def _gap(trials: list[dict[str, Any]], upper: str, lower: str, noise: str) -> float | None:
    """Return by how many points a method is above another, over the seeds of both, if any."""
    found = {(r["method"], r["seed"]): r["accuracy"] for r in trials if r["noise"] == noise}
    seeds = [seed for method, seed in found if method == upper and (lower, seed) in found]
    gaps = [100 * (found[upper, seed] - found[lower, seed]) for seed in seeds]
    return float(np.mean(gaps)) if gaps else None


def _human(trials: list[dict[str, Any]], kind: str) -> list[str]:
    """Return a line of the table of labels that people gave, means over the seeds."""

    def mean(method: str, name: str) -> str:
        found = [r[name] for r in trials if (r["method"], r["noise"]) == (method, kind)]
        return f"{np.mean(found):.3f}" if found else "-"

    pairs = [("fsr", "recall"), ("fsr_checked", "recall_checked")]
    return [
        kind,
        *(mean(method, "accuracy") for method in HUMAN_METHODS),
        *(" / ".join(mean("default cycle", name) for name in pair) for pair in pairs),
    ]


def _entry(trials: list[dict[str, Any]], method: str, noise: str) -> str:
    own = [r for r in trials if r["method"] == method and r["noise"] == noise]
    if not own:
        return "-"
    accuracy, *rates = (
        np.mean([r[name] for r in own]) if own[0][name] is not None else None
        for name in ("accuracy", "fsr", "recall")
    )
    return f"{accuracy:.3f}" + (
        f" ({rates[0]:.3f} / {rates[1]:.2f})" if rates[0] is not None else ""
    )


BENCH = Bench(
    "make bench-train",
    "training-results.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/train"),
)

if __name__ == "__main__":
    every = [name_of(*noise) for noise in [*NOISES, *HUMAN]]
    usual = [method for method in METHODS if method not in ON_REQUEST]
    parser = arguments(__doc__)
    parser.add_argument("--only", default=either(",".join(every), "Sym. 40 %,random1"))
    parser.add_argument("--methods", default=either(";".join(usual), ";".join(HUMAN_METHODS)))
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)))
    parser.add_argument("--workers", type=int, default=2)
    BENCH.run(parser)
