"""Large data and very many classes: time and memory of a fit, row by row.

``python benchmarks/scale.py`` measures the rows that ``benchmarks/results/scale.jsonl`` lacks, and
writes the table of docs/large-data.md. Times are compared with one X'X
over the same file in the same process. Files are made in ``--folder``, a temporary one by default,
and removed after their row.
"""

import argparse
import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _clock import in_process, peak, reset_peak
from _common import SMOKE, Bench, Store, arguments, either, markdown_table
from kspr import KnockoffsSPR, selection_quality

TRIALS = Store("scale")
NOISE_RATE, BLOCK = 0.3, 8192
SHORT = either((1_500, 5_000, 50_000), (200, 300, 500))
PARTS = (50_000, 25_000, 12_500)
FEW, MANY = either((1_000_000, 5_000_000), (3_000, 6_000))
"""Rows of the fits whose peaks are compared."""
IN_FILES = either((3_000_000, 6_000_000), (500, 1_000))
"""Rows of the files whose commands are compared."""


CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    "cut per class": {"cut": "per_class"},
    "level f1": {"level": "f1"},
    "exchangeable": {"control": "exchangeable"},
    "checked rows": {"checked": True},
}
"""Ways to decide of which the bytes a row are counted."""


COMMANDS: dict[str, tuple[str, ...]] = {
    "select": ("select", "data.parquet", "--label=label", "--fit-rows=100000", "--out=run"),
    "verify": ("verify", "run", "--checks=100", "--out=checks.csv"),
    "report": ("report", "run", "--out=report.html"),
    "export to parquet": ("export", "run", "--out=clean.parquet"),
    "export to CSV": ("export", "run", "--out=clean.csv"),
}
"""Commands of which the bytes a row are counted, in the folder of their data."""


@dataclass(frozen=True)
class Case:
    """One row of the table; limits are those of the issue, None without one."""

    name: str
    n: int
    p: int
    c: int
    ratio: float | None = None
    gigabytes: float | None = None


CASES = (
    Case("ImageNet's shape", 1_281_167, 512, 1_000, 25, 2.5),
    Case("10 million rows", 10_000_000, 256, 100, 20, 2.0),
    Case("very many classes", 200_000, 256, 20_000, None, 6.0),
    # Both have more rows than are fitted, so that only rows differ.
    Case("rows", 1_250_000, 128, 10),
    Case("8 x the rows", 10_000_000, 128, 10),
    Case("in memory", 50_000, 512, 10, 15, None),
)
if SMOKE:
    CASES = (Case("rows", 400, 16, 10),)
    CHOICES = {"checked rows": CHOICES["checked rows"]}
    COMMANDS = {"select": COMMANDS["select"]}


def measure(chosen: argparse.Namespace) -> None:
    works: dict[str, Any] = {
        case.name: lambda case=case: in_child(case, chosen.folder) for case in CASES
    }
    works |= {
        "neighbour": beside_a_busy_process,
        "bytes": bytes_a_row,
        "commands": peaks_of_commands,
        "parts": fitted_parts,
    }
    for name, work in works.items():
        if chosen.only in (None, name) and name not in TRIALS.named():
            row = work()
            print(f"{name}: {json.dumps(row)}", flush=True)
            TRIALS.add({"name": name, "measured": row}, ["name"])


def in_child(case: Case, folder: Path | None) -> dict[str, Any]:
    """Make the data, and measure it in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        make(Path(place), case.n, case.p, case.c)
        return {
            "n": case.n,
            "p": case.p,
            "c": case.c,
            **in_process(__file__, "fit", place),
        }


def make(folder: Path, n: int, p: int, c: int) -> None:
    """Write float16 features around one centre a class, as far apart as ImageNet's, and labels."""
    rng = np.random.default_rng(0)
    centre = rng.standard_normal((c, p), dtype=np.float32)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float16, (n, p))
    # Every class has rows, also where there are few for each.
    truth = rng.permutation(np.arange(n) % c)
    for start in range(0, n, BLOCK):
        rows = slice(start, start + BLOCK)
        noise = rng.standard_normal(X[rows].shape, dtype=np.float32)
        X[rows] = centre[truth[rows]] + 2.0 * noise
    wrong = rng.random(n) < NOISE_RATE
    np.save(folder / "y.npy", np.where(wrong, (truth + rng.integers(1, c, n)) % c, truth))
    np.save(folder / "truth.npy", truth)


def measured(place: str) -> dict[str, Any]:
    """Return what one X'X and one fit take, and what the fit keeps."""
    folder = Path(place)
    # Not the true labels: their memory is no part of a fit.
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    model = KnockoffsSPR(q=0.05)
    times = []
    # Short fits take turns with the product: one of each says little.
    for _ in range(5 if len(X) <= max(SHORT) else 1):
        product = clocked(lambda: gram(X))
        reset_peak()
        times.append((product, clocked(lambda: model.fit(X, y))))
    most = peak()
    product, fit = (
        sorted(kind, key=lambda time: time["seconds"])[len(times) // 2]
        for kind in zip(*times, strict=True)
    )
    quality = selection_quality(model.selection_.clean_mask, y == np.load(folder / "truth.npy"))
    return {
        "product": product,
        "fit": fit,
        "peak_bytes": most,
        "fsr": quality.fsr,
        "recall": quality.recall,
    }


def beside_a_busy_process() -> dict[str, Any]:
    """Time short fits with all threads and one, alone and beside a process that never waits."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), max(SHORT), 512, 10)
        for name in either(("alone", "busy"), ("alone",)):
            command = [sys.executable, "-c", "while True: pass"]
            other = subprocess.Popen(command) if name == "busy" else None
            try:
                for threads in either(("all", "1"), ("1",)):
                    limit = {} if threads == "all" else {"OPENBLAS_NUM_THREADS": "1"}
                    found[f"{name}, threads: {threads}"] = in_process(
                        __file__, "seconds", place, **limit
                    )
            finally:
                if other is not None:
                    other.kill()
                    other.wait()
    return found


def bytes_a_row() -> dict[str, float]:
    """Return by how many bytes a row more raises the peak of a fit, for each of the `CHOICES`.

    The fit itself is on few rows, so that its memory does not hide that of the columns.
    """
    found = {}
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), MANY, 64, 10)
        for name in CHOICES:
            few, many = (in_process(__file__, "peak", place, name, n) for n in (FEW, MANY))
            found[name] = (many - few) / (MANY - FEW)
    return found


def peaks_of_commands() -> dict[str, dict[str, dict[str, int]]]:
    """Return the peak of each of the `COMMANDS`, by the number of rows, without and with ids.

    Features are above the size from which they are mapped: below, they are held in memory.
    """
    found: dict[str, dict[str, dict[str, int]]] = {}
    for ids in (False, True):
        for n in IN_FILES:
            with tempfile.TemporaryDirectory() as place:
                make_table(Path(place), n, 32, 10, ids=ids)
                peaks = {name: peak_in(Path(place), words) for name, words in COMMANDS.items()}
            found.setdefault("ids" if ids else "no ids", {})[str(n)] = peaks
    return found


def make_table(folder: Path, n: int, p: int, c: int, *, ids: bool) -> None:
    """Write a parquet file: features, labels as texts of six characters, ids of sixteen."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centre = rng.standard_normal((c, p), dtype=np.float32)
    names = np.array([f"cla-{k:02d}" for k in range(c)])
    writer = None
    for start in range(0, n, 8 * BLOCK):
        m = min(8 * BLOCK, n - start)
        truth = rng.integers(c, size=m)
        X = centre[truth] + 1.2 * rng.standard_normal((m, p), dtype=np.float32)
        y = np.where(rng.random(m) < NOISE_RATE, rng.integers(c, size=m), truth)
        columns = {f"f{k}": X[:, k] for k in range(p)} | {"label": names[y]}
        if ids:
            columns["id"] = [f"row-{row:012d}" for row in range(start, start + m)]
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(folder / "data.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def peak_in(folder: Path, words: tuple[str, ...]) -> int:
    """Return the peak of one command, in a process of its own."""
    command = [sys.executable, "-m", "kspr", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"kspr {' '.join(words)} ended with {process.returncode}")
    return used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def peak_of(place: str, choice: str, rows: str) -> int:
    """Return the peak of one fit of the first `n` rows, after a short one that loads all code."""
    folder, n = Path(place), int(rows)
    X, y = np.load(folder / "X.npy", mmap_mode="r")[:n], np.load(folder / "y.npy")[:n].copy()
    parameters = dict(CHOICES[choice])
    some = np.random.default_rng(0).choice(n, 200, replace=False)
    truth = np.load(folder / "truth.npy", mmap_mode="r")[some]
    checked = (some, truth) if parameters.pop("checked", False) else None
    KnockoffsSPR(fit_rows=FEW // 50, **parameters).fit(X[: FEW // 30], y[: FEW // 30])
    reset_peak()
    KnockoffsSPR(fit_rows=FEW // 10, **parameters).fit(X, y, checked=checked)
    return peak()


def short_fits(place: str) -> dict[str, float]:
    """Return the median seconds of five fits, for each number of rows."""
    folder = Path(place)
    X, y = np.load(folder / "X.npy").astype(np.float32), np.load(folder / "y.npy")
    found = {}
    for n in SHORT:
        rows = (X[:n], y[:n])
        KnockoffsSPR().fit(*rows)
        seconds = [
            clocked(lambda rows=rows: KnockoffsSPR().fit(*rows))["seconds"] for _ in range(5)
        ]
        found[f"{n:,}"] = float(np.median(seconds))
    return found


def fitted_parts() -> list[dict[str, float]]:
    """Return what a fit on a part of the CIFAR-10 features keeps; nothing without these."""
    # Imported here: processes whose memory is measured have no need of it.
    from _data import FEATURES, cifar10
    from kspr.noise import symmetric

    if not FEATURES.exists():
        return []
    X, truth = cifar10().X, cifar10().y
    found = []
    for noise, q in ((0.4, 0.05), (0.8, 0.2)):
        y = symmetric(truth, noise, 0)
        for rows in PARTS:
            clean = KnockoffsSPR(q=q, fit_rows=rows).fit(X, y).selection_.clean_mask
            quality = selection_quality(clean, y == truth)
            part = {"noise": noise, "q": q, "rows": rows}
            found.append({**part, "fsr": quality.fsr, "recall": quality.recall})
    return found


def gram(X: np.ndarray) -> np.ndarray:
    total = np.zeros((X.shape[1], X.shape[1]), dtype=np.float32)
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK].astype(np.float32)
        total += block.T @ block
    # Pages of the file that this has read are no memory of the fit.
    X._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    return total


def clocked(work: Any) -> dict[str, float]:
    """Return seconds, processor seconds, and how busy the machine was at the end."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "load": os.getloadavg()[0],
    }


def more_rows(found: dict[str, Any]) -> list[str]:
    """Return what eight times the rows cost, and how this version compares with an earlier one."""
    lines = []
    if {"rows", "8 x the rows"} <= set(found):
        few, many = found["rows"], found["8 x the rows"]
        more = (many["peak_bytes"] - few["peak_bytes"]) / (many["n"] - few["n"])
        times = many["fit"]["seconds"] / few["fit"]["seconds"]
        lines += [
            f"Eight times the rows ({few['n']:,} to {many['n']:,}) take {times:.1f} times as long "
            f"(<= 8.5), and {more:.0f} bytes of memory for each row more (<= 60). The peak of the "
            "smaller case is that of its fit.",
        ]
    if found.get("bytes"):
        counted = ", ".join(f"{name} {value:.0f}" for name, value in found["bytes"].items())
        lines += [
            "Bytes that a row more adds to the peak of all other passes, the caller's own labels "
            f"of 8 bytes among them (asked for: 60): {counted}.",
        ]
    if found.get("commands"):
        lines.append(commands_in_words(found["commands"]))
    return lines


def commands_in_words(found: dict[str, dict[str, dict[str, int]]]) -> str:
    """Return what a row more adds to the peak of each command, and the largest of the peaks."""
    counted = []
    for kind in found.values():
        few, many = sorted(kind, key=int)
        rows = int(many) - int(few)
        slopes = {name: (kind[many][name] - kind[few][name]) / rows for name in COMMANDS}
        counted.append(", ".join(f"{name} {value:.0f}" for name, value in slopes.items()))
    few, many = (f"{int(n):,}" for n in sorted(next(iter(found.values())), key=int))
    most = max(peak for kind in found.values() for row in kind.values() for peak in row.values())
    return (
        f"Bytes that a row more adds to the peak of commands on a parquet file ({few} to {many} "
        f"rows of 32 features, 10 labels of six characters; asked for: 60): {counted[0]}. With an "
        f"id of sixteen characters for each row: {counted[1]}. The largest of all these peaks is "
        f"{most / 1e9:.2f} GB."
    )


def shown() -> str:
    """Return the tables, and a sentence on each kind of memory."""
    trials = TRIALS.named()
    found = {name: trial["measured"] for name, trial in trials.items() if trial["measured"]}
    rows = []
    for case in CASES:
        row = found.get(case.name)
        if row is None:
            continue
        wall, cpu = (row["fit"][unit] / row["product"][unit] for unit in ("seconds", "cpu"))
        limit = "" if case.ratio is None else f" (<= {case.ratio:g})"
        most = "" if case.gigabytes is None else f" (<= {case.gigabytes:g})"
        cells = [f"{row['n']:,} x {row['p']}, {row['c']:,} classes", f"{wall:.1f}{limit}"]
        cells += [f"{cpu:.1f}", f"{row['peak_bytes'] / 1e9:.2f}{most}"]
        rows.append([*cells, f"{row['fsr']:.3f}", f"{row['recall']:.3f}"])
    head = ["data", "times one X'X", "in processor time", "peak memory, GB", "FSR, q = 0.05"]
    lines = [markdown_table([*head, "recall"], rows), *more_rows(found)]
    if found.get("neighbour"):
        sizes = list(next(iter(found["neighbour"].values())))
        rows = [
            [name, *(f"{row[size]:.2f}" for size in sizes)]
            for name, row in found["neighbour"].items()
        ]
        head = ["seconds of a fit, 512 columns", *sizes[:-1], f"{sizes[-1]} rows"]
        lines.append(markdown_table(head, rows))
    if found.get("parts"):
        rows = [
            [f"Sym. {part['noise']:.0%}, q = {part['q']:g}", f"{part['rows']:,}"]
            + [f"{part[name]:.3f}" for name in ("fsr", "recall")]
            for part in found["parts"]
        ]
        head = ["CIFAR-10 features, 50,000 x 512", "rows fitted", "FSR", "recall"]
        lines.append(markdown_table(head, rows))
    return "\n\n".join(lines)


BENCH = Bench(
    "make bench-scale",
    "large-data.md",
    (TRIALS,),
    shown,
    measure,
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/runs", "src/kspr/sources"),
    shared=False,
)
CHILDREN = {"fit": measured, "seconds": short_fits, "peak": peak_of}
"""What processes of their own measure."""

if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(CHILDREN[sys.argv[2]](*sys.argv[3:])))
        sys.exit()
    parser = arguments(__doc__)
    parser.add_argument("--only", help="name of a row")
    parser.add_argument("--folder", type=Path, help="where files are made")
    BENCH.run(parser)
