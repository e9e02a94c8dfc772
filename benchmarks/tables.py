"""Measure mixed tables: a linear fit, boosted trees, and cleanlab's filters by the same trees.

    python benchmarks/tables.py            # measure what is missing, then docs/how-to/tables.md

A trial is one table with one noise and one seed: a line of benchmarks/results/tables.jsonl. Tables
have numbers, dates, categories and gaps, and are read as `kspr select` reads them. Trees are those
of `--model hist-gradient-boosting`; cleanlab gets their held-out probabilities.
"""

import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from _common import Bench, Store, either, markdown_table
from _data import Case, Sample, confused
from kspr import held_out_probabilities
from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.peers import PEERS, ByProbabilities, Ours, Peer
from kspr.noise import symmetric
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

TRIALS = Store("tables")
ROWS, RATE, LEVELS, SEEDS = either(2_000, 300), 0.2, (0.05, 0.1), either(3, 1)
FILTERS = [name for name in PEERS if name.startswith("cleanlab")]
METHODS: dict[str, Peer] = {
    **{f"linear, q = {q:g}": Ours(parameters={"q": q}) for q in LEVELS},
    **{f"trees, q = {q:g}": ByProbabilities({"q": q}) for q in LEVELS},
    "linear, f1": Ours(parameters={"level": "f1"}),
    "trees, f1": ByProbabilities({"level": "f1"}),
    **{name: PEERS[name] for name in FILTERS},
}


def customers(seed: int, *, rules: bool) -> tuple[pa.Table, np.ndarray]:
    """Return a made table of customers and their segments, the smallest of 5 to 7 %.

    Segments follow `rules`, thresholds of several columns together, or else sums of all columns.
    """
    rng = np.random.default_rng([seed, 1])
    age, income, visits = (
        rng.normal(45, 15, ROWS),
        rng.lognormal(10, 0.5, ROWS),
        rng.poisson(6, ROWS),
    )
    plan = rng.integers(0, 3, ROWS)
    region = rng.integers(0, 8, ROWS)
    days = rng.integers(0, 1500, ROWS)
    if rules:
        often = (visits > 6) ^ (plan == 1)
        first = np.where(days > 700, (age > 45) ^ (region % 2 == 0), often & (income > 18_000))
        small = (income > 30_000) & (age > 40) & (plan != 2)
    else:
        score = (age - 45) / 15 + 1.5 * (plan - 1) + (region - 3.5) / 2 + (days - 750) / 400
        first = score > 0
        small = np.log(income) + 0.6 * (visits - 6) / 2.5 > 11.25
    y = np.where(small, 2, first.astype(int))

    def gaps(values: Any) -> pa.Array:
        return pa.array(values, mask=rng.random(ROWS) < 0.08)

    columns = {
        "id": [f"c{k}" for k in range(ROWS)],
        "age": gaps(age),
        "income": gaps(income),
        "visits": visits,
        "plan": gaps(np.array(["basic", "plus", "team"])[plan]),
        "region": gaps(np.array([f"region {k}" for k in range(8)])[region]),
        "since": (np.datetime64("2020-01-01") + days).astype("datetime64[s]"),
    }
    return pa.table(columns), y


def cells(seed: int) -> tuple[pa.Table, np.ndarray]:
    """Return the 569 rows of breast cancer: a tenth of the cells empty, one column in words."""
    rng, data = np.random.default_rng([seed, 2]), load_breast_cancer()
    words = np.array(["fine", "medium", "coarse"])
    texture = words[np.digitize(data.data[:, 1], np.quantile(data.data[:, 1], [0.33, 0.67]))]
    columns: dict[str, Any] = {"texture": texture}
    for name, column in zip(data.feature_names, data.data.T, strict=True):
        if "texture" not in name:
            columns[name] = pa.array(column, mask=rng.random(len(column)) < 0.1)
    return pa.table(columns), data.target


def _case(name: str, table: Callable[[int], tuple[pa.Table, np.ndarray]], noise: str) -> Case:
    def make(seed: int) -> Sample:
        columns, y = table(seed)
        y_true, given = y, symmetric(y, RATE, seed)
        X = open_source(
            columns.append_column("label", pa.array(y)), ReadOptions(label="label")
        ).features
        if noise == "confused":
            forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=seed)
            score = cross_val_predict(forest, X, y, cv=5, method="predict_proba")
            given = confused(score, y, RATE, seed)
        return Sample(X, given, y_true)

    return Case(name, noise, make, SEEDS)


CASES = [
    _case(name, table, noise)
    for name, table in (
        ("customers, rules", lambda seed: customers(seed, rules=True)),
        ("customers, sums", lambda seed: customers(seed, rules=False)),
        ("breast cancer", cells),
    )
    for noise in ("symmetric", "confused")
]


def measured(case: Case, seed: int) -> dict[str, Any]:
    """Return what every method keeps of one table."""
    sample = case.make(seed)
    P = held_out_probabilities("hist-gradient-boosting", sample.X, sample.y, random_state=seed)
    found = compare(sample.X, sample.y, sample.y_true, METHODS, probabilities=P, progress=False)
    return {
        "data": case.data,
        "noise": case.noise,
        "seed": seed,
        "wrong": found.wrong,
        "rows": len(sample.y),
        "accuracy": float(np.mean(P.argmax(axis=1) == sample.y_true)),
        "methods": {
            t.method: {name: getattr(t, name) for name in ("n_kept", "fsr", "recall", "f1")}
            for t in found.trials
        },
    }


def measure() -> None:
    # Trees that are sure of given labels, and folds with few rows of a class, warn.
    warnings.filterwarnings("ignore")
    stored = TRIALS.done("data", "noise", "seed")
    for case in CASES:
        for seed in range(case.seeds):
            if (case.data, case.noise, seed) not in stored:
                trial = measured(case, seed)
                TRIALS.add(trial)
                print(case.name, seed, trial["methods"]["trees, q = 0.05"], flush=True)


def shown() -> str:
    trials = TRIALS.trials()
    rates, scores = [], []
    for case in CASES:
        own = [t for t in trials if (t["data"], t["noise"]) == (case.data, case.noise)]
        if not own:
            continue

        def mean(method: str, of: str, own: list[dict[str, Any]] = own) -> float:
            return float(np.mean([trial["methods"][method][of] for trial in own]))

        def pair(method: str, most: float, mean: Callable[[str, str], float] = mean) -> str:
            fsr = mean(method, "fsr")
            mark = "**" if round(fsr, 3) > most else ""
            return f"{mark}{fsr:.3f}{mark} / {mean(method, 'recall'):.3f}"

        accuracy = float(np.mean([trial["accuracy"] for trial in own]))
        cells = [pair(f"{by}, q = {q:g}", q) for q in LEVELS for by in ("linear", "trees")]
        rates.append([case.name, f"{accuracy:.3f}", *cells, pair("cleanlab-noise-rate", 1.0)])
        f1 = {m: mean(m, "f1") for m in ("linear, f1", "trees, f1", *FILTERS)}
        top = f"{max(f1.values()):.3f}"
        texts = [f"{value:.3f}" for value in f1.values()]
        scores.append([case.name, *(f"**{t}**" if t == top else t for t in texts)])
    head = ["table, noise", "accuracy of trees"]
    head += [f"{by}, q = {q:g}" for q in LEVELS for by in ("linear", "trees")]
    first = markdown_table([*head, "cleanlab's default"], rates)
    second = markdown_table(["table, noise", "linear, f1", "trees, f1", *FILTERS], scores)
    return f"FSR / recall; bold where the FSR is above q:\n\n{first}\n\nF1:\n\n{second}"


BENCH = Bench(
    "python benchmarks/tables.py",
    "how-to/tables.md",
    (TRIALS,),
    shown,
    lambda _: measure(),
    shared=False,
)

if __name__ == "__main__":
    BENCH.run(__doc__)
