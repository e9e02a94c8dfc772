"""Measure selection by the probabilities of a user's own model, beside cleanlab's filters.

    python benchmarks/probabilities.py            # measure what is missing, then docs/own-model.md

A trial is one data set with one noise and one model, whose cross-validated probabilities all
methods get. It is a line of benchmarks/results/probabilities.jsonl; a run that was interrupted
continues with the missing ones.
"""

import os
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from _common import SHARED, SMOKE, WORK, Bench, Store, either, markdown_table
from _data import Case, Sample, checked_rates, cifar10, confused_texts, human_labels
from kspr import ProbabilitySelector
from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.peers import PEERS, ByProbabilities, Peer
from kspr.noise import asymmetric_cifar10, circular, symmetric

TRIALS = Store("probabilities")
PREDICTED = WORK / "probabilities"
"""Probabilities of the models, kept between runs."""
ROWS, LEVELS, CHECKS, DRAWS = 10_000, (0.05, 0.1), 100, either(200, 2)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)

METHODS: dict[str, Peer] = {
    **{f"kspr, q = {q:g}": ByProbabilities({"q": q}) for q in LEVELS},
    "kspr, f1": ByProbabilities({"level": "f1"}),
    **{name: peer for name, peer in PEERS.items() if name.startswith("cleanlab")},
}
MODELS: dict[str, Callable[[], ClassifierMixin]] = {
    "logistic regression": lambda: LogisticRegression(max_iter=300),
    "20 neighbours": lambda: KNeighborsClassifier(20),
    "network of 128 units": lambda: MLPClassifier((128,), max_iter=30, random_state=0),
    "random forest": lambda: RandomForestClassifier(100, random_state=0),
}
if SMOKE:
    MODELS = {name: make for name, make in MODELS.items() if "neighbours" in name}
TEXT_MODELS = tuple(MODELS)[:3]
"""A forest of 77 classes takes minutes and says the same."""
PUBLISHED = "CIFAR-10, published"
NETWORKS = ("efficientnet_b1", "resnet18", "resnet50d", "swin", "twins")
"""Networks whose cross-validated probabilities others have published, on all 50,000 rows."""


def models_of(case: Case) -> tuple[str, ...]:
    """Return the models whose probabilities a case has."""
    if case.data == PUBLISHED:
        return NETWORKS[: either(len(NETWORKS), 1)]
    return TEXT_MODELS if case.data == "banking77" else tuple(MODELS)


@cache
def texts() -> tuple[np.ndarray, np.ndarray]:
    with np.load(SHARED / "text" / "banking77.npz") as stored:
        X, y = stored["X"].astype(np.float32), np.unique(stored["y"], return_inverse=True)[1]
    return X, y


def _cifar(noise: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:
        data = cifar10()
        y = data.y[:ROWS]
        return Sample(data.X[:ROWS, :128], noise(y, seed), y)

    return make


def _human(column: str) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:  # noqa: ARG001 - there is one set of answers
        y, truth = human_labels(column)
        return Sample(cifar10().X[:ROWS, :128], y[:ROWS], truth[:ROWS])

    return make


def _texts(seed: int) -> Sample:
    X, y = texts()
    return Sample(X, symmetric(y, 0.2, seed), y)


def _digits(noise: Callable[[np.ndarray, int], np.ndarray]) -> Callable[[int], Sample]:
    def make(seed: int) -> Sample:
        X, y = load_digits(return_X_y=True)
        return Sample((X / 16).astype(np.float32), noise(y, seed), y)

    return make


CASES = [
    Case("CIFAR-10", "Sym. 20 %", _cifar(lambda y, s: symmetric(y, 0.2, s)), group="class"),
    Case("CIFAR-10", "Sym. 40 %", _cifar(lambda y, s: symmetric(y, 0.4, s)), group="class"),
    Case("CIFAR-10", "Asy. 30 %", _cifar(lambda y, s: asymmetric_cifar10(y, 0.3, s)), 1, "class"),
    Case("banking77", "Sym. 20 %", _texts, group="class"),
    Case("digits", "Sym. 40 %", _digits(lambda y, s: symmetric(y, 0.4, s)), 3, "class"),
    Case("digits", "circular 30 %", _digits(lambda y, s: circular(y, 0.3, s)), 3, "class"),
    Case("CIFAR-10N", "aggre", _human("aggre"), group="people"),
    Case("CIFAR-10N", "random1", _human("random1"), group="people"),
    Case("banking77", "confused 20 %", lambda s: Sample(*confused_texts("banking77", 0.2, s)),
         group="people"),
    Case(PUBLISHED, "aggre", lambda _: None, group="people"),
    Case(PUBLISHED, "by class 20 %", lambda _: None, group="class"),
]  # fmt: skip


def published(noise: str, model: str) -> tuple[np.ndarray, Sample]:
    """Return probabilities of a published network, and the labels in its order of the rows."""
    name = "cifar10n-aggre" if noise == "aggre" else "cifar10-classdep20"
    with np.load(SHARED / "networks" / f"{name}.npz") as stored:
        P = np.exp(stored[model].astype(np.float64))
        y, truth = (stored[f"{model}_{part}"].astype(int) for part in ("given", "true"))
    return P / P.sum(axis=1, keepdims=True), Sample(P, y, truth)


def predicted(case: Case, model: str, seed: int, sample: Sample) -> tuple[np.ndarray, float]:
    """Return cross-validated probabilities, and the seconds that they took; kept between runs."""
    slug = "-".join("".join(c if c.isalnum() else " " for c in f"{case.name} {model}").split())
    file = PREDICTED / f"{slug}-{seed}.npz"
    if not file.exists():
        X = sample.X
        X = X if X.shape[1] <= 128 else PCA(128, random_state=0).fit_transform(X)
        start = time.perf_counter()
        P = cross_val_predict(
            MODELS[model](), X / X.std(), sample.y, cv=FOLDS, method="predict_proba"
        )
        PREDICTED.mkdir(parents=True, exist_ok=True)
        np.savez(file, P=P, seconds=time.perf_counter() - start)
    with np.load(file) as stored:
        return stored["P"], float(stored["seconds"])


def measured(case: Case, model: str, seed: int) -> dict[str, Any]:
    """Return what every method makes of one model's probabilities."""
    if case.data == PUBLISHED:
        (P, sample), seconds = published(case.noise, model), 0.0
    else:
        sample = case.make(seed)
        P, seconds = predicted(case, model, seed, sample)
    found = compare(None, sample.y, sample.y_true, METHODS, probabilities=P, progress=False)
    selection = ProbabilitySelector().fit(P, sample.y).selection_
    return {
        "data": case.data,
        "noise": case.noise,
        "group": case.group,
        "model": model,
        "seed": seed,
        "wrong": found.wrong,
        "accuracy": float(np.mean(P.argmax(axis=1) == sample.y_true)),
        "cross_validation_seconds": round(seconds, 2),
        "methods": {
            t.method: {
                name: getattr(t, name) for name in ("n_kept", "fsr", "recall", "f1", "noise_rate")
            }
            for t in found.trials
        },
        "seconds": found["kspr, q = 0.05"].seconds,
        "checked": {
            f"{q:g}": checked_rates(selection, sample.y_true, q, CHECKS, DRAWS)[::2] for q in LEVELS
        },
    }


def measure() -> None:
    # A network of 30 epochs says that it has not converged.
    warnings.filterwarnings("ignore")
    stored = TRIALS.done("data", "noise", "model", "seed")
    for case in CASES:
        for model in models_of(case):
            for seed in range(either(case.seeds, 1)):
                if (case.data, case.noise, model, seed) not in stored:
                    trial = measured(case, model, seed)
                    TRIALS.add(trial)
                    print(case.name, model, seed, trial["methods"]["kspr, q = 0.05"], flush=True)


def shown() -> dict[str, str]:
    trials = TRIALS.trials()
    means = [_mean(case, model, trials) for case in CASES for model in models_of(case)]
    found = [mean for mean in means if mean]
    by_class, people = ([mean for mean in found if mean["group"] == g] for g in ("class", "people"))
    return {
        "class": _rates(by_class, checked=False),
        "F1": _scores(found),
        "people": _rates(people, checked=True),
    }


def _mean(case: Case, model: str, trials: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over the seeds of one case and model; empty without any."""
    own = [
        t for t in trials if (t["data"], t["noise"], t["model"]) == (case.data, case.noise, model)
    ]
    if not own:
        return {}

    def mean(read: Callable[[dict[str, Any]], float]) -> float:
        return float(np.mean([read(trial) for trial in own]))

    named = {m: own[0]["methods"][m] for m in METHODS}
    return {
        "case": [case.name, model, f"{mean(lambda t: t['accuracy']):.3f}"],
        "group": case.group,
        "wrong": mean(lambda t: t["wrong"]),
        "estimate": mean(lambda t: t["methods"]["kspr, q = 0.05"]["noise_rate"]),
        "f1": {m: mean(lambda t, m=m: t["methods"][m]["f1"]) for m in named},
        "rate": {
            m: [mean(lambda t, m=m, v=v: t["methods"][m][v]) for v in ("fsr", "recall")]
            for m in named
        },
        "checked": {
            q: [mean(lambda t, q=q, i=i: t["checked"][q][i]) for i in (0, 1)]
            for q in (f"{level:g}" for level in LEVELS)
        },
    }


def _rates(means: list[dict[str, Any]], *, checked: bool) -> str:
    head = ["data, noise", "model", "accuracy", "wrong, estimated"]
    head += [f"q = {q:g}" for q in LEVELS]
    head += [f"q = {q:g}, {CHECKS} checks" for q in LEVELS] if checked else ["cleanlab's default"]
    rows = []
    for mean in means:
        cells = [_pair(mean["rate"][f"kspr, q = {q:g}"], q) for q in LEVELS]
        if checked:
            cells += [_pair(mean["checked"][f"{q:g}"], q) for q in LEVELS]
        else:
            cells.append(_pair(mean["rate"]["cleanlab-noise-rate"], 1.0))
        rows.append([*mean["case"], f"{mean['wrong']:.3f}, {mean['estimate']:.3f}", *cells])
    return markdown_table(head, rows)


def _scores(means: list[dict[str, Any]]) -> str:
    names = list(METHODS)
    rows = []
    for mean in means:
        top = f"{max(mean['f1'].values()):.3f}"
        shown = [f"{mean['f1'][name]:.3f}" for name in names]
        cells = [f"**{text}**" if text == top else text for text in shown]
        rows.append([*mean["case"][:2], *cells])
    filters = [name for name in names if name.startswith("cleanlab")]
    ahead = sum(m["f1"]["kspr, f1"] > max(m["f1"][name] for name in filters) for m in means)
    said = f'`level="f1"` has a higher F1 than every filter in {ahead} of {len(means)} rows.'
    return f"{markdown_table(['data, noise', 'model', *names], rows)}\n\n{said}"


def _pair(values: list[float], q: float) -> str:
    mark = "**" if round(values[0], 3) > q else ""
    return f"{mark}{values[0]:.3f}{mark} / {values[1]:.3f}"


BENCH = Bench("make own-model", "own-model.md", (TRIALS,), shown, lambda _: measure())

if __name__ == "__main__":
    BENCH.run(__doc__)
