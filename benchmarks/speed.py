"""Measure speed, growth and memory against targets, and against cleanlab: ``make bench``.

Every ratio is taken inside one run, from alternating repeats while the machine is idle, so that
other work disturbs both sides of it or none. Rows are lines of ``benchmarks/results/speed.jsonl``,
and a table of docs/speed.md.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _clock import Clock, fastest, in_process, peak, reset_peak
from _common import Bench, Store, arguments, either, markdown_table, versions_in_words
from _speed import (
    NOISE_RATE,
    Check,
    Data,
    Row,
    Setting,
    cells,
    load_data,
    plain,
    quality_on,
    slower,
)
from _transcription import row_a
from kspr import KnockoffsSPR, PaperKnockoffsSPR
from kspr.noise import symmetric

COMMAND = "make bench"
TRIALS = Store("speed")
MILLION, COLUMNS, CLASSES = either(1_000_000, 2_000), either(256, 16), 10
LIMIT_GB = 1.5


def row_b(setting: Setting) -> Row:
    """Time the unsplit fit against one product X'X, which any second-order method needs."""
    X, y = setting.data.X, setting.data.y
    timings = setting.clock.alternate(
        2 * setting.repeats,
        product=lambda: X.T @ X,
        fit=partial(setting.unsplit().fit, X, y),
    )
    checks = [Check.at_most("times one X'X", slower(timings, "fit", "product"), 12)]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("b", "unsplit, 64 dimensions", checks, raw)


def row_c(setting: Setting) -> Row:
    """Time the unsplit fit with eight times the rows, and with ten times the classes."""
    data, X = setting.data, setting.data.X
    rng = np.random.default_rng(setting.seed)
    y_fine = symmetric(finer_classes(data), NOISE_RATE, setting.seed)
    large, y_large = tiled(X, 8, rng), np.tile(data.y, 8)
    timings = setting.clock.alternate(
        setting.repeats,
        base=partial(setting.unsplit().fit, X, data.y),
        rows=partial(setting.unsplit().fit, large, y_large),
        classes=partial(setting.unsplit().fit, X, y_fine),
    )
    checks = [
        Check.at_most("8 x the rows: times slower", slower(timings, "rows", "base"), 9),
        Check.at_most("100 classes: times slower", slower(timings, "classes", "base"), 4),
    ]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("c", "growth, unsplit, 64 dimensions", checks, raw)


def tiled(X: np.ndarray, times: int, rng: np.random.Generator) -> np.ndarray:
    """Return `X` several times below itself, with noise so that no two rows are copies.

    With a tenth of this noise all rows were near copies of seven others: keeping so many sets of
    copies together takes as long as the fit, and hides how that grows.
    """
    jitter = np.float32(0.5 * X[:1000].std())
    large = np.empty((times * len(X), X.shape[1]), dtype=X.dtype)
    for part in np.split(large, times):
        rng.standard_normal(out=part, dtype=np.float32)
        part *= jitter
        part += X
    return large


def finer_classes(data: Data) -> np.ndarray:
    """Return ten classes for each class, by the order of its first feature."""
    fine = np.empty_like(data.y_true)
    for c in np.unique(data.y_true):
        members = np.flatnonzero(data.y_true == c)
        rank = np.argsort(np.argsort(data.X[members, 0]))
        fine[members] = 10 * c + 10 * rank // len(members)
    return fine


def row_d(setting: Setting) -> Row:
    """Measure the peak memory of one fit in a new process, X included."""
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", setting.data.X)
        np.save(Path(folder) / "y.npy", setting.data.y)
        for preset in either(("default", "paper"), ("paper",)):
            words = ("fit", preset, folder, setting.threads)
            raw[preset] = in_process(__file__, *words)
    checks = [
        Check.at_most(
            f"{preset}: peak, in bytes of X", 1 + found["growth_bytes"] / found["x_bytes"], 3
        )
        for preset, found in raw.items()
    ]
    return Row("d", "peak memory of a fit", checks, raw)


def peak_memory(preset: str, folder: str, threads: str) -> dict[str, Any]:
    """Return the growth of resident memory at its peak during one fit."""
    # As for a user: everything is imported and X is loaded before the fit.
    X, y = (np.load(Path(folder) / name) for name in ("X.npy", "y.npy"))
    paper = PaperKnockoffsSPR(n_jobs=int(threads))
    selector = paper if preset == "paper" else KnockoffsSPR(q=0.05)
    reset = reset_peak()
    before = peak("VmRSS")
    with threadpool_limits(limits=int(threads), user_api="blas"):
        selector.fit(X, y)
    return {"x_bytes": X.nbytes, "growth_bytes": peak() - before, "peak_was_reset": reset}


def row_e(setting: Setting) -> Row:
    """Compare with cleanlab: cross-validated logistic regression, then its default filter."""
    data = setting.data
    X = np.ascontiguousarray(data.X[:, :256])
    ours, masks = KnockoffsSPR(q=0.05, progress=False), dict[str, np.ndarray]()
    timings = setting.clock.alternate(
        setting.repeats,
        ours=partial(ours.fit, X, data.y),
        cleanlab=lambda: masks.update(cleanlab=cleanlab_mask(X, data.y, setting.threads)),
    )
    masks["ours"] = ours.selection_.clean_mask
    everything = np.arange(len(data.y))
    quality = {name: quality_on(data, masks[name], everything) for name in timings}
    # The clock counts the processes of cleanlab's folds as other work, so all its times count.
    share = fastest(timings["ours"]) / min(timing.seconds for timing in timings["cleanlab"])
    checks = [Check.at_most("share of cleanlab's time", share, 0.25)]
    checks += [
        Check(f"{measure}: {name}", getattr(found, measure))
        for name, found in quality.items()
        for measure in ("fsr", "recall", "f1")
    ]
    raw = {name: plain(found) for name, found in timings.items()}
    raw["quality"] = {name: asdict(found) for name, found in quality.items()}
    return Row("e", "beside cleanlab, 256 dimensions", checks, raw)


def cleanlab_mask(X: np.ndarray, y: np.ndarray, jobs: int) -> np.ndarray:
    """Return what cleanlab's documented recipe keeps, with folds in parallel, its fastest way."""
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    model = LogisticRegression(max_iter=200)
    with threadpool_limits(limits=1, user_api="blas"):
        scores = cross_val_predict(model, X, y, cv=5, method="predict_proba", n_jobs=jobs)
        return ~np.asarray(find_label_issues(y, scores))


def row_f(setting: Setting) -> Row:
    """Select from a million half-precision rows; compare with reading the file once."""
    n = MILLION
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write(folder, n, setting.seed)
        read_seconds = min(_read_once(folder / "x.npy") for _ in range(3))
        words = ("select", folder / "x.npy", "--labels", folder / "y.npy", "--out", folder / "run")
        found = in_process(__file__, "select", *words, "--json")
    gigabytes = found["peak_bytes"] / 1e9
    checks = [
        Check.at_most("peak memory of `kspr select`, GB", gigabytes, LIMIT_GB),
        Check("times reading the file once", found["seconds"] / read_seconds),
    ]
    raw = {**found, "read_seconds": read_seconds, "rows": n, "columns": COLUMNS}
    return Row("f", f"{n:,} x {COLUMNS} float16 from a file", checks, raw)


def _write(folder: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    centres = 0.3 * rng.standard_normal((CLASSES, COLUMNS), dtype=np.float32)
    X = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float16, (n, COLUMNS))
    for start in range(0, n, 50_000):
        part = slice(start, start + 50_000)
        X[part] = centres[y[part]] + rng.standard_normal((len(y[part]), COLUMNS), dtype=np.float32)
    X.flush()
    wrong = rng.random(n) < 0.3
    np.save(folder / "y.npy", np.where(wrong, rng.integers(CLASSES, size=n), y))


def _read_once(path: Path) -> float:
    start = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.read(16 << 20):
            pass
    return time.perf_counter() - start


def select(*words: str) -> dict[str, Any]:
    """Return seconds and peak of one command."""
    from kspr.cli import main

    start = time.perf_counter()
    main(words)
    # Not ru_maxrss: a child inherits that of its parent, which holds the whole benchmark.
    return {"seconds": time.perf_counter() - start, "peak_bytes": peak()}


ROWS: dict[str, Callable[[Setting], Row]] = {
    "a": row_a,
    "b": row_b,
    "c": row_c,
    "d": row_d,
    "e": row_e,
    "f": row_f,
}


def shown() -> str:
    """Return the measured rows, with a sentence on data and machine above them."""
    rows = TRIALS.named()
    first = rows[min(rows)]
    # The last rows load cleanlab.
    last, data, (n, columns) = rows[max(rows)], first["data"], first["data"]["shape"]
    versions = versions_in_words(last, "python", "numpy", "scikit-learn", "cleanlab")
    table = []
    for name in sorted(rows):
        table += [[f"**{rows[name]['title']}**", "", ""], *cells(rows[name]["checks"])]
    return (
        f"`{COMMAND}` on {data['source']} ({n:,} x {columns}, {data['noise']:.0%} symmetric "
        f"noise, seed {first['seed']}); {versions}:\n\n"
        + markdown_table(["", "measured", "target"], table)
    )


def measure(chosen: argparse.Namespace) -> None:
    data, clock = load_data(chosen.seed), Clock(chosen.patience)
    setting = Setting(data, chosen.seed, chosen.threads, chosen.pieces, chosen.repeats, clock)
    about = {"source": data.source, "shape": list(data.X.shape), "noise": NOISE_RATE}
    with threadpool_limits(limits=chosen.threads, user_api="blas"):
        for name in chosen.rows.split(","):
            start = time.perf_counter()
            row = asdict(ROWS[name](setting))
            for what, value, target in cells(row["checks"]):
                print(name, what, value, target, flush=True)
            seconds = {"seconds": time.perf_counter() - start, "threads": chosen.threads}
            TRIALS.add({**row, **seconds, "data": about, "seed": chosen.seed}, ["name"])


BENCH = Bench(
    COMMAND,
    "speed.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/runs"),
)

CHILDREN = {"fit": peak_memory, "select": select}
"""What processes of their own measure."""

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
        sys.exit()
    parser = arguments(__doc__)
    parser.add_argument("--rows", default=",".join(ROWS), help="which rows to measure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="BLAS threads")
    parser.add_argument("--pieces", type=int, help="pieces that the transcription runs (row a)")
    parser.add_argument("--repeats", type=int, default=either(4, 1), help="repeats of each timing")
    parser.add_argument("--patience", type=float, default=either(300, 0), help="seconds for calm")
    BENCH.run(parser)
