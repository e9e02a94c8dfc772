"""Measure how often the intervals of `Selection.estimates` hold the truth, and how wide they are.

    python benchmarks/estimates.py            # measure what is missing, then write the page

A trial is one case with one way to draw, over 1,000 draws of 100 checks at q = 0.05. Widths are
compared with the exact interval of the checks alone (Clopper and Pearson).
"""

from typing import Any

import numpy as np
from rich.progress import track

from _common import RESULTS, add_trial, arguments, either, parsed, read_trials
from _data import Case, check_shared
from _fsr_cases import CASES
from _fsr_page import ESTIMATED, PAGE
from kspr import KnockoffsSPR, Selection
from kspr.core.prediction_powered import Estimate, plain_share

TRIALS = RESULTS / ESTIMATED
MEASURES = ("src/kspr/core", "src/kspr/selectors")
NAMES = ("CIFAR-10N, random1", "CIFAR-10N, aggre", "banking77, confused 20%", "CIFAR-10, Sym. 40%")
Q, CHECKS, DRAWS = 0.05, 100, either(1000, 3)


def _width(found: Estimate) -> float:
    return found.high - found.low


def _one(told: Selection, right: np.ndarray, frame: np.ndarray) -> dict[str, Any]:
    """Return for every estimate whether it holds, its width, and that of the checks alone."""
    found, keep, checked = told.estimates(), told.clean_mask, told.checked
    assert checked is not None
    # Of the checked right labels, those on the side of the cut that is kept.
    kept_right = int(np.sum(told.doubt[checked.rows[checked.right]] <= _cut(told)))
    n_right = int(checked.right.sum())
    recall = np.sum(right & keep & frame) / np.sum(right & frame)
    classes = [
        (_holds(row.fsr, np.mean(~right[mask])), _width(row.fsr))
        for row in found.per_class
        if (mask := keep & (told.label == row.label)).any()
    ]
    return {
        "noise rate": (
            _holds(found.noise_rate, np.mean(~right[frame])),
            _width(found.noise_rate),
            _width(plain_share(CHECKS - n_right, CHECKS)),
        ),
        "recall": (
            _holds(found.recall, recall),
            _width(found.recall),
            _width(plain_share(kept_right, n_right)),
        ),
        # From the checks alone: there is nothing to compare these with.
        "FSR": (_holds(found.fsr, np.mean(~right[keep])), _width(found.fsr)),
        "FSR per class": tuple(np.mean(classes, axis=0)),
    }


def _holds(found: Estimate, true: float) -> bool:
    return bool(found.low <= true <= found.high)


def _cut(told: Selection) -> float:
    assert told.checked is not None
    unchecked = told.clean_mask.copy()
    unchecked[told.checked.rows] = False
    return float(np.max(told.doubt[unchecked], initial=-np.inf))


def measure(case: Case, drawn: str) -> dict[str, Any]:
    """Return the coverage and the mean widths over all draws."""
    sample = case.make(0)
    right = sample.y == sample.y_true
    fitted = KnockoffsSPR(q=Q, progress=False).fit(sample.X, sample.y).selection_
    everywhere = np.ones(len(right), dtype=bool)
    # The first n rows of a draw of everything are the pool.
    pool = np.isin(np.arange(len(right)), fitted.draw_checks(len(right)))
    found = []
    for seed in track(range(DRAWS), description=f"{case.name}, {drawn}"):
        if drawn == "pool":
            rows = fitted.draw_checks(CHECKS, seed=seed)
        else:
            rows = np.random.default_rng([seed, 1]).choice(len(right), CHECKS, replace=False)
        told = fitted.with_checks(rows, sample.y_true[rows], drawn=drawn, seed=seed)
        found.append(_one(told, right, pool if drawn == "pool" else everywhere))
    return {
        "case": case.name,
        "drawn": drawn,
        "draws": DRAWS,
        "checks": CHECKS,
        "q": Q,
        # Held, width, width of the checks alone.
        "estimates": {
            name: np.mean([one[name] for one in found], axis=0).round(4).tolist()
            for name in found[0]
        },
    }


def main() -> None:
    parsed(arguments(__doc__), TRIALS)
    check_shared()
    done = {(trial["case"], trial["drawn"]) for trial in read_trials(TRIALS)}
    for case in [case for case in CASES if case.name in NAMES]:
        for drawn in ("pool", "all"):
            if (case.name, drawn) not in done:
                add_trial(TRIALS, measure(case, drawn))
    print(f"Now write {PAGE.name}: python benchmarks/fsr.py --page")


if __name__ == "__main__":
    main()
