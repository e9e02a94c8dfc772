"""Ours and theirs for `fsr.py`: from a sample to what is kept, at every level or at one."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import NearestNeighbors

from _fsr_data import Sample
from kspr import KnockoffsSPR

__all__ = ["LEVELS", "METHODS", "Answer", "Bench", "Shared"]

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)
NEIGHBOURS = 20


@dataclass(frozen=True)
class Answer:
    """What is kept at each level; peers, which have no level, keep what they keep."""

    keep: dict[str, np.ndarray]
    seconds: float
    noise_rate: float | None = None


class Shared:
    """What several peers need of one sample, made once, with the time it took."""

    def __init__(self, sample: Sample, neighbours: tuple[np.ndarray, float] | None) -> None:
        self.sample = sample
        self._neighbours = neighbours
        self._probabilities: tuple[np.ndarray, float] | None = None

    def neighbours(self) -> tuple[np.ndarray, float]:
        """Return each row's nearest rows; they do not depend on labels."""
        if self._neighbours is None:
            start = time.perf_counter()
            k = min(NEIGHBOURS, len(self.sample.X) - 1)
            index = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(self.sample.X)
            found = index.kneighbors(self.sample.X, return_distance=False)[:, 1:]
            self._neighbours = found, time.perf_counter() - start
        return self._neighbours

    def probabilities(self) -> tuple[np.ndarray, float]:
        """Return class probabilities by five-fold cross-validated logistic regression."""
        if self._probabilities is None:
            start = time.perf_counter()
            model = LogisticRegression(max_iter=200)
            found = cross_val_predict(
                model, self.sample.X, self.sample.y, cv=5, method="predict_proba"
            )
            self._probabilities = found, time.perf_counter() - start
        return self._probabilities


Bench = Callable[[Shared, int], Answer]


def ours(n_checked: int = 0, **parameters: Any) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        sample = shared.sample
        trusted = None
        if n_checked:
            rows = np.random.default_rng([seed, 1]).choice(len(sample.y), n_checked, replace=False)
            trusted = rows, sample.y_true[rows]
        start = time.perf_counter()
        model = KnockoffsSPR(q=0.1, random_state=seed, progress=False, **parameters)
        selection = model.fit(sample.X, sample.y, trusted=trusted).selection_
        seconds = time.perf_counter() - start
        keep = {str(q): selection.at(q).clean_mask for q in LEVELS}
        rate = None if selection.noise is None else selection.noise.rate
        return Answer(keep, seconds, rate)

    return run


def cleanlab(filter_by: str) -> Bench:
    def run(shared: Shared, seed: int) -> Answer:
        del seed
        from cleanlab.filter import find_label_issues

        probabilities, before = shared.probabilities()
        start = time.perf_counter()
        issues = find_label_issues(shared.sample.y, probabilities, filter_by=filter_by, n_jobs=1)
        return Answer({"own": ~issues}, before + time.perf_counter() - start)

    return run


def nearest(shared: Shared, seed: int) -> Answer:
    """Keep a label that is the most frequent one among the nearest rows."""
    del seed
    index, before = shared.neighbours()
    start = time.perf_counter()
    y = shared.sample.y
    codes = np.unique(y, return_inverse=True)[1]
    around = codes[index]
    votes = np.stack([(around == k).sum(1) for k in range(codes.max() + 1)], axis=1)
    keep = votes[np.arange(len(y)), codes] == votes.max(1)
    return Answer({"own": keep}, before + time.perf_counter() - start)


METHODS: dict[str, Bench] = {
    "transition": ours(),
    "transition, pooled": ours(cut="pooled"),
    "transition, 500 checked": ours(n_checked=500),
    "exchangeable": ours(control="exchangeable"),
    "exchangeable, no floor": ours(control="exchangeable", remove_floor=True),
    "paper": ours(control="paper"),
    "theorem": ours(control="theorem"),
    "cleanlab prune_by_noise_rate": cleanlab("prune_by_noise_rate"),
    "cleanlab prune_by_class": cleanlab("prune_by_class"),
    "cleanlab both": cleanlab("both"),
    "cleanlab confident_learning": cleanlab("confident_learning"),
    "nearest neighbours": nearest,
}
