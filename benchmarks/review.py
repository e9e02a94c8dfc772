"""The review page on 50,000 images: seconds until it is there, and from a key to the next row.

Run by `make bench-review`. Needs the shared CIFAR-10 data and Debian's chromium. Adds a line to
benchmarks/results/review.jsonl; docs/review.md shows all of them.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Page, sync_playwright

from _common import SHARED, Bench, Store, either, markdown_table
from _data import cifar10
from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.runs.select import select_source
from kspr.sources.options import AS_SHIPPED, ReadOptions

CHROMIUM = "/usr/bin/chromium"
TRIALS = Store("review")
KEYS = either(200, 3)
PAUSE = 300
"""Milliseconds between keys: faster than people look at images."""
DIMENSIONS = either(128, 24)
WATCH = """() => {
    window.waits = [];
    let pressed = null;
    addEventListener("keydown", (event) => { pressed = event.timeStamp; }, true);
    const title = document.getElementById("check-title");
    new MutationObserver(async () => {
        const since = pressed;
        const image = document.querySelector("#stage img");
        await image?.decode();
        // The frame in which the image is drawn has begun.
        requestAnimationFrame(() => window.waits.push(performance.now() - since));
    }).observe(title, { childList: true });
}"""


def make_run(folder: Path) -> Path:
    """Write the images with their features and noisy labels, and select."""
    images = pq.read_table(SHARED / "cifar10" / "train.parquet", columns=["img"])
    data = cifar10()
    X = data.X[:, :DIMENSIONS]
    features = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), DIMENSIONS)
    label = symmetric(data.y, 0.2, seed=0)
    table = pa.table({"img": images["img"], "emb": features, "label": label})
    pq.write_table(table, folder / "cifar10.parquet")
    return select_source(
        folder / "cifar10.parquet",
        folder / "run",
        KnockoffsSPR(q=0.05),
        options=ReadOptions(features="emb", label="label"),
        settings=AS_SHIPPED,
        command=("kspr", "select"),
    ).folder


def processor_seconds(pid: int) -> float:
    """Return what a process has used of the processors, whatever others do meanwhile."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(run: Path, *options: str) -> Iterator[tuple[int, str]]:
    """Start `kspr review` on a run; gives the number of its process and its address."""
    command = [sys.executable, "-m", "kspr", "review", str(run), "--no-browser", "--port", "0"]
    server = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    try:
        yield server.pid, re.search(r"http://\S+", server.stdout.readline())[0]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def measured(run: Path, page: Page) -> dict[str, Any]:
    load = os.getloadavg()[0]
    start = time.perf_counter()
    options = ("--checks", str(KEYS + 1), "--reviewer", "benchmark")
    with serving(run, *options) as (process, address):
        printed = time.perf_counter() - start
        worked = processor_seconds(process)
        page.goto(address)
        page.wait_for_selector("#check-title")
        page.wait_for_function("() => document.getElementById('total').textContent.trim() > '0'")
        there = time.perf_counter() - start
        page.wait_for_selector("#stage img")
        page.evaluate("() => document.querySelector('#stage img').decode()")
        first = time.perf_counter() - start
        page.evaluate(WATCH)
        for _ in range(KEYS):
            page.keyboard.press(" ")
            page.wait_for_timeout(PAUSE)
        waits = page.evaluate("() => window.waits")
    assert len(waits) == KEYS, len(waits)
    quantile = {f"p{p}": round(float(np.percentile(waits, p)), 1) for p in (50, 95, 99, 100)}
    return {
        "rows": len(cifar10().y),
        "keys": KEYS,
        # Processes that waited for the two cores meanwhile: waits are longer on a busy machine.
        "load": round(load, 1),
        "milliseconds": quantile,
        "seconds": {
            "address printed": round(printed, 2),
            "processor, until then": round(worked, 2),
            "page there": round(there, 2),
            "first row": round(first, 2),
        },
    }


def measure() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = make_run(Path(folder))
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox", "--disable-gpu"]}
        browser = playwright.chromium.launch(**options)
        found = measured(run, browser.new_page(viewport={"width": 1400, "height": 900}))
        browser.close()
    print(found)
    TRIALS.add(found)


def shown() -> str:
    """Return a line for every measurement."""
    head = [
        "processes that wanted the two cores",
        "key to next row, 95th percentile",
        "median",
        "processor time until the address is printed",
        "the same by the clock",
    ]
    rows = []
    for trial in TRIALS.trials():
        waits, took = trial["milliseconds"], trial["seconds"]
        seconds = (took["processor, until then"], took["address printed"])
        cells = [f"{waits[p]} ms" for p in ("p95", "p50")] + [f"{each} s" for each in seconds]
        rows.append([str(trial["load"]), *cells])
    return markdown_table(head, rows)


BENCH = Bench(
    "make bench-review",
    "review.md",
    (TRIALS,),
    shown,
    lambda _: measure(),
    files=("src/kspr/review", "src/kspr/runs"),
)

if __name__ == "__main__":
    BENCH.run(__doc__)
