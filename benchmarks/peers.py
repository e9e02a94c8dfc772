"""Compare this method with those of others on known noise: `make peers`.

    python benchmarks/peers.py                    # measure what is missing
    python benchmarks/peers.py --only digits      # cases whose name contains a word
    python benchmarks/peers.py --list

A case is a data set with one kind of noise; all methods are measured on it, on one thread each. A
finished case is a line of benchmarks/results/peers.jsonl; an interrupted one continues with its
next method. docs/results.md shows them.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits

from _common import WORK, Bench, Store, arguments, either, markdown_table
from _data import Case, Sample, cifar10
from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.comparison import REFERENCES
from kspr.noise import asymmetric_cifar10, circular, symmetric

TRIALS = Store("peers")
Q, SEED, SPAN = 0.1, 0, 100
SYMMETRIC, ASYMMETRIC = (0.2, 0.4, 0.6, 0.8), (0.2, 0.3, 0.4)
METHODS = either(None, ("kspr", "kspr-f1", "small-loss", "neighbours"))
"""Names of the methods; None for all of them."""


Noise = Callable[[np.ndarray, float, int], np.ndarray]
Rows = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]
"""Features, true labels, and a test set."""


def cifar() -> Rows:
    X, y, X_test, y_test = cifar10()
    return X, y, (X_test, y_test)


def cifar_shares() -> Rows:
    """Return CIFAR-10 with class sizes that fall from 5,000 to 50 by a constant factor."""
    X, y, test = cifar()
    sizes = np.round(5000 * SPAN ** (-np.arange(10) / 9)).astype(int)
    rows = [np.flatnonzero(y == k)[:size] for k, size in enumerate(sizes)]
    kept = np.sort(np.concatenate(rows))
    return X[kept], y[kept], test


def digits() -> Rows:
    X, y = load_digits(return_X_y=True)
    return X[:1300], y[:1300], (X[1300:], y[1300:])


def make_case(data: str, kind: str, rate: float, load: Callable[[], Rows], noise: Noise) -> Case:
    def make(seed: int) -> Sample:
        X, y_true, test = load()
        return Sample(X, noise(y_true, rate, seed), y_true, test)

    return Case(data, f"{kind} {round(100 * rate)} %", make)


CASES = [
    *(make_case("CIFAR-10", "Sym.", rate, cifar, symmetric) for rate in SYMMETRIC),
    *(make_case("CIFAR-10", "Asy.", rate, cifar, asymmetric_cifar10) for rate in ASYMMETRIC),
    *(make_case("digits", "Sym.", rate, digits, symmetric) for rate in (0.2, 0.4)),
    make_case("digits", "Asy.", 0.4, digits, circular),
    *(make_case("CIFAR-10 1:100", "Sym.", rate, cifar_shares, symmetric) for rate in (0.2, 0.4)),
]


def measure(case: Case) -> None:
    """Measure all methods on a case, and store the result."""
    sample = case.make(SEED)
    slug = "".join(c if c.isalnum() else "-" for c in case.name.lower())
    found = compare(
        sample.X,
        sample.y,
        sample.y_true,
        METHODS,
        q=Q,
        seed=SEED,
        test=sample.test,
        trials=WORK / "peers" / f"{slug}.json",
    )
    about = {"name": case.name, "data": case.data, "noise": case.noise}
    TRIALS.add({**about, **found.to_dict()})
    print(f"\n{case.name}\n{found}", flush=True)


def measure_all(chosen: argparse.Namespace) -> None:
    cases, stored = [c for c in CASES if chosen.only in c.name], TRIALS.named()
    if not cases:
        raise SystemExit(f"No case has {chosen.only!r} in its name; --list shows all names.")
    for case in either(cases, cases[:2]):
        if chosen.list:
            print("done   " if case.name in stored else "missing", case.name)
        elif case.name not in stored:
            measure(case)


OURS = ("kspr", "kspr-per-class", "kspr-f1", "kspr-paper", "spr-half", "kspr-probabilities")
CLOSE = 0.95
"""Share of the best F1 that a method must reach to count as fast."""

TABLES: tuple[tuple[str, str, str, Callable[..., float] | None], ...] = (
    ("F1", "f1", ".3f", max),
    ("FSR: share of wrong labels among the kept ones", "fsr", ".3f", None),
    ("AUROC of the ranking", "auroc", ".3f", max),
    ("Test accuracy of a logistic regression on what is kept", "accuracy", ".3f", max),
    ("Error of the estimated share of wrong labels", "noise_rate_error", "+.3f", None),
    ("Seconds", "seconds", ".2f", None),
    ("Memory, MB", "memory", ".0f", None),
)


def stored_peers() -> list[dict[str, Any]]:
    """Return the results of all measured cases, ordered by data and noise."""
    return sorted(
        TRIALS.trials(),
        key=lambda case: (case["data"], case["noise"][:1] != "S", case["noise"]),
    )


def shown() -> dict[str, str]:
    cases = stored_peers()
    tables = [f"### {title}\n\n{_table(cases, *how)}" for title, *how in TABLES]
    return {"tables": "\n\n".join(tables), "goal": _goal(cases)}


def _table(
    cases: list[dict[str, Any]], name: str, form: str, better: Callable[..., float] | None
) -> str:
    columns = [f"{case['data']}, {case['noise']}" for case in cases]
    rows = []
    best = [_best(case, name, form, better) for case in cases]
    for method in [trial["method"] for trial in cases[0]["trials"]]:
        trials = [_trial(case, method) for case in cases]
        texts = [_text(trial, name, form) for trial in trials]
        if all(text == "-" for text in texts):
            continue
        shown = [
            f"**{text}**" if text == top and _competes(trial) else text
            for text, top, trial in zip(texts, best, trials, strict=True)
        ]
        rows.append([f"{method}{'*' * trials[0]['told']}", *shown])
    return markdown_table(["method", *columns], rows)


def _best(
    case: dict[str, Any], name: str, form: str, better: Callable[..., float] | None
) -> str | None:
    values = [
        trial[name] for trial in case["trials"] if _competes(trial) and trial[name] is not None
    ]
    return None if better is None or not values else format(better(values), form)


def _competes(trial: dict[str, Any]) -> bool:
    return not trial["told"] and trial["method"] not in REFERENCES


def _trial(case: dict[str, Any], method: str) -> dict[str, Any]:
    return next(trial for trial in case["trials"] if trial["method"] == method)


def _text(trial: dict[str, Any], name: str, form: str) -> str:
    value = trial[name]
    if value is None or (name == "seconds" and trial["method"] in REFERENCES):
        return "-"
    return format(value / 2**20 if name == "memory" else value, form)


def _goal(cases: list[dict[str, Any]]) -> str:
    """Return, for every case, the best and the fastest methods."""
    head = ["case", "kspr", "kspr-f1", "best of the others", "fastest with 0.95 of the best F1"]
    rows = []
    for case in cases:
        rivals = [trial for trial in case["trials"] if _competes(trial)]
        top = max(trial["f1"] for trial in rivals)
        other = max((c for c in rivals if c["method"] not in OURS), key=lambda c: c["f1"])
        fast = min((c for c in rivals if c["f1"] >= CLOSE * top), key=lambda c: c["seconds"])
        own = _trial(case, "kspr")
        rows.append(
            [
                f"{case['data']}, {case['noise']}",
                f"{own['f1']:.3f}",
                f"{_trial(case, 'kspr-f1')['f1']:.3f}",
                f"{other['method']} {other['f1']:.3f}",
                f"{fast['method']} ({fast['seconds']:.2f} s)",
                f"{own['fsr']:.3f}",
            ]
        )
    return markdown_table([*head, "FSR of kspr"], rows)


BENCH = Bench(
    "make peers",
    "results.md",
    (TRIALS,),
    shown,
    measure_all,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/experiments/compare"),
)

if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--list", action="store_true", help="list the cases, measure nothing")
    BENCH.run(parser)
