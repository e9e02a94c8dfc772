"""Selections whose answers are held: every control, cut, level and kind of input, on small data.

A case is a function without parameters that returns named arrays and texts. It draws its data by
itself, so that a change of the library's noise or samples does not change what is asked here.
"""

import tempfile
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from tests.golden import adapter
from tests.golden.adapter import QUIET, SPR, AnnotatorSelector, KnockoffsSPR, ProbabilitySelector

__all__ = ["CASES", "Answer"]

Answer = dict[str, Any]
"""Arrays, and texts, by name."""
CASES: dict[str, Callable[[], Answer]] = {}

_TABLE = ("piece", "half", "class_code", "n", "n_kept", "status")
_RATES = ("q_asked", "q_reached", "estimated_fsr", "smallest_q", "cutoff")


def case(function: Callable[[], Answer]) -> Callable[[], Answer]:
    """Add a case by the name of its function."""
    CASES[function.__name__] = function
    return function


# Data --------------------------------------------------------------------------------------------


def flipped(y: np.ndarray, rate: float, seed: int = 1) -> np.ndarray:
    """Return labels of which a share is any other class."""
    rng, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    rows = rng.random(len(y)) < rate
    return np.where(rows, (y + rng.integers(1, n_classes, len(y))) % n_classes, y)


@cache
def digits(rate: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, given labels and true labels."""
    X, truth = load_digits(return_X_y=True)
    return X.astype(np.float32), flipped(truth, rate), truth


@cache
def clouds(n: int, p: int, c: int, spread: float, rate: float) -> tuple[np.ndarray, ...]:
    """Return features around the centres of classes, given labels and true labels."""
    rng = np.random.default_rng(n + c)
    truth = np.arange(n) % c
    X = rng.standard_normal((c, p))[truth] + spread * rng.standard_normal((n, p))
    return X.astype(np.float32), flipped(truth, rate), truth


@cache
def held_out() -> np.ndarray:
    """Return class probabilities of the digits, by the class means of the other half."""
    X, y, _ = digits()
    odd, shown = np.arange(len(y)) % 2 == 1, np.empty((len(y), 10))
    for half in (odd, ~odd):
        means = np.stack([X[~half & (y == k)].mean(axis=0) for k in range(10)])
        distance = ((X[half, None].astype(float) - means) ** 2).sum(axis=2) / 100
        chance = np.exp(distance.min(axis=1, keepdims=True) - distance)
        shown[half] = chance / chance.sum(axis=1, keepdims=True)
    return shown


# What is held of a selection ----------------------------------------------------------------------


def answers(selection: Any) -> Answer:
    """Return all columns and numbers of a selection."""
    groups, noise = selection.cut_groups, selection.noise
    found: Answer = {
        "clean_mask": np.asarray(selection.clean_mask),
        "doubt": np.asarray(selection.doubt),
        "selection_time": np.asarray(selection.selection_time),
        "suggested_label": np.asarray(selection.suggested_label),
        "label": np.asarray(selection.label),
        "suspects": np.asarray(selection.suspect_indices),
        "suspicion": np.asarray(selection.suspicion),
        "cut_group": np.asarray(selection.cut_group),
        "summary": str(selection.summary()),
        "headline": repr(selection),
    }
    optional = {
        "q_value": selection.q_value,
        "knockoff_label": selection.knockoff_label,
        "suggestion_probability": selection.suggestion_probability,
        "duplicate_set": selection.duplicate_set,
    }
    found.update({name: np.asarray(v) for name, v in optional.items() if v is not None})
    for name in (*_TABLE, *_RATES):
        found[f"groups.{name}"] = np.asarray(getattr(groups, name))
    # Labels that were read from a file are objects; arrays are stored without pickle.
    found.update(
        {
            n: v.astype(str)
            for n, v in found.items()
            if getattr(v, "dtype", np.dtype(int)).kind == "O"
        }
    )
    if noise is not None:
        found["noise.rate"] = np.array([noise.rate, *noise.rate_interval])
        for name in ("transition", "low", "high", "anchors"):
            found[f"noise.{name}"] = np.asarray(getattr(noise, name))
    return found


def fitted(selector: Any, X: Any, y: Any, **choices: Any) -> Answer:
    return answers(selector.fit(X, y, **choices).selection_)


def default(**choices: Any) -> Any:
    return KnockoffsSPR(**QUIET, **choices)


# Cases -------------------------------------------------------------------------------------------


@case
def default_digits() -> Answer:
    X, y, _ = digits()
    selection = default().fit(X, y).selection_
    found = answers(selection)
    for q in (0.01, 0.05, 0.2):
        found[f"at.{q}"] = np.asarray(selection.at(q).clean_mask)
    curve, piles = selection.curve(), selection.relabel()
    found["curve.share_kept"] = np.asarray(curve.share_kept)
    found["relabelled"] = np.asarray(piles.label)
    found["ends"] = np.array([selection.ends().by_class, selection.ends().by_people])
    found["forecast"] = np.array([selection.forecast(n) for n in (20, 100, 400)])
    found["checks_needed"] = np.array(selection.checks_needed() or -1)
    return found


@case
def default_heavy_noise() -> Answer:
    X, y, _ = digits(0.6)
    return fitted(default(q=0.1), X, y)


@case
def exchangeable() -> Answer:
    X, y, _ = digits()
    return fitted(default(control="exchangeable", q=0.1), X, y)


@case
def control_paper() -> Answer:
    X, y, _ = digits()
    return fitted(adapter.comparing("paper", q=0.1), X, y)


@case
def control_theorem() -> Answer:
    X, y, _ = digits()
    return fitted(adapter.comparing("theorem", q=0.2), X, y)


@case
def level_smallest() -> Answer:
    X, y, _ = digits(0.6)
    return fitted(adapter.comparing("paper", q=0.02, cut="per_class", level="smallest"), X, y)


@case
def paper_in_pieces() -> Answer:
    X, y, _ = digits()
    return fitted(adapter.paper(), X, y)


@case
def paper_in_small_pieces() -> Answer:
    X, y, _ = clouds(1200, 20, 24, 0.8, 0.2)
    return fitted(adapter.paper(classes_per_group=8, samples_per_class=25, random_state=3), X, y)


@case
def paper_lasso_random_knockoffs() -> Answer:
    X, y, _ = digits()
    choices = {"penalty": "lasso", "knockoff": "random", "statistic": "symmetric_max"}
    return fitted(adapter.paper(**choices), X, y)


@case
def per_class() -> Answer:
    X, y, _ = digits()
    return fitted(default(cut="per_class"), X, y)


@case
def level_f1() -> Answer:
    X, y, _ = digits()
    return fitted(default(level="f1"), X, y)


@case
def checked_mean() -> Answer:
    X, y, truth = digits()
    rows = np.random.default_rng(5).choice(len(y), 150, replace=False)
    selection = default(q=0.1).fit(X, y, checked=(rows, truth[rows])).selection_
    estimates = selection.estimates()
    numbers = (estimates.noise_rate, estimates.recall, estimates.fsr)
    ends = [[number.value, number.low, number.high] for number in numbers]
    return {**answers(selection), "estimates": np.array(ends), "estimates_text": str(estimates)}


@case
def checked_confidence() -> Answer:
    X, y, truth = digits()
    rows = np.random.default_rng(6).choice(len(y), 300, replace=False)
    return answers(adapter.checked_by(X, y, rows, truth[rows], "confidence", 0.1))


@case
def checked_mask() -> Answer:
    X, y, truth = digits()
    known = (y == truth) & (np.arange(len(y)) % 7 == 0)
    return fitted(default(), X, y, checked=known)


@case
def with_checks_of_a_draw() -> Answer:
    X, y, truth = digits()
    selection = default().fit(X, y).selection_
    rows = selection.draw_checks(120, seed=4)
    checked = selection.with_checks(rows, truth[rows], seed=4)
    anytime = selection.with_checks(rows, truth[rows], seed=4, guarantee="anytime")
    return {
        **answers(checked),
        "drawn": rows,
        "drawn_at_0.2": selection.draw_checks(30, q=0.2),
        "anytime.clean_mask": np.asarray(anytime.clean_mask),
        "anytime.assumption": str(anytime.assumption),
    }


@case
def sparse() -> Answer:
    X, y, _ = digits()
    return fitted(default(), csr_matrix(X), y)


@case
def groups() -> Answer:
    X, y, _ = digits()
    return fitted(default(), X, y, groups=np.arange(len(y)) // 3)


@case
def duplicates() -> Answer:
    X, y, _ = digits()
    rows = np.concatenate([np.arange(1200), np.arange(0, 300, 2), np.arange(0, 300, 4)])
    labels = y[rows].copy()
    # Some copies contradict each other.
    labels[1200:1240] = (labels[1200:1240] + 1) % 10
    return fitted(default(), X[rows], labels)


@case
def duplicates_ignored() -> Answer:
    X, y, _ = digits()
    rows = np.concatenate([np.arange(1200), np.arange(0, 300, 2)])
    return fitted(default(duplicates="ignore"), X[rows], y[rows])


@case
def many_classes() -> Answer:
    X, y, _ = clouds(4500, 40, 150, 0.5, 0.2)
    return fitted(default(), X, y)


@case
def very_many_classes() -> Answer:
    X, y, _ = clouds(8800, 24, 1100, 0.3, 0.1)
    return fitted(default(q=0.2), X, y)


@case
def several_blocks() -> Answer:
    X, y, _ = clouds(150_000, 8, 3, 0.8, 0.2)
    # Sorted labels: a part of the rows is no sample of them.
    rows = np.argsort(y, kind="stable")
    found = fitted(default(fit_rows=4_000), X[rows], y[rows])
    # Every tenth row is held, so that the answers stay small.
    return {
        name: value[::10] if np.shape(value)[:1] == (len(y),) else value
        for name, value in found.items()
        if name not in ("suspects", "suspicion")
    }


@case
def two_classes() -> Answer:
    X, y, _ = clouds(400, 10, 2, 1.5, 0.2)
    return fitted(default(q=0.1), X, y)


@case
def fit_rows() -> Answer:
    X, y, _ = digits()
    return fitted(default(fit_rows=600, random_state=2), X, y)


@case
def splits() -> Answer:
    X, y, _ = digits()
    return fitted(default(n_splits=3), X, y)


@case
def neighbours() -> Answer:
    X, y, _ = digits()
    return fitted(default(neighbours=20), X, y)


@case
def reduction_number() -> Answer:
    X, y, _ = digits()
    return fitted(default(reduction=16), X, y)


@case
def reduction_fitted() -> Answer:
    X, y, _ = digits()
    return fitted(default(reduction=PCA(20, svd_solver="full").fit(X)), X, y)


@case
def wide_features() -> Answer:
    X, y, _ = clouds(900, 200, 6, 4.0, 0.3)
    return fitted(default(q=0.1), X, y)


@case
def spr() -> Answer:
    X, y, _ = digits()
    return fitted(SPR(**QUIET), X, y)


@case
def probabilities() -> Answer:
    return fitted(ProbabilitySelector(), held_out(), digits()[1])


@case
def probabilities_exchangeable() -> Answer:
    selector = ProbabilitySelector(q=0.1, control="exchangeable", cut="per_class")
    return fitted(selector, held_out(), digits()[1])


@case
def annotators() -> Answer:
    X, _, truth = digits()
    votes = np.column_stack([flipped(truth, r, k) for k, r in enumerate((0.4, 0.5, 0.6))])
    votes[::3, 2] = -1
    model = AnnotatorSelector(q=0.05, **QUIET).fit(X, votes)
    quality = model.annotators_
    found = answers(model.selection_)
    found["accuracy"] = np.stack([quality.accuracy, quality.low, quality.high])
    found["quality"] = repr(quality)
    found["probabilities"] = np.asarray(model.probabilities_)
    found["worth"] = np.array(model.evidence_weight_)
    return found


@case
def string_labels() -> Answer:
    X, y, _ = digits()
    names = np.array([f"digit {9 - k}" for k in range(10)])
    return fitted(default(), X, names[y])


@case
def saved_and_loaded() -> Answer:
    X, y, truth = digits()
    selection = default().fit(X, y).selection_
    rows = selection.draw_checks(50)
    with tempfile.TemporaryDirectory() as folder:
        checked = selection.with_checks(rows, truth[rows])
        checked.save(Path(folder) / "checked")
        selection.save(Path(folder) / "plain")
        loaded = adapter.Selection.load(Path(folder) / "checked")
        plain = adapter.Selection.load(Path(folder) / "plain")
    return {**answers(loaded), "plain.clean_mask": np.asarray(plain.clean_mask)}


@case
def frame() -> Answer:
    X, y, _ = digits()
    table = default().fit(X[:600], y[:600]).selection_.to_frame()
    numbers = table.select_dtypes(["number", "bool"])
    # Names of columns may change; their values are held above.
    return {"shape": np.array([len(table)]), "sums": numbers[["clean", "q_value"]].sum().to_numpy()}


# Files and machines ------------------------------------------------------------------------------


def written(kind: str, folder: Path, n_parts: int = 4) -> tuple[Any, list[Any]]:
    """Write the digits in one form, and return the source and the options that read it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y, _ = digits()
    names = np.array([f"digit-{k}" for k in range(10)])[y]
    if kind == "npy":
        np.save(folder / "X.npy", X)
        (folder / "y.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        return folder / "X.npy", ["--labels", folder / "y.txt"]
    columns = {f"emb_{k}": X[:, k] for k in range(X.shape[1])}
    table = pa.table({"species": names, **columns})
    options = ["--label", "species", "--features", "emb_*"]
    if kind == "parquet":
        pq.write_table(table, folder / "digits.parquet")
        return folder / "digits.parquet", options
    edges = np.linspace(0, len(y), n_parts + 1).astype(int)
    for k, (a, b) in enumerate(pairwise(edges)):
        pq.write_table(table.slice(a, b - a), folder / f"part-{k}.parquet")
    return folder / "part-*.parquet", options


def selected(kind: str, *options: object) -> Answer:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, how = written(kind, folder)
        adapter.command("select", source, *how, *options, "--json", "--out", folder / "run")
        return answers(adapter.Selection.load(folder / "run"))


@case
def from_parquet() -> Answer:
    return selected("parquet")


@case
def from_npy() -> Answer:
    return selected("npy")


@case
def from_parts() -> Answer:
    return selected("parts")


@case
def from_parts_fit_rows() -> Answer:
    return selected("parts", "--fit-rows", 500)


def on_dask(collection: Callable[[Any, Any], tuple[Any, Any]], **choices: Any) -> Answer:
    from distributed import Client, LocalCluster

    X, y, _ = digits()
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with LocalCluster(**options, dashboard_address=None) as cluster, Client(cluster) as client:
        return answers(adapter.fit_on_dask(client, *collection(X, y), **choices))


def _arrays(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    import dask.array as da

    return da.from_array(X, chunks=(500, -1)), da.from_array(y, chunks=500)


def _frames(X: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    import dask.dataframe as dd
    import pandas as pd

    names = [f"x{k}" for k in range(X.shape[1])]
    table = dd.from_pandas(pd.DataFrame(X, columns=names).assign(y=y), npartitions=3)
    return table[names], table["y"]


@case
def dask_array() -> Answer:
    return on_dask(_arrays)


@case
def dask_array_fit_rows() -> Answer:
    return on_dask(_arrays, fit_rows=600, random_state=2)


@case
def dask_data_frame() -> Answer:
    return on_dask(_frames)
