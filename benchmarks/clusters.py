"""One and two Dask workers against one process: time, processor time, and bytes over the wire.

    python benchmarks/clusters.py [--only "workers 2"] [--data FOLDER] [--better]

Each measurement is a process of its own and a line of ``benchmarks/results/clusters.jsonl``; those
that are stored are not measured again. At the end docs/clusters.md gets its tables and a forecast
for many machines. Everything has one thread: linear algebra, the process, each worker. Copies are
not looked for. Files are made in ``--data``, a temporary
folder by default.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from _clock import foreign_seconds, in_process
from _common import SMOKE, Bench, Store, arguments, either, markdown_table
from kspr import KnockoffsSPR

TRIALS = Store("clusters")
CLASSES, PARTS, SEED = 10, either(16, 2), 0
CALM = 0.1
"""Cores that others may use in a measurement that counts as undisturbed."""
CASES = (
    ("process", 4_000_000, 128),
    ("workers 1", 4_000_000, 128),
    ("workers 2", 4_000_000, 128),
    ("files, process", 4_000_000, 128),
    ("files, workers 1", 4_000_000, 128),
    ("files, workers 2", 4_000_000, 128),
    ("files, workers 1", 600_000, 512),
)
if SMOKE:
    CASES = (("process", 2_000, 8), ("workers 1", 2_000, 8), ("files, workers 1", 2_000, 8))
KEY = ("kind", "rows", "columns")
SHOWN = {
    "one process, arrays": "process",
    "one worker, arrays": "workers 1",
    "two workers, arrays": "workers 2",
    "one process, files": "files, process",
    "one worker, files": "files, workers 1",
    "two workers, files": "files, workers 2",
}
MACHINES, MANY = 32, 100_000_000
"""Machines and rows of the forecast."""


def measure(chosen: argparse.Namespace) -> None:
    for case in CASES:
        asked = chosen.only in (None, case[0]) and chosen.columns in (None, case[2])
        stored = [trial for trial in TRIALS.trials() if tuple(trial[k] for k in KEY) == case]
        if asked and (chosen.better or not stored):
            with prepared(case, chosen.data) as folder:
                one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
                found = in_process(__file__, case[0], folder, **one)
            found = {**dict(zip(KEY, case, strict=True)), **found}
            # The fastest of those that other programs did not disturb, if there are any.
            best = min([*stored, found], key=lambda t: (t["others"] > CALM, t["seconds"]))
            if best is found or not chosen.better:
                TRIALS.add(found, KEY)


@contextlib.contextmanager
def prepared(case: tuple[str, int, int], data: Path | None) -> Iterator[Path]:
    """Give the folder with the files of a case."""
    kind, n, p = case
    with tempfile.TemporaryDirectory() as temporary:
        files = kind.startswith("files")
        folder = (data or Path(temporary)) / f"{'files' if files else 'arrays'}-{n}-{p}"
        if not folder.exists():
            folder.mkdir(parents=True)
            make(folder, n, p, files=files)
        yield folder


def make(folder: Path, n: int, p: int, *, files: bool = False) -> None:
    """Write features and labels in parts; a fifth of the labels is wrong."""
    rng = np.random.default_rng(SEED)
    centres = rng.standard_normal((CLASSES, p), dtype=np.float32)
    whole = None
    if not files:
        whole = np.lib.format.open_memmap(folder / "whole.npy", "w+", np.float16, (n, p))
    for number, rows in enumerate(np.array_split(np.arange(n), PARTS)):
        true = rng.integers(0, CLASSES, len(rows))
        X = centres[true] + 4 * rng.standard_normal((len(rows), p), dtype=np.float32)
        wrong = rng.random(len(rows)) < 0.2
        y = np.where(wrong, rng.integers(0, CLASSES, len(rows)), true)
        if whole is None:
            write_part(folder / f"{number:03d}.parquet", X.astype(np.float16), y)
            continue
        np.save(folder / f"X{number:03d}.npy", X.astype(np.float16))
        np.save(folder / f"y{number:03d}.npy", y)
        # For one process, which reads one file.
        whole[rows[0] : rows[-1] + 1] = X


def write_part(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    pq.write_table(pa.table({"features": lists, "label": y}), path, row_group_size=16384)


def measured(kind: str, folder: Path) -> dict[str, Any]:
    """Return what one kind of selection takes, and how many rows it keeps."""
    if kind.endswith("process"):
        work = select_files if kind.startswith("files") else fit_arrays
        return timed(lambda: work(folder), time.process_time)
    from distributed import Client, LocalCluster, get_task_stream

    # As docs/clusters.md advises: else Dask's workers give every freed array back to the system.
    os.environ |= {"MALLOC_TRIM_THRESHOLD_": "268435456", "MALLOC_MMAP_THRESHOLD_": "33554432"}
    how = {"n_workers": int(kind.split()[-1]), "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**how) as cluster, Client(cluster) as client:
        # Imports are not what is measured.
        client.run(lambda: __import__("kspr.cli"))

        def processor() -> float:
            return sum(client.run(time.process_time).values()) + time.process_time()

        with get_task_stream(client) as stream:
            if kind.startswith("files"):
                options = ("--scheduler", cluster.scheduler_address)
                found = timed(lambda: select_files(folder, *options), processor)
            else:
                found = timed(lambda: fit_partitions(folder, client), processor)
        sent = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return {**found, "bytes": sum(sent.values()), "tasks": tasks_of(stream.data)}


def timed(work: Callable[[], int], processor: Callable[[], float]) -> dict[str, Any]:
    """Return seconds, those of our processors, the cores that others used, and the kept rows."""
    load, foreign = os.getloadavg()[0], foreign_seconds() + time.process_time()
    used, begin = processor(), time.perf_counter()
    kept = work()
    seconds, cpu = time.perf_counter() - begin, processor() - used
    others = (foreign_seconds() + time.process_time() - foreign - cpu) / seconds
    shown = {"seconds": seconds, "cpu": cpu, "others": max(0.0, others), "load": load}
    return {**{name: round(value, 3) for name, value in shown.items()}, "kept": kept}


def selector(**choices: Any) -> KnockoffsSPR:
    return KnockoffsSPR(q=0.05, duplicates="ignore", progress=False, **choices)


def fit_arrays(folder: Path) -> int:
    """Fit one memory map in this process."""
    y = np.concatenate([np.load(path) for path in sorted(folder.glob("y*.npy"))])
    X = np.load(folder / "whole.npy", mmap_mode="r")
    return int(selector().fit(X, y).selection_.clean_mask.sum())


def fit_partitions(folder: Path, client: Any) -> int:
    """Fit arrays of which workers load a part each; columns come to this process."""
    import dask.array as da
    from dask import delayed

    def loaded(names: str, dtype: Any) -> Any:
        shapes = [(path, np.load(path, mmap_mode="r").shape) for path in sorted(folder.glob(names))]
        parts = (
            da.from_delayed(delayed(np.load)(path, mmap_mode="r"), shape, dtype)
            for path, shape in shapes
        )
        return da.concatenate(list(parts))

    X, y = loaded("X*.npy", np.float16), loaded("y*.npy", np.int64)
    return int(selector(client=client).fit(X, y).selection_.clean_mask.sum())


def select_files(folder: Path, *options: str) -> int:
    """Run `kspr select` on files."""
    from kspr.cli import main as kspr

    said = ("--label=label", "--duplicates=ignore", "--json", *options)
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(shown):
        kspr(["select", str(folder / "*.parquet"), *said, "--out", f"{out}/run"])
    answer = json.loads(shown.getvalue())
    # Large runs are described in fewer words.
    return int(answer["kept"] if "kept" in answer else answer["summary"]["n_kept"])


def tasks_of(records: list[dict]) -> dict[str, list[float]]:
    """Return how many tasks of each function there were, and their seconds: all, and the longest.

    A record repeats what happened to the same task before.
    """
    found: dict[str, dict[tuple, float]] = {}
    for record in records:
        key = record["key"] if isinstance(record["key"], str) else record["key"][0]
        name = "-".join(part for part in key.split("-") if not set(part) <= set("0123456789abcdef"))
        for step in record["startstops"]:
            if step["action"] == "compute":
                seconds = step["stop"] - step["start"]
                found.setdefault(name, {})[(str(record["key"]), step["start"])] = seconds
    return {
        name: [len(own), round(sum(own.values()), 3), round(max(own.values()), 3)]
        for name, own in found.items()
    }


# The page ----------------------------------------------------------------------------------------


def shown() -> str:
    """Return the tables of one process, one and two workers, and the forecast."""
    trials = TRIALS.trials()
    columns = min(case[2] for case in CASES)
    by_kind = {trial["kind"]: trial for trial in trials if trial["columns"] == columns}
    wide = max((t for t in trials if "tasks" in t), key=lambda trial: trial["columns"])
    return f"{times(by_kind)}\n\n{forecast(wide)}"


def times(trials: dict[str, dict[str, Any]]) -> str:
    """Return the table of one process, one and two workers."""
    first = trials["process"]
    rows = [
        [
            name,
            *(f"{trials[kind][key]:.1f} s" for key in ("seconds", "cpu")),
            f"{trials[kind]['others']:.2f}",
            size(trials[kind]["bytes"]) if "bytes" in trials[kind] else "",
        ]
        for name, kind in SHOWN.items()
        if kind in trials
    ]
    said = [
        f"{first['rows']:,} x {first['columns']} features in float16, {CLASSES} classes. "
        "Everything has one thread: the process, and each worker; processor time is that of all "
        "processes, with the client and the scheduler. Near copies are not looked for. Arrays are "
        f"{PARTS} memory maps, one for the process, and end in a `Selection` in one process; files "
        f"are {PARTS} parquet files, and end in a run.",
        "",
        markdown_table(["", "time", "processor time of all", "cores of others", "sent"], rows),
        "",
    ]
    for what in ("", "files, "):
        here, one, two = (trials.get(what + k) for k in ("process", "workers 1", "workers 2"))
        if here and one and two:
            said.append(
                f"With {'files' if what else 'arrays'}, two workers are "
                f"**{one['seconds'] / two['seconds']:.2f} x** as fast as one; one worker takes "
                f"**{one['seconds'] / here['seconds']:.2f} x** the time of one process, and "
                f"{one['cpu'] / here['cpu']:.2f} x the processor time."
            )
    said.append("At least 1.7 x and at most 1.2 x were asked for.")
    return "\n".join(said)


def split_work(trial: dict[str, Any]) -> tuple[float, float]:
    """Return a worker's seconds for one row, and the seconds that more workers do not shorten.

    What has a task for each part is done row by row. Of the rest, which is the fit and merging,
    the longest task of each function counts.
    """
    tasks = trial["tasks"].values()
    each = sum(seconds for count, seconds, _ in tasks if count >= PARTS)
    rest = sum(longest for count, _, longest in tasks if count < PARTS)
    return each / trial["rows"], rest


def forecast(trial: dict[str, Any]) -> str:
    """Return what the largest data would take on many machines, calculated."""
    each, rest = split_work(trial)
    rows = []
    for workers in (MACHINES, 8 * MACHINES):
        work = each * MANY / workers
        rows.append(
            [f"{workers} workers", f"{work:.1f} s", f"{rest:.1f} s", f"{work + rest:.1f} s"]
        )
    return "\n".join(
        [
            f"### {MANY // 1_000_000} million x {trial['columns']} on {MACHINES} machines",
            "",
            f"Calculated, not measured: from one worker with {trial['rows']:,} x "
            f"{trial['columns']} features in {PARTS} parquet files ({trial['seconds']:.1f} s in "
            f"all). Functions that run on every part take {1e6 * each:.1f} microseconds a row; the "
            f"fit and merging take {rest:.1f} s, as the longest task of each function. What "
            "travels is not counted.",
            "",
            markdown_table(["", "every row", "fit and merging", "all"], rows),
        ]
    )


def size(n_bytes: float) -> str:
    """Return a number of bytes as people read it."""
    for unit, limit in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n_bytes >= limit:
            return f"{n_bytes / limit:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"


BENCH = Bench(
    "make bench-dask",
    "clusters.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/runs", "src/kspr/sources"),
    shared=False,
)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measured(sys.argv[2], Path(sys.argv[3]))))
        sys.exit()
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=sorted({kind for kind, _, _ in CASES}))
    parser.add_argument("--columns", type=int, help="only cases with so many columns")
    parser.add_argument("--better", action="store_true", help="once more, and keep the calmer one")
    parser.add_argument("--data", type=Path, help="where files are made, and kept")
    BENCH.run(parser)
