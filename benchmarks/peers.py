"""Compare this method with those of others on known noise: `make peers`.

    python benchmarks/peers.py                    # measure what is missing
    python benchmarks/peers.py --only digits      # cases whose name contains a word
    python benchmarks/peers.py --list

A case is a data set with one kind of noise; all methods are measured on it, on one thread each. A
finished case is a line of benchmarks/results/peers.jsonl; an interrupted one continues with its
next method. `make results` shows them in docs/results.md.
"""

import os
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.datasets import load_digits

from _common import RESULTS, WORK, add_trial, arguments, either, named_trials, parsed
from _data import Case, Sample, check_shared, cifar10
from kspr.experiments.compare.comparing import compare
from kspr.noise import asymmetric_cifar10, circular, symmetric

TRIALS = RESULTS / "peers.jsonl"
MEASURES = ("src/kspr/core", "src/kspr/selectors", "src/kspr/experiments/compare")
Q, SEED, SPAN = 0.1, 0, 100
SYMMETRIC, ASYMMETRIC = (0.2, 0.4, 0.6, 0.8), (0.2, 0.3, 0.4)
METHODS = either(None, ("kspr", "kspr-f1", "small-loss"))
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
    add_trial(TRIALS, {**about, **found.to_dict()})
    print(f"\n{case.name}\n{found}", flush=True)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--list", action="store_true", help="list the cases, measure nothing")
    given = parsed(parser, TRIALS)
    chosen = [case for case in CASES if given.only in case.name]
    if not chosen:
        parser.exit(2, f"No case has {given.only!r} in its name; --list shows all names.\n")
    done = named_trials(TRIALS)
    if given.list:
        for case in chosen:
            print("done   " if case.name in done else "missing", case.name)
        return
    check_shared()
    for case in either(chosen, chosen[:2]):
        if case.name not in done:
            measure(case)


if __name__ == "__main__":
    main()
