"""Move stored results to the present names and code, once: they are not computed again.

    python benchmarks/migrate.py benchmarks/results
    python benchmarks/migrate.py benchmarks/results --verified BEFORE.json AFTER.json

Without --verified, keys are renamed and nothing else. With it, the trials of `kspr reproduce` get
the fingerprint and the digest of the present code, and speed.json gets the digest, so that they
count as results of this code. BEFORE.json and AFTER.json are written by `_migrate_trials.py` on the
checkouts before and after a change of the code that must not change a number; they must hold the
same values. The comparison is stored as migration.json. Running this script again changes nothing.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _common import SHARED
from kspr._files import read_json, write_json, write_text
from kspr.experiments.fingerprint import code_digest
from kspr.experiments.reproduce.planning import plan, trial_fingerprint
from kspr.experiments.reproduce.recipes import load_recipe
from kspr.experiments.reproduce.trials import KINDS, module_of

RENAMED = {"cells": "trials", "handed_over": "model_choice", "setting": "case"}
"""Old key: new key, wherever it occurs in a stored file."""
REQUIRED = (
    *(f"reproduce {kind}" for kind in KINDS),
    "error rate",
    "compare",
    "defaults",
    "train head",
    "train images",
)
"""Kinds of trial that must have been compared."""
FEWEST = 2
"""Trials of each kind that must have been compared."""


def renamed(value: Any) -> Any:
    """Return `value` with the present names of keys."""
    if isinstance(value, dict):
        return {RENAMED.get(name, name): renamed(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry) for entry in value]
    return value


def rename_keys(results: Path) -> list[Path]:
    """Rename the keys in all files of the folder; return the files that have changed."""
    changed = []
    for path in sorted([*results.rglob("*.json"), *results.rglob("*.jsonl")]):
        text = path.read_text("utf-8")
        if path.suffix == ".jsonl":
            lines = [json.loads(line) for line in text.splitlines()]
            if renamed(lines) != lines:
                write_text(path, "".join(json.dumps(renamed(line)) + "\n" for line in lines))
                changed.append(path)
        elif renamed(json.loads(text)) != json.loads(text):
            write_json(path, renamed(json.loads(text)), indent=1)
            changed.append(path)
    return changed


def compared(before: Path, after: Path) -> list[dict[str, Any]]:
    """Return one row for each trial of both files: its kind, name, number of values, equality."""
    old, new = (
        {(entry["kind"], entry["trial"]): renamed(entry["values"]) for entry in json.loads(text)}
        for text in (before.read_text("utf-8"), after.read_text("utf-8"))
    )
    return [
        {
            "kind": kind,
            "trial": trial,
            "values": sum(1 for _ in leaves(old[kind, trial])),
            "equal": old[kind, trial] == new[kind, trial],
        }
        for kind, trial in old
        if (kind, trial) in new
    ]


def leaves(value: Any) -> Iterator[Any]:
    """Yield the single values of nested lists and dictionaries."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def objections(rows: list[dict[str, Any]]) -> list[str]:
    """Return why the comparison does not allow new fingerprints; nothing if it does."""
    found = [f"{row['kind']}, {row['trial']}: values differ" for row in rows if not row["equal"]]
    counts = Counter(row["kind"] for row in rows if row["equal"] and row["values"])
    found += [
        f"{kind}: {counts[kind]} equal trials, at least {FEWEST} are needed"
        for kind in REQUIRED
        if counts[kind] < FEWEST
    ]
    return found


def stamp(results: Path, data: Path) -> int:
    """Write present fingerprints and digests into the stored trials; return how many were new."""
    n_stamped = 0
    for path in sorted((results / "reproduced").glob("*.json")):
        stored = json.loads(path.read_text("utf-8"))
        recipe, scale = load_recipe(stored["recipe"]), stored["scale"]
        seeds = 1 + max(trial["seed"] for trial in stored["trials"])
        planned = {
            (spec.data, spec.noise, spec.variant_name, spec.seed): spec
            for spec in plan(recipe, scale, seeds, data)
        }
        source = code_digest(module_of(recipe.scale(scale).kind))
        for trial in stored["trials"]:
            spec = planned[trial["data"], trial["noise"], trial["variant"], trial["seed"]]
            now = {"fingerprint": trial_fingerprint(spec), "source": source}
            n_stamped += not now.items() <= trial.items()
            trial.update(now)
        stored["machine"]["source"] = source
        write_json(path, stored, indent=1)
    speed = results / "speed.json"
    measured = read_json(speed)
    if measured is not None:
        measured["machine"]["source"] = code_digest("kspr.selectors")
        write_json(speed, measured, indent=1)
    return n_stamped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="folder of stored results")
    parser.add_argument("--verified", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the data sets")
    given = parser.parse_args()
    changed = rename_keys(given.results)
    print(f"renamed keys in {len(changed)} files")
    if given.verified is None:
        return
    rows = compared(*given.verified)
    refused = objections(rows)
    if refused:
        reasons = "".join(f"  {reason}\n" for reason in refused)
        parser.exit(2, f"no new fingerprints:\n{reasons}")
    n_stamped = stamp(given.results, given.data)
    table = given.results / "migration.json"
    if (read_json(table) or {}).get("trials") != rows:
        when = datetime.now(UTC).isoformat(timespec="seconds")
        write_json(table, {"when": when, "trials": rows}, indent=1)
    print(f"{len(rows)} trials are equal; {n_stamped} stored trials have new fingerprints")


if __name__ == "__main__":
    main()
