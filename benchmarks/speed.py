"""Measure speed, growth and memory against targets, and against cleanlab: ``make bench``.

Every ratio is taken inside one run, from alternating repeats while the machine is idle, so that
other work disturbs both sides of it or none. The table is printed, and all numbers behind it are
stored in ``benchmarks/results/speed.json``.
"""

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from _clock import Clock
from _common import RESULTS, machine
from _row_transcription import row_a
from _speed import NOISE_RATE, QUICK_ROWS, Bench, Data, Results, Row, load_data
from _speed_rows import million_rows, row_b, row_c, row_d, row_e

ROWS: dict[str, Callable[[Bench], Row]] = {
    "a": row_a,
    "b": row_b,
    "c": row_c,
    "d": row_d,
    "e": row_e,
    "f": lambda bench: million_rows(bench.seed, quick=len(bench.data.X) <= QUICK_ROWS),
}


def show(results: Results, data: Data, about: dict[str, Any], *, quick: bool) -> None:
    """Print every row of the file."""
    console = Console()
    console.print(f"{data.source}: {data.X.shape[0]:,} x {data.X.shape[1]}, 40 % symmetric noise")
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(f"{about['cpu']}, {about['cores']} cores, {versions}")
    if quick:
        console.print("Only a part of the data: the targets are for all of it.")
    table = Table("", "what", "measured", "target", "met")
    for name in (name for name in ROWS if name in results):
        row = results.row(name)
        table.add_section()
        table.add_row(name, f"[bold]{row['title']}[/bold]", "", "", "")
        for check in row["checks"]:
            met = {True: "yes", False: "[red]NO[/red]", None: ""}[check["met"]]
            table.add_row("", check["what"], f"{check['value']:.4g}", check["target"], met)
    console.print(table)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="a,b,c,d,e,f", help="which rows to measure")
    parser.add_argument("--quick", action="store_true", help="use a small part of the data")
    parser.add_argument("--resume", action="store_true", help="skip rows that are in the file")
    parser.add_argument("--out", type=Path, default=RESULTS / "speed.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="BLAS threads")
    parser.add_argument("--pieces", type=int, help="pieces that the transcription runs (row a)")
    parser.add_argument("--repeats", type=int, default=4, help="repeats of each timing")
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds to wait for an idle machine, in all"
    )
    arguments = parser.parse_args()
    arguments.rows = arguments.rows.split(",")
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        parser.error(f"--rows must name some of {','.join(ROWS)}, got {','.join(unknown)}")
    if arguments.pieces is not None and arguments.pieces < 8:
        parser.error(f"--pieces must be at least 8, got {arguments.pieces}")
    return arguments


def main() -> None:
    arguments = read_arguments()
    data = load_data(arguments.seed, quick=arguments.quick)
    about = machine(arguments.threads)
    conditions = {
        "machine": about,
        "data": {"source": data.source, "shape": list(data.X.shape), "noise": NOISE_RATE},
        "seed": arguments.seed,
    }
    results = Results(arguments.out, conditions)
    bench = Bench(
        data,
        arguments.seed,
        arguments.threads,
        arguments.pieces,
        arguments.repeats,
        Clock(arguments.patience),
    )
    with threadpool_limits(limits=arguments.threads, user_api="blas"):
        for name in arguments.rows:
            if arguments.resume and name in results:
                continue
            start = time.perf_counter()
            results.add(ROWS[name](bench), time.perf_counter() - start)
    show(results, data, about, quick=arguments.quick)


if __name__ == "__main__":
    main()
