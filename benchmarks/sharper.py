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

from _common import (
    DOCS,
    RESULTS,
    add_trial,
    arguments,
    either,
    fill_page,
    markdown_table,
    parsed,
    read_trials,
)
from _data import Case, Sample, check_shared, cifar10, confused_texts, human_labels
from kspr import KnockoffsSPR, selection_quality
from kspr.noise import asymmetric_cifar10, symmetric

COMMAND = "python benchmarks/sharper.py"
PAGE = DOCS / "how-it-works.md"
TRIALS = RESULTS / "sharper.jsonl"
MEASURES = ("src/kspr/core", "src/kspr/selectors")
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "3 splits": {"n_splits": 3},
    "50 neighbours": {"neighbours": 50},
    "3 splits, 50 neighbours": {"n_splits": 3, "neighbours": 50},
}
LEVELS = (0.05, 0.1)


def _cifar(kind: Any, rate: float) -> Any:
    def make(seed: int) -> Sample:
        X, y, _, _ = cifar10()
        return Sample(X, kind(y, rate, seed), y)

    return make


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
    Case(
        "banking77", "confused 20 %", lambda seed: Sample(*confused_texts("banking77", 0.2, seed))
    ),
]


def best_recall(doubt: np.ndarray, right: np.ndarray, fsr: float) -> float:
    """Return the recall of the loosest cut whose share of wrong labels is at most `fsr`."""
    order = np.argsort(doubt, kind="stable")
    wrong = np.cumsum(~right[order])
    within = np.flatnonzero(wrong <= fsr * np.arange(1, len(order) + 1))
    return float(right[order][: within[-1] + 1].sum() / right.sum()) if within.size else 0.0


def measure() -> None:
    """Measure the missing trials."""
    done = {(trial["case"], trial["seed"], trial["variant"]) for trial in read_trials(TRIALS)}
    planned = [(c, s, v) for c in CASES for s in range(either(c.seeds, 1)) for v in VARIANTS]
    for case, seed, variant in track(planned, description="measuring"):
        if (case.name, seed, variant) in done:
            continue
        sample = case.make(seed)
        right = sample.y == sample.y_true
        model = KnockoffsSPR(random_state=seed, progress=False, **VARIANTS[variant])
        # Of the processor: other work on the machine does not count.
        start = time.process_time()
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
        add_trial(TRIALS, trial)


def table() -> str:
    """Return the trials as two tables in Markdown: what the order allows, and what is kept."""
    trials = read_trials(TRIALS)
    best, kept = [], []
    for case in CASES:
        of = {
            name: [t for t in trials if (t["case"], t["variant"]) == (case.name, name)]
            for name in VARIANTS
        }
        if not all(of.values()):
            continue
        seconds = {name: sum(t["seconds"] for t in found) for name, found in of.items()}
        best.append(
            [
                case.name,
                *(
                    f"{_pair([list(t['best'].values()) for t in found])}; "
                    f"{seconds[name] / seconds['default']:.1f} x"
                    for name, found in of.items()
                ),
            ]
        )
        kept.append(
            [case.name, *(_pair([t["at"]["0.05"] for t in found]) for found in of.values())]
        )
    head = ["labels", *VARIANTS]
    return "\n\n".join(
        [
            "Recall of the best cut at an FSR of .05 / .10, and the time against the default:",
            markdown_table(head, best),
            "FSR / recall at q = 0.05:",
            markdown_table(head, kept),
        ]
    )


def _pair(values: list[list[float]]) -> str:
    first, second = np.mean(values, axis=0)
    return f"{first:.3f} / {second:.3f}"


def filled(text: str) -> str:
    """Return the page's text with the tables in their place."""
    return fill_page(text, COMMAND, table(), read_trials(TRIALS))


def main() -> None:
    if not parsed(arguments(__doc__), TRIALS).page:
        check_shared()
        with threadpool_limits(1):
            measure()
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
