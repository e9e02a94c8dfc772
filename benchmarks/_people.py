"""Labels with the errors of people: CIFAR-10N, and texts whose hard cases are confused."""

from functools import cache

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_predict

from _common import SHARED

__all__ = ["confused_texts", "human_labels"]


@cache
def human_labels(column: str) -> tuple[np.ndarray, np.ndarray]:
    """Return labels that people gave to CIFAR-10's training images, and the true labels.

    `column` is ``aggre`` (the majority of three) or ``random1`` (the first answer).
    """
    table = pq.read_table(SHARED / "cifar10n" / "labels.parquet")
    return table[column].to_numpy().astype(int), table["true_label"].to_numpy().astype(int)


@cache
def confused_texts(name: str, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels of which the share `rate` is confused, and the true labels.

    A confused text gets the class with the highest score of a ridge fit on the other folds, the
    true class excepted. The chance to be confused falls by a factor of e from the hardest text to
    the easiest.
    """
    with np.load(SHARED / "text" / f"{name}.npz") as stored:
        X, y = stored["X"].astype(np.float32), np.unique(stored["y"], return_inverse=True)[1]
    own = np.arange(len(y)), y
    score = cross_val_predict(RidgeClassifier(), X, y, cv=5, method="decision_function")
    right = score[own].copy()
    score[own] = -np.inf
    hardness = np.argsort(np.argsort(right - score.max(axis=1))) / len(y)
    # Rows with the largest log weight plus Gumbel noise are a weighted draw without replacement.
    key = np.random.default_rng([seed, 3]).gumbel(size=len(y)) - hardness
    rows = np.argsort(-key)[: round(rate * len(y))]
    noisy = y.copy()
    noisy[rows] = score.argmax(axis=1)[rows]
    return X, noisy, y
