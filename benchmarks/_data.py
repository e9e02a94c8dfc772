"""Data of the benchmarks: CIFAR-10 features, labels that people gave, confused texts."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_predict

from _common import SHARED, SMOKE
from kspr import Selection, selection_quality

if TYPE_CHECKING:
    from kspr.train import Trained

__all__ = [
    "FEATURES",
    "Case",
    "Cifar10",
    "Sample",
    "checked_rates",
    "cifar10",
    "confused_texts",
    "human_labels",
    "memorised",
    "ordered_classes",
    "similar_texts",
]

FEATURES = SHARED / "cifar10" / "features.npz"


class Cifar10(NamedTuple):
    """Features and true labels of CIFAR-10."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Sample:
    """Features, given labels, true labels, and rows to test on where a benchmark needs them."""

    X: np.ndarray
    y: np.ndarray
    y_true: np.ndarray
    test: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Case:
    """A data set with one kind of noise; `make` returns it for a seed."""

    data: str
    noise: str
    make: Callable[[int], Sample]
    seeds: int = 1
    group: str = ""
    """The table of the page that shows it."""

    @property
    def name(self) -> str:
        """Data and noise in one text."""
        return f"{self.data}, {self.noise}"


@cache
def cifar10() -> Cifar10:
    """Return 512 principal components of EfficientNet-Lite0 features, as float32."""
    with np.load(FEATURES) as stored:
        return Cifar10(
            stored["X_train"].astype(np.float32),
            stored["y_train"].astype(np.int64),
            stored["X_test"].astype(np.float32),
            stored["y_test"].astype(np.int64),
        )


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
    score = cross_val_predict(RidgeClassifier(), X, y, cv=5, method="decision_function")
    return X, confused(score, y, rate, seed), y


def confused(score: np.ndarray, y: np.ndarray, rate: float, seed: int) -> np.ndarray:
    """Return labels of which the share `rate` is confused, as the scores of all classes say."""
    score, own = score.copy(), (np.arange(len(y)), y)
    right = score[own].copy()
    score[own] = -np.inf
    hardness = np.argsort(np.argsort(right - score.max(axis=1))) / len(y)
    # Rows with the largest log weight plus Gumbel noise are a weighted draw without replacement.
    key = np.random.default_rng([seed, 3]).gumbel(size=len(y)) - hardness
    rows = np.argsort(-key)[: round(rate * len(y))]
    noisy = y.copy()
    noisy[rows] = score.argmax(axis=1)[rows]
    return noisy


def similar_texts(name: str, rate: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels of which the share `rate` went to a similar class, the true labels.

    Whatever the text says, a wrong label is the class with the nearest mean of features.
    """
    with np.load(SHARED / "text" / f"{name}.npz") as stored:
        X, y = stored["X"].astype(np.float32), np.unique(stored["y"], return_inverse=True)[1]
    mean = np.stack([X[y == k].mean(axis=0) for k in range(y.max() + 1)])
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    likeness = mean @ mean.T
    np.fill_diagonal(likeness, -np.inf)
    wrong = np.random.default_rng([seed, 4]).random(len(y)) < rate
    return X, np.where(wrong, likeness.argmax(axis=1)[y], y), y


def ordered_classes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return 8,000 rows of a table with three ordered classes that overlap, .60 / .35 / .05.

    13 % of the labels are wrong, by their class only. The class in the middle never has the largest
    value of a linear fit.
    """
    rng = np.random.default_rng([seed, 5])
    place = rng.standard_normal(8000)
    seen = place + 0.2 * rng.standard_normal(8000)
    y = np.searchsorted(np.quantile(seen, [0.60, 0.95]), seen)
    X = rng.standard_normal((8000, 12)).astype(np.float32)
    X[:, 0], X[:, 1] = place, 0.5 * place + 0.5 * X[:, 1]
    noise = np.array([[0.88, 0.10, 0.02], [0.10, 0.86, 0.04], [0.05, 0.12, 0.83]])
    return X, (rng.random((8000, 1)) > noise[y].cumsum(axis=1)).sum(axis=1), y


def checked_rates(
    selection: Selection, truth: np.ndarray, q: float, checks: int, draws: int
) -> list[float]:
    """Return the mean FSR, share kept and recall once a person has checked rows, over draws."""
    right, found = selection.label == truth, []
    for seed in range(draws):
        rows = selection.draw_checks(checks, q=q, seed=seed)
        kept = selection.with_checks(rows, truth[rows], q=q, seed=seed).clean_mask
        quality = selection_quality(kept, right)
        found.append((quality.fsr, kept.mean(), quality.recall))
    return [float(value) for value in np.mean(found, axis=0)]


def memorised(trained: "Trained", X: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float | None:
    """Return the share of wrong labels that the network predicts; None without wrong labels."""
    wrong = y != truth
    if not wrong.any():
        return None
    return float((trained.predict(X[wrong]) == y[wrong]).mean())


def _write_small(n: int = 1000, p: int = 24) -> None:
    """Write small data with the names and columns of the shared data, for smoke runs."""
    from PIL import Image

    rng, data = np.random.default_rng(0), {}
    centre = 1.2 * rng.standard_normal((10, p))
    for part, size in (("train", n), ("test", 100)):
        y = np.arange(size) % 10
        data[f"X_{part}"] = (centre[y] + rng.standard_normal((size, p))).astype(np.float16)
        data[f"y_{part}"] = y.astype(np.uint8)
        pictures = []
        for k in y:
            file, pixels = io.BytesIO(), rng.integers(0, 60, (32, 32, 3))
            pixels[3 * k : 3 * k + 3] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(file, "PNG")
            pictures.append({"bytes": file.getvalue(), "path": f"{len(pictures)}.png"})
        (SHARED / "cifar10").mkdir(parents=True, exist_ok=True)
        table = pa.table({"img": pa.array(pictures), "label": y})
        pq.write_table(table, SHARED / "cifar10" / f"{part}.parquet")
    truth = data["y_train"].astype(np.int64)
    labels = {"true_label": truth}
    for name in ("aggre", "random1", "random2", "random3"):
        labels[name] = np.where(rng.random(n) < 0.15, rng.integers(0, 10, n), truth)
    (SHARED / "cifar10n").mkdir()
    pq.write_table(pa.table(labels), SHARED / "cifar10n" / "labels.parquet")
    (SHARED / "text").mkdir()
    names = np.array([f"topic-{k}" for k in range(10)])[truth]
    for name in ("banking77", "clinc150"):
        np.savez(SHARED / "text" / f"{name}.npz", X=data["X_train"], y=names)
        texts = [f"a question about {topic}, number {k}" for k, topic in enumerate(names)]
        pq.write_table(
            pa.table({"text": texts, "label": names}), SHARED / "text" / f"{name}.parquet"
        )
    (SHARED / "llm").mkdir()
    for name, column in (("stance", "text"), ("misinfo", "headline")):
        texts = [f"{k} words about {'fire' if wrong else 'water'}" for k, wrong in enumerate(y > 5)]
        shown = {column: texts, "Y": y > 5, "Yhat (GPT4o)": y > 4, "confidence": rng.random(len(y))}
        csv.write_csv(pa.table(shown), SHARED / "llm" / f"{name}.csv")
    (SHARED / "networks").mkdir()
    sure = np.log(rng.dirichlet(np.ones(10), n) * 0.3 + 0.7 * np.eye(10)[truth] + 1e-6)
    for name in ("cifar10n-aggre", "cifar10-classdep20"):
        parts = {"": sure.astype(np.float16), "_given": labels["random1"], "_true": truth}
        data_of = {f"efficientnet_b1{part}": values for part, values in parts.items()}
        np.savez(SHARED / "networks" / f"{name}.npz", **data_of)
    # Last: its presence says that all others are there.
    np.savez(FEATURES, **data)


if SMOKE and not FEATURES.exists():
    _write_small()
