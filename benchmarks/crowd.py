"""Measure what several labels a row give: the consensus, its error rate, and the noise rate.

    python benchmarks/crowd.py            # measure what is missing, then docs/several-labels.md

A trial is one data set with the labels of several annotators, and one seed of the split. It is a
line of benchmarks/results/crowd.jsonl; a run that was interrupted continues with the missing ones.
"""

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from cleanlab.multiannotator import get_label_quality_multiannotator
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from _common import Bench, Store, either, markdown_table
from _data import Case, Sample, checked_rates, cifar10, confused_texts, human_labels
from kspr import AnnotatorSelector, KnockoffsSPR, Selection
from kspr.core.dawid_skene import Votes, dawid_skene
from kspr.core.fitting import TEMPERATURES
from kspr.selectors.held_out import held_out_values

TRIALS = Store("crowd")
LEVELS, CHECKED_LEVELS = (0.01, 0.02, 0.05, 0.1), (0.02, 0.05)
CHECKS, DRAWS, BINS = 100, either(20, 1), 4


def _people(labels: int) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:
        columns = [human_labels(f"random{k}") for k in (1, 2, 3)]
        y, truth = np.column_stack([label for label, _ in columns]), columns[0][1]
        gone = np.argsort(np.random.default_rng(seed).random(y.shape), axis=1)[:, labels:]
        y[np.arange(len(y))[:, None], gone] = -1
        return Sample(cifar10().X, y, truth)

    return make


def _independent(seed: int) -> Sample:
    """Return labels that go wrong as often as people's, class by class, but independently."""
    people = _people(3)(0)
    rng, y = np.random.default_rng(seed), people.y.copy()
    for k in range(10):
        rows = np.flatnonzero(people.y_true == k)
        for a in range(y.shape[1]):
            y[rows, a] = people.y[rng.choice(rows, len(rows)), a]
    return Sample(people.X, y, people.y_true)


def _texts(name: str) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:
        parts = [confused_texts(name, 0.2, 3 * seed + k) for k in range(3)]
        return Sample(parts[0][0], np.column_stack([part[1] for part in parts]), parts[0][2])

    return make


CASES = [
    Case("CIFAR-10N", "three people", _people(3), 3),
    Case("CIFAR-10N", "two people", _people(2), 3),
    Case("CIFAR-10", "as often wrong, independently", _independent, 3),
    Case("banking77", "three confused alike", _texts("banking77"), 3),
    Case("clinc150", "three confused alike", _texts("clinc150"), 3),
]


def measured(case: Case, seed: int) -> dict[str, Any]:
    sample = case.make(seed)
    X, y, truth = sample.X, sample.y, sample.y_true
    first = y[np.arange(len(y)), (y >= 0).argmax(axis=1)]
    model = AnnotatorSelector(random_state=seed, progress=False).fit(X, y)
    single = KnockoffsSPR(random_state=seed, progress=False).fit(X, first).selection_
    votes = _votes(y)
    majority = _majority(votes)
    voted = KnockoffsSPR(random_state=seed, progress=False).fit(X, majority).selection_
    selector = KnockoffsSPR(random_state=seed, progress=False)
    values = held_out_values(selector, X, majority).values
    log_prior = _scaled(values, majority)
    by_chance = {
        "labels alone": dawid_skene(votes).chance,
        "with features": dawid_skene(votes, log_prior).chance,
        "with features, by difficulty": _by_difficulty(votes, log_prior),
    }
    return {
        "data": case.data,
        "noise": case.noise,
        "seed": seed,
        "wrong": float((y != truth[:, None])[y >= 0].mean()),
        "worth": model.evidence_weight_,
        "estimates": {"one label": single.noise.rate, "all": model.annotators_.noise_rate},
        "methods": {
            "one label": _by_selection(single, truth),
            "majority": _by_selection(voted, truth),
            **{name: _by_doubt(chance, truth) for name, chance in by_chance.items()},
            "CROWDLAB": _crowdlab(y, log_prior, truth),
            "AnnotatorSelector": _by_selection(model.selection_, truth),
        },
        "checked": {
            f"{q:g}": checked_rates(model.selection_, truth, q, CHECKS, DRAWS)
            for q in CHECKED_LEVELS
        },
    }


def _votes(y: np.ndarray) -> Votes:
    row, annotator = np.nonzero(y >= 0)
    return Votes(row, annotator, y[row, annotator], len(y), int(y.max()) + 1)


def _majority(votes: Votes) -> np.ndarray:
    counts = np.zeros((votes.n_rows, votes.n_classes), dtype=int)
    np.add.at(counts, (votes.row, votes.label), 1)
    return counts.argmax(axis=1)


def _scaled(values: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return held-out fitted values as log-chances, at the temperature that fits `label` best."""
    own = np.arange(len(label)), label
    logs = (log_softmax(values / temperature, axis=1) for temperature in TEMPERATURES)
    return max(logs, key=lambda chance: float(chance[own].mean()))


def _by_difficulty(votes: Votes, log_prior: np.ndarray) -> np.ndarray:
    """Return chances with matrices of their own for rows that look equally hard."""
    sure = log_prior.max(axis=1)
    group = np.searchsorted(np.quantile(sure, np.arange(1, BINS) / BINS), sure)
    chance = np.empty_like(log_prior, dtype=np.float64)
    for k in range(BINS):
        rows, mine = np.flatnonzero(group == k), group[votes.row] == k
        place = np.searchsorted(rows, votes.row[mine])
        part = Votes(place, votes.annotator[mine], votes.label[mine], len(rows), votes.n_classes)
        chance[rows] = dawid_skene(part, log_prior[rows]).chance
    return chance


def _crowdlab(y: np.ndarray, log_prior: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    labels = pd.DataFrame(np.where(y >= 0, y, np.nan))
    found = get_label_quality_multiannotator(labels, np.exp(log_prior), verbose=False)
    quality = found["label_quality"]
    doubt = 1 - quality["consensus_quality_score"].to_numpy()
    return _rates(doubt, quality["consensus_label"].to_numpy() != truth)


def _by_doubt(chance: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    return _rates(1 - chance.max(axis=1), chance.argmax(axis=1) != truth)


def _rates(doubt: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """Return what is kept where the mean doubt of the kept rows is at most each level."""
    order = np.argsort(doubt, kind="stable")
    n_kept = np.arange(1, len(doubt) + 1)
    mean = np.cumsum(doubt[order]) / n_kept
    at = {}
    for q in LEVELS:
        kept = order[: int(np.searchsorted(mean, q, side="right"))]
        at[f"{q:g}"] = [float(wrong[kept].mean()) if len(kept) else 0.0, len(kept) / len(doubt)]
    ranked = float(roc_auc_score(wrong, doubt))
    return {"wrong": float(wrong.mean()), "estimate": float(doubt.mean()), "auc": ranked, "at": at}


def _by_selection(selection: Selection, truth: np.ndarray) -> dict[str, Any]:
    wrong = selection.label != truth
    kept = {f"{q:g}": selection.at(q).clean_mask for q in LEVELS}
    at = {
        q: [float(wrong[mask].mean()) if mask.any() else 0.0, float(mask.mean())]
        for q, mask in kept.items()
    }
    estimate, ranked = float(selection.noise.rate), float(roc_auc_score(wrong, selection.doubt))
    return {"wrong": float(wrong.mean()), "estimate": estimate, "auc": ranked, "at": at}


def measure() -> None:
    stored = TRIALS.done("data", "noise", "seed")
    for case in CASES:
        for seed in range(either(case.seeds, 1)):
            if (case.data, case.noise, seed) not in stored:
                trial = measured(case, seed)
                TRIALS.add(trial)
                print(case.name, seed, trial["methods"]["AnnotatorSelector"], flush=True)


NAMES = {
    "one label": "one label",
    "majority": "majority",
    "labels alone": "Dawid and Skene",
    "with features": "Dawid and Skene, features",
    "with features, by difficulty": "the same, by difficulty",
    "CROWDLAB": "CROWDLAB",
    "AnnotatorSelector": "AnnotatorSelector",
}


def shown() -> dict[str, str]:
    trials, reads = TRIALS.trials(), ("one label", "all")
    found = {
        case.name: own
        for case in CASES
        if (own := [t for t in trials if (t["data"], t["noise"]) == (case.data, case.noise)])
    }
    noise, rates, checked = [], [], []
    for name, own in found.items():
        estimates = [_mean(own, lambda t, r=r: t["estimates"][r]) for r in reads]
        means = [_mean(own, lambda t: t["wrong"]), *estimates]
        worth = f"{_mean(own, lambda t: t['worth']):.2f}"
        noise.append([name, *(f"{mean:.3f}" for mean in means), worth])
        for method, title in NAMES.items():
            rates.append([name, title, *_cells([trial["methods"][method] for trial in own])])
        pairs = (_pair(own, lambda t, q=q: t["checked"][f"{q:g}"], q) for q in CHECKED_LEVELS)
        checked.append([name, *pairs])
    head = ["labels", "wrong", "estimated from one label", "from all", "evidence weight"]
    levels, few = ([f"q = {q:g}" for q in which] for which in (LEVELS, CHECKED_LEVELS))
    return {
        "noise": markdown_table(head, noise),
        "rates": markdown_table(["labels", "method", "wrong in all", "AUC", *levels], rates),
        "checked": markdown_table(["labels", *few], checked),
    }


def _mean(trials: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> float:
    return float(np.mean([read(trial) for trial in trials]))


def _cells(results: list[dict[str, Any]]) -> list[str]:
    """Return the cells of one method: wrong in all, AUC, and what each level gives."""
    return [
        *(f"{_mean(results, lambda r, v=v: r[v]):.3f}" for v in ("wrong", "auc")),
        *(_pair(results, lambda r, q=q: r["at"][f"{q:g}"], q) for q in LEVELS),
    ]


def _pair(trials: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any], q: float) -> str:
    fsr, kept = np.mean([read(trial)[:2] for trial in trials], axis=0)
    mark = "**" if round(fsr, 3) > q else ""
    return f"{mark}{fsr:.3f}{mark} / {kept:.3f}"


BENCH = Bench("make crowd", "several-labels.md", (TRIALS,), shown, lambda _: measure())

if __name__ == "__main__":
    BENCH.run(__doc__)
