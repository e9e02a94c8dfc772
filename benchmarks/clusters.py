"""One and two Dask workers against one process: time and processor time.

    python benchmarks/clusters.py [--rows 4000000] [--columns 128]

Each measurement is a process of its own and a line of ``benchmarks/results/clusters.jsonl``; those
that are there are not measured again. Linear algebra has one thread everywhere, near copies are
not looked for, and workers have one thread each. Numbers for docs/clusters.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from kspr._packages import machine

RESULTS = Path(__file__).parent / "results" / "clusters.jsonl"
CLASSES, PARTS, SEED = 10, 16, 0
KINDS = ("process", "workers 1", "workers 2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=128)
    parser.add_argument("--measure", choices=KINDS)
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure, chosen.folder)))
        return
    done = {(line["kind"], line["rows"], line["columns"]) for line in results()}
    missing = [kind for kind in KINDS if (kind, chosen.rows, chosen.columns) not in done]
    if missing:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), chosen.rows, chosen.columns)
            for kind in missing:
                found = in_a_process(kind, folder)
                found |= {"kind": kind, "rows": chosen.rows, "columns": chosen.columns}
                keep({**found, "load": os.getloadavg()[0], "machine": machine("numpy", "dask")})
    show([line for line in results() if line["rows"] == chosen.rows])


def results() -> list[dict]:
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def keep(found: dict) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as file:
        file.write(json.dumps(found) + "\n")


def make(folder: Path, n: int, p: int) -> None:
    """Write features and labels in parts; a fifth of the labels is wrong."""
    rng = np.random.default_rng(SEED)
    centres = rng.standard_normal((CLASSES, p), dtype=np.float32)
    for number, rows in enumerate(np.array_split(np.arange(n), PARTS)):
        true = rng.integers(0, CLASSES, len(rows))
        X = centres[true] + 4 * rng.standard_normal((len(rows), p), dtype=np.float32)
        wrong = rng.random(len(rows)) < 0.2
        y = np.where(wrong, rng.integers(0, CLASSES, len(rows)), true)
        np.save(folder / f"X{number:03d}.npy", X.astype(np.float16))
        np.save(folder / f"y{number:03d}.npy", y)


def in_a_process(kind: str, folder: str) -> dict:
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--measure", kind, "--folder", folder]
    done = subprocess.run(
        command, env={**os.environ, **one}, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(kind: str, folder: Path) -> dict:
    from kspr import KnockoffsSPR

    labels = np.concatenate([np.load(path) for path in sorted(folder.glob("y*.npy"))])
    selector = KnockoffsSPR(q=0.05, duplicates="ignore", progress=False)
    if kind == "process":
        # One file, as one process would have it.
        whole = np.lib.format.open_memmap(
            folder / "whole.npy", "w+", np.float16, (len(labels), shape(folder)[1])
        )
        start = 0
        for path in sorted(folder.glob("X*.npy")):
            part = np.load(path)
            whole[start : start + len(part)] = part
            start += len(part)
        whole.flush()
        X = np.load(folder / "whole.npy", mmap_mode="r")
        begin, used = time.perf_counter(), time.process_time()
        found = selector.fit(X, labels).selection_
        times = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - used}
        return {**times, "kept": int(found.clean_mask.sum()), "q_sum": float(found.q_value.sum())}
    return on_workers(selector, folder, labels, int(kind.split()[1]))


def shape(folder: Path) -> tuple[int, int]:
    return np.load(next(folder.glob("X*.npy")), mmap_mode="r").shape


def on_workers(selector, folder: Path, labels: np.ndarray, n_workers: int) -> dict:
    import dask.array as da
    from dask import delayed

    from kspr.selectors.engines.cluster import local_cluster

    with local_cluster(n_workers) as cluster:
        client = cluster._client
        # Imports are not what is measured.
        client.run(warm_up)
        paths = sorted(folder.glob("X*.npy"))
        blocks = [
            da.from_delayed(delayed(np.load)(path), np.load(path, mmap_mode="r").shape, np.float16)
            for path in paths
        ]
        X = da.concatenate(blocks)
        used = sum(client.run(time.process_time).values()) + time.process_time()
        begin = time.perf_counter()
        found = selector.set_params(engine="dask", client=client).fit(X, labels).selection_
        seconds = time.perf_counter() - begin
        cpu = sum(client.run(time.process_time).values()) + time.process_time() - used
    kept = {"kept": int(found.clean_mask.sum()), "q_sum": float(found.q_value.sum())}
    return {"seconds": seconds, "cpu": cpu, **kept}


def warm_up() -> None:
    import kspr.selectors.cluster_selection  # noqa: F401


def show(lines: list[dict]) -> None:
    by_kind = {line["kind"]: line for line in lines}
    for kind, line in by_kind.items():
        print(f"{kind:10} {line['seconds']:8.1f} s {line['cpu']:8.1f} s of processors", end="")
        print(f"  load {line['load']:.1f}  kept {line['kept']:,}")
    if set(KINDS) <= set(by_kind):
        assert len({line["q_sum"] for line in by_kind.values()}) == 1
        one, two, here = (by_kind[kind] for kind in ("workers 1", "workers 2", "process"))
        print(f"two workers: {one['seconds'] / two['seconds']:.2f} x as fast as one")
        print(f"one worker: {one['cpu'] / here['cpu']:.2f} x the processor time of one process")


if __name__ == "__main__":
    main()
