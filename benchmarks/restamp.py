"""Keep the stored trials of a recipe after a change of the code that does not change their values.

    python benchmarks/restamp.py table1 human-noise --changed "kspr default" --jobs 2

A trial is stored under a fingerprint of its code (docs/architecture.md), so any change of that code
would have it run again. Here the quickest stored trial of each variant is run with the code of now.
Where its values are those that are stored, all trials of the variant get the fingerprint of now;
the others keep theirs, and `kspr reproduce` runs them again. Name variants whose values are meant
to change with --changed: one trial that is equal proves nothing for them. What was compared is
stored in results/restamped.json.
"""

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import track
from threadpoolctl import threadpool_limits

from _common import RESULTS, SHARED
from kspr._files import read_json, write_json
from kspr.experiments.fingerprint import code_digest
from kspr.experiments.reproduce.planning import plan, trial_fingerprint
from kspr.experiments.reproduce.recipes import load_recipe
from kspr.experiments.reproduce.trials import TrialSpec, compute, module_of

STORED = RESULTS / "reproduced"
COMPARED = RESULTS / "restamped.json"
Key = tuple[str, str, str, int]


def key(trial: Mapping[str, Any]) -> Key:
    return trial["data"], trial["noise"], trial["variant"], trial["seed"]


def planned(stored: Mapping[str, Any], data: Path) -> dict[Key, TrialSpec]:
    """Return the trials of a stored recipe as they would be run now."""
    seeds = 1 + max(trial["seed"] for trial in stored["trials"])
    specs = plan(load_recipe(stored["recipe"]), stored["scale"], seeds, data)
    return {(spec.data, spec.noise, spec.variant_name, spec.seed): spec for spec in specs}


def outdated(
    stored: Mapping[str, Any], names: Mapping[Key, str], changed: set[str]
) -> dict[str, list[dict[str, Any]]]:
    """Return the trials whose code has changed, by variant; not those of `changed`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for trial in stored["trials"]:
        if trial["fingerprint"] != names.get(key(trial)) and trial["variant"] not in changed:
            found.setdefault(trial["variant"], []).append(trial)
    return found


def stamp(trials: list[dict[str, Any]], names: Mapping[Key, str], source: str) -> None:
    """Give trials the fingerprints of now."""
    for trial in trials:
        trial.update(fingerprint=names[key(trial)], source=source)


def run_again(spec: TrialSpec) -> dict[str, Any]:
    """Return the values of a trial, computed on one thread, as `kspr reproduce` does it."""
    with threadpool_limits(1):
        return compute(spec)


def restamp(path: Path, data: Path, changed: set[str], jobs: int) -> list[dict[str, Any]]:
    """Compare the trials of one file, stamp what is equal, and return what was compared."""
    stored = json.loads(path.read_text("utf-8"))
    specs = planned(stored, data)
    names = {place: trial_fingerprint(spec) for place, spec in specs.items()}
    groups = outdated(stored, names, changed)
    quickest = [min(group, key=lambda trial: trial["seconds"]) for group in groups.values()]
    rows = []
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        again = pool.map(run_again, [specs[key(trial)] for trial in quickest])
        for group, trial, values in track(
            zip(groups.values(), quickest, again, strict=True), path.stem, len(quickest)
        ):
            is_equal = values == trial["values"]
            rows.append({"recipe": stored["recipe"], "trial": list(key(trial)), "equal": is_equal})
            if is_equal:
                stamp(group, names, code_digest(module_of(specs[key(trial)].kind)))
                # After each one: an interruption loses the running comparisons only.
                write_json(path, stored)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+", help="names of recipes, such as table1")
    parser.add_argument("--changed", nargs="*", default=[], help="variants that are run again")
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the data sets")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    for recipe in given.recipes:
        for path in sorted(STORED.glob(f"{recipe}-*.json")):
            rows = restamp(path, given.data, set(given.changed), given.jobs)
            when = datetime.now(UTC).isoformat(timespec="seconds")
            past = read_json(COMPARED) or []
            write_json(COMPARED, [*past, *({**row, "when": when} for row in rows)], indent=1)
            for row in rows:
                if not row["equal"]:
                    print(f"{row['recipe']}, {', '.join(map(str, row['trial']))}: other values")
            n_equal = sum(row["equal"] for row in rows)
            print(f"{path.stem}: {n_equal} of {len(rows)} compared trials have the same values")


if __name__ == "__main__":
    main()
