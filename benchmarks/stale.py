"""List the pages whose numbers are older than the code that they measure: `make stale`.

A benchmark names the source files that it measures, in MEASURES, and its stored results carry the
commit at which they were measured. A page is stale where one of these files has changed since, or
where results have no commit.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import RESULTS, ROOT, arguments, markdown_table, read_trials

BENCHMARKS = (
    "checkers",
    "clusters",
    "crowd",
    "defaults",
    "draws",
    "embedders",
    "embedding",
    "fsr",
    "probabilities",
    "results",
    "review",
    "scale",
    "sharper",
    "speed",
    "train_head",
    "train_images",
)
"""Scripts with a page."""


def stored(name: str, module: Any) -> list[dict[str, Any]]:
    """Return the results that a page shows."""
    if name == "fsr":
        return read_trials(module.TRIALS) + read_trials(RESULTS / "estimates.jsonl")
    if name != "results":
        return read_trials(module.TRIALS)
    reproduced = [json.loads(path.read_text()) for path in sorted(module.STORED.glob("*.json"))]
    return [*read_trials(module.PEERS), *(t for found in reproduced for t in found["trials"])]


def changes(commit: str, files: tuple[str, ...]) -> int | None:
    """Return how many later commits have touched some files; None for an unknown commit."""
    since = f"{commit.removesuffix('-dirty')}..HEAD"
    command = ["git", "rev-list", "--count", since, "--", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def state(trials: list[dict[str, Any]], files: tuple[str, ...]) -> str:
    """Return in a few words whether results are older than the code; nothing where they are not."""
    commits = {trial.get("commit") for trial in trials}
    older = sum("commit" not in trial for trial in trials)
    said = [f"{older} of {len(trials)} before stamps"] if older else []
    since = {commit: changes(commit, files) for commit in commits - {None}}
    said += [f"{commit}: unknown here" for commit, n in since.items() if n is None]
    if most := max((n for n in since.values() if n), default=0):
        said.append(f"{most} commits to the measured files since")
    return "; ".join(said)


def main() -> None:
    arguments(__doc__).parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    rows = []
    for name in BENCHMARKS:
        module = importlib.import_module(name)
        if found := state(stored(name, module), module.MEASURES):
            rows.append([str(Path("docs") / module.PAGE.name), f"{name}.py", found])
    print(markdown_table(["page", "made by", "why it is stale"], rows) if rows else "none")


if __name__ == "__main__":
    main()
