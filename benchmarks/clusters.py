"""One and two Dask workers against one process: time, processor time, and bytes over the wire.

    python benchmarks/clusters.py [--only "workers 2"] [--data FOLDER] [--again]

Each measurement is a process of its own and a line of ``benchmarks/results/clusters.jsonl``; those
that are there are not measured again. At the end docs/clusters.md gets its tables and what follows
from them for many machines. Everything has one thread: linear algebra, the process, each worker.
Near copies are not looked for, which only one machine could do. Files are made in ``--data``, a
temporary folder by default.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from _clock import _foreign_seconds
from _clusters_page import write_page
from _common import RESULTS as FOLDER
from kspr._packages import machine
from kspr.sources.options import ReadOptions

RESULTS = FOLDER / "clusters.jsonl"
CLASSES, PARTS, SEED = 10, 16, 0
CALM = 0.1
"""Cores that others may use in a measurement that counts as undisturbed."""
PLAIN = {"options": ReadOptions(), "command": ()}
CASES = (
    ("process", 4_000_000, 128),
    ("workers 1", 4_000_000, 128),
    ("workers 2", 4_000_000, 128),
    ("files, process", 4_000_000, 128),
    ("files, workers 1", 4_000_000, 128),
    ("files, workers 2", 4_000_000, 128),
    ("files, workers 1", 600_000, 512),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted({kind for kind, _, _ in CASES}))
    parser.add_argument("--columns", type=int, help="only cases with so many columns")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    parser.add_argument("--better", action="store_true", help="the same, and keep the calmer one")
    parser.add_argument("--data", type=Path, help="where files are made, and kept")
    parser.add_argument("--measure", help="for the processes that this one starts")
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.data)))
        return
    done = {(line["kind"], line["rows"], line["columns"]) for line in results()}
    for case in CASES:
        asked = chosen.only in (None, case[0]) and chosen.columns in (None, case[2])
        if asked and (chosen.again or chosen.better or case not in done):
            with prepared(case, chosen.data) as folder:
                keep(in_a_process(case, folder), better=chosen.better)
    write_page(results())


def results() -> list[dict]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def keep(found: dict, *, better: bool) -> None:
    """Replace what is stored of the same case; with `better`, only what is worse."""
    case = ("kind", "rows", "columns")
    same = [line for line in results() if all(line[key] == found[key] for key in case)]
    others = [line for line in results() if line not in same]
    if better:
        # The fastest of those that other programs did not disturb, if there are any.
        found = min([*same, found], key=lambda line: (line["others"] > CALM, line["seconds"]))
    RESULTS.write_text("".join(json.dumps(line) + "\n" for line in [*others, found]))


@contextmanager
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


def in_a_process(case: tuple[str, int, int], folder: Path) -> dict:
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure", case[0], "--data", str(folder)]
    done = subprocess.run(
        command, env={**os.environ, **one}, check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    named = dict(zip(("kind", "rows", "columns"), case, strict=True))
    return {**named, **found, "machine": machine("numpy", "dask", "distributed")}


def measure(kind: str, folder: Path) -> dict:
    from kspr import KnockoffsSPR

    selector = KnockoffsSPR(q=0.05, duplicates="ignore", progress=False)
    if kind == "process":
        y = np.concatenate([np.load(path) for path in sorted(folder.glob("y*.npy"))])
        X = np.load(folder / "whole.npy", mmap_mode="r")
        return timed(lambda: summed(selector.fit(X, y).selection_), time.process_time)
    if kind == "files, process":
        return timed(lambda: selected_here(selector, folder), time.process_time)
    n_workers = int(kind.split()[-1])
    if kind.startswith("files"):
        return on_files(selector, folder, n_workers)
    return on_workers(selector, folder, n_workers)


def timed(work: Callable[[], dict], processor: Callable[[], float]) -> dict:
    """Return seconds, those of our processors, and the cores that others used meanwhile."""
    load, foreign = os.getloadavg()[0], _foreign_seconds() + time.process_time()
    used, begin = processor(), time.perf_counter()
    found = work()
    seconds, cpu = time.perf_counter() - begin, processor() - used
    others = (_foreign_seconds() + time.process_time() - foreign - cpu) / seconds
    shown = {"seconds": seconds, "cpu": cpu, "others": max(0.0, others), "load": load}
    return {**{name: round(value, 3) for name, value in shown.items()}, **found}


def summed(selection: Any) -> dict:
    return {"kept": int(selection.clean_mask.sum()), "q_sum": float(selection.q_value.sum())}


def on_workers(selector: Any, folder: Path, n_workers: int) -> dict:
    """Measure arrays of which workers load a part each; columns come to this process."""
    import dask.array as da
    from dask import delayed

    def loaded(names: str, dtype: Any) -> Any:
        shapes = [(path, np.load(path, mmap_mode="r").shape) for path in sorted(folder.glob(names))]
        parts = (
            da.from_delayed(delayed(np.load)(path, mmap_mode="r"), shape, dtype)
            for path, shape in shapes
        )
        return da.concatenate(list(parts))

    def work(cluster: Any) -> dict:
        X, y = loaded("X*.npy", np.float16), loaded("y*.npy", np.int64)
        chosen = selector.set_params(engine="dask", client=cluster._client)
        return summed(chosen.fit(X, y).selection_)

    return on_cluster(work, n_workers)


def selected_here(selector: Any, folder: Path) -> dict:
    """Do what `kspr select` does with files, in this process."""
    from kspr.features.options import AS_SHIPPED
    from kspr.runs.select import select_source

    with tempfile.TemporaryDirectory() as out:
        found = select_source(
            folder / "*.parquet", Path(out) / "run", selector, settings=AS_SHIPPED, **PLAIN
        )
        return {"kept": int(found.selection.clean_mask.sum()), "parts": PARTS}


def on_files(selector: Any, folder: Path, n_workers: int) -> dict:
    """Measure what `kspr select --engine dask` does with files."""
    from kspr.runs import cluster_select

    def work(cluster: Any) -> dict:
        @contextmanager
        def given(_: Any) -> Iterator[Any]:
            yield cluster

        cluster_select.opened_cluster = given
        with tempfile.TemporaryDirectory() as out:
            written = cluster_select.select_on_cluster(
                folder / "*.parquet", Path(out) / "run", selector, **PLAIN
            )
        return {"kept": written.n_kept, "parts": PARTS}

    return on_cluster(work, n_workers)


def on_cluster(work: Callable[[Any], dict], n_workers: int) -> dict:
    from distributed import get_task_stream

    from kspr.selectors.engines.cluster import Cluster, local_cluster

    with local_cluster(n_workers) as cluster:
        client = cluster._client
        # Imports are not what is measured.
        client.run(warm_up)
        warm_up()

        def processor() -> float:
            return sum(client.run(time.process_time).values()) + time.process_time()

        def sent() -> int:
            return sum(client.run(bytes_sent).values()) + bytes_sent()

        marks = [("start", time.perf_counter(), sent())]
        each = Cluster.each

        def marked(self: Any, function: Any, *rest: Any, **more: Any) -> Any:
            marks.append((function.__name__, time.perf_counter(), sent()))
            return each(self, function, *rest, **more)

        Cluster.each = marked
        with get_task_stream(client) as stream:
            found = timed(lambda: work(cluster), processor)
        marks.append(("end", time.perf_counter(), sent()))
    passes = [
        {"name": name.strip("_"), "seconds": round(after[1] - at, 3), "bytes": after[2] - begun}
        for (name, at, begun), after in pairwise(marks[1:])
    ]
    return {**found, "passes": passes, "tasks": tasks_of(stream.data)}


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


def warm_up() -> None:
    import kspr.runs.cluster_select
    import kspr.selectors.cluster_selection  # noqa: F401

    count_bytes()


def count_bytes() -> None:
    """Count what this process writes to others: each message is written once."""
    from distributed.comm.tcp import TCP

    write = TCP.write
    # Kept at the class: what is kept here would be another copy in each call from outside.
    TCP.bytes_sent = 0

    async def counted(self: Any, *arguments: Any, **more: Any) -> int:
        n_bytes = await write(self, *arguments, **more)
        TCP.bytes_sent += n_bytes
        return n_bytes

    TCP.write = counted


def bytes_sent() -> int:
    from distributed.comm.tcp import TCP

    return TCP.bytes_sent


if __name__ == "__main__":
    main()
