"""Is the error rate kept? Every mode and its peers, on known noise.

    python benchmarks/fsr.py            # measure what is missing, then write docs/error-rate.md
    python benchmarks/fsr.py --page     # only write the page from the measurements at hand

Each measurement is a cell (data, noise, seed, method) in benchmarks/results/fsr.jsonl; a run that
is interrupted goes on where it stopped. Labels and splits of a cell follow from its seed alone.
"""

import argparse
import json
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from _common import FEATURES, ROOT, machine
from _fsr_data import SETTINGS, Setting
from _fsr_methods import METHODS, Shared
from _fsr_page import PAGE, write_page
from kspr.core.metrics import selection_quality

RESULTS = ROOT / "benchmarks" / "results" / "fsr.jsonl"
COST = RESULTS.with_name("fsr-cost.json")
COST_SETTING = "CIFAR-10, Sym. 40%"
COST_METHODS = (
    "transition",
    "transition, pooled",
    "exchangeable",
    "exchangeable, no floor",
    "paper",
    "theorem",
    "cleanlab both",
    "nearest neighbours",
)


def measured() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text().splitlines()]


def key(record: dict[str, Any]) -> tuple[str, str, int, str]:
    return record["data"], record["noise"], record["seed"], record["method"]


def measure() -> None:
    """Fill in what is missing, setting by setting."""
    done = {key(record) for record in measured()}
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    neighbours: dict[str, Any] = {}
    jobs = [(setting, seed) for setting in SETTINGS for seed in range(setting.seeds)]
    for setting, seed in track(jobs, description="measuring"):
        missing = [
            name
            for name in METHODS
            if (setting.data, setting.noise, seed, name) not in done and _applies(name, setting)
        ]
        if missing:
            _measure(setting, seed, missing, neighbours)


def _applies(name: str, setting: Setting) -> bool:
    """Two classes leave nothing to exchange, and small sets cannot spare rows to check."""
    if setting.data == "breast cancer" and (name == "theorem" or name.startswith("exchangeable")):
        return False
    return "checked" not in name or setting.group != "small"


def _measure(setting: Setting, seed: int, missing: list[str], neighbours: dict[str, Any]) -> None:
    # Our own seeds go through a stream key, so noise and split of one number are apart.
    sample = setting.make(seed)
    # Settings that relabel the same rows share their neighbours.
    same = f"{setting.data} {len(sample.X)}" if setting.noise[:6] != "shares" else None
    shared = Shared(sample, neighbours.get(same))
    right = sample.y == sample.y_true
    for name in missing:
        answer = METHODS[name](shared, seed)
        if name == "nearest neighbours" and same and not setting.noise.startswith("dupl"):
            neighbours[same] = shared.neighbours()
        record = {
            "data": setting.data,
            "noise": setting.noise,
            "group": setting.group,
            "seed": seed,
            "method": name,
            "n": len(right),
            "wrong": round(float(1 - right.mean()), 5),
            "noise_rate": answer.noise_rate,
            "seconds": round(answer.seconds, 3),
            "at": {
                q: {k: round(v, 5) for k, v in vars(selection_quality(kept, right)).items()}
                | {"kept": int(np.sum(kept))}
                for q, kept in answer.keep.items()
            },
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "source": machine(1)["source"],
        }
        with RESULTS.open("a") as out:
            out.write(json.dumps(record) + "\n")


def measure_cost(repeats: int = 5) -> None:
    """Time the methods in turns on one sample: only ratios inside one run mean anything."""
    setting = next(s for s in SETTINGS if s.name == COST_SETTING)
    sample = setting.make(0)
    seconds: dict[str, list[float]] = {name: [] for name in COST_METHODS}
    for turn in track(range(repeats), description="timing"):
        for name in COST_METHODS:
            # Neighbours take half a minute and vary little: once is enough.
            if name != "nearest neighbours" or turn == 0:
                answer = METHODS[name](Shared(sample, None), 0)
                seconds[name].append(round(answer.seconds, 3))
    about = {"setting": COST_SETTING, "shape": list(sample.X.shape), "seconds": seconds}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    COST.write_text(json.dumps({**about, "date": when, "machine": machine(1)}, indent=1) + "\n")


def cost() -> dict[str, Any]:
    return dict(json.loads(COST.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    parser.add_argument("--cost", action="store_true", help="measure the times again")
    arguments = parser.parse_args()
    if not arguments.page:
        if not FEATURES.exists():
            parser.exit(2, f"The shared features are needed and not at {FEATURES}.\n")
        # One thread each: times compare, and a second job on the machine does not distort them.
        with threadpool_limits(1):
            measure()
            if arguments.cost or not COST.exists():
                measure_cost()
    write_page(measured(), cost())
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
