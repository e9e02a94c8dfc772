"""Measure what several splits and the votes of neighbours gain and cost.

Every case is measured with each variant in turn, on one thread, so that the ratio of their
processor times can be compared. The tables go into docs/how-it-works.md.
"""

import time
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from _common import Bench, Store, either, markdown_table
from _data import Case, Sample, cifar10, confused_texts, human_labels
from kspr import KnockoffsSPR, selection_quality
from kspr.noise import asymmetric_cifar10, symmetric

TRIALS = Store("sharper")
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "3 splits": {"n_splits": 3},
    "50 neighbours": {"neighbours": 50},
    "3 splits, 50 neighbours": {"n_splits": 3, "neighbours": 50},
}
LEVELS = (0.05, 0.1)


def _cifar(kind: Any, rate: float) -> Any:
    return lambda seed: Sample(cifar10().X, kind(cifar10().y, rate, seed), cifar10().y)


def _digits(seed: int) -> Sample:
    X, y = load_digits(return_X_y=True)
    return Sample(X.astype(np.float32), symmetric(y, 0.4, seed), y)


CASES = [
    Case("CIFAR-10", "Sym. 20 %", _cifar(symmetric, 0.2)),
    Case("CIFAR-10", "Sym. 40 %", _cifar(symmetric, 0.4)),
    Case("CIFAR-10", "Sym. 80 %", _cifar(symmetric, 0.8), 3),
    Case("CIFAR-10", "Asy. 40 %", _cifar(asymmetric_cifar10, 0.4)),
    Case("CIFAR-10N", "random1", lambda _: Sample(cifar10().X, *human_labels("random1"))),
    Case("digits", "Sym. 40 %", _digits, 5),
    Case("banking77", "confused 20 %", lambda s: Sample(*confused_texts("banking77", 0.2, s))),
]


def best_recall(doubt: np.ndarray, right: np.ndarray, fsr: float) -> float:
    """Return the recall of the loosest cut whose share of wrong labels is at most `fsr`."""
    order = np.argsort(doubt, kind="stable")
    wrong = np.cumsum(~right[order])
    within = np.flatnonzero(wrong <= fsr * np.arange(1, len(order) + 1))
    return float(right[order][: within[-1] + 1].sum() / right.sum()) if within.size else 0.0


def measure() -> None:
    """Measure the missing trials."""
    stored = TRIALS.done("case", "seed", "variant")
    planned = [(c, s, v) for c in CASES for s in range(either(c.seeds, 1)) for v in VARIANTS]
    for case, seed, variant in track(planned, description="measuring"):
        if (case.name, seed, variant) in stored:
            continue
        sample = case.make(seed)
        right = sample.y == sample.y_true
        model = KnockoffsSPR(random_state=seed, progress=False, **VARIANTS[variant])
        # Of the processor: other work on the machine does not count.
        start = time.process_time()
        with threadpool_limits(1):
            selection = model.fit(sample.X, sample.y).selection_
        seconds = time.process_time() - start
        found = {q: selection_quality(selection.at(q).clean_mask, right) for q in LEVELS}
        trial = {
            "case": case.name,
            "seed": seed,
            "variant": variant,
            "best": {str(q): round(best_recall(selection.doubt, right, q), 4) for q in LEVELS},
            "at": {str(q): [round(one.fsr, 4), round(one.recall, 4)] for q, one in found.items()},
            "seconds": round(seconds, 2),
        }
        TRIALS.add(trial)


def shown() -> str:
    """Return the trials as two tables: what the order allows, and what is kept."""
    trials, best, kept = TRIALS.trials(), [], []
    for case in CASES:
        of = {
            name: [t for t in trials if (t["case"], t["variant"]) == (case.name, name)]
            for name in VARIANTS
        }
        if not all(of.values()):
            continue
        seconds = {name: sum(t["seconds"] for t in found) for name, found in of.items()}
        times = {name: f"{s / seconds['default']:.1f} x" for name, s in seconds.items()}
        cuts = {
            name: _pair([list(t["best"].values()) for t in found]) for name, found in of.items()
        }
        best.append([case.name, *(f"{cuts[name]}; {times[name]}" for name in of)])
        kept.append([case.name, *(_pair([t["at"]["0.05"] for t in f]) for f in of.values())])
    head = ["labels", *VARIANTS]
    said = "Recall of the best cut at an FSR of .05 / .10, and the time against the default:"
    tables = (markdown_table(head, best), "FSR / recall at q = 0.05:", markdown_table(head, kept))
    return "\n\n".join([said, *tables])


def _pair(values: list[list[float]]) -> str:
    first, second = np.mean(values, axis=0)
    return f"{first:.3f} / {second:.3f}"


BENCH = Bench(
    "python benchmarks/sharper.py",
    "how-it-works.md",
    (TRIALS,),
    shown,
    lambda _: measure(),
)

if __name__ == "__main__":
    BENCH.run(__doc__)
