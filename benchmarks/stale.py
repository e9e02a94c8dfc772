"""List the pages whose numbers are older than the code that they measure: `make stale`.

A benchmark names the source files that it measures, and its stored results carry the commit at
which they were measured. A page is stale where one of these files has changed since, or where
results have no commit.
"""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

from _common import BENCHES, ROOT, arguments, markdown_table

HERE = Path(__file__).parent


def import_all() -> None:
    """Import every script, for its entries in `BENCHES`."""
    sys.path.insert(0, str(HERE))
    for path in sorted(HERE.glob("[!_]*.py")):
        importlib.import_module(path.stem)


def changes(commit: str, files: tuple[str, ...]) -> int | None:
    """Return how many later commits have touched some files; None for an unknown commit."""
    since = f"{commit.removesuffix('-dirty')}..HEAD"
    command = ["git", "rev-list", "--count", since, "--", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def state(trials: list[dict[str, Any]], files: tuple[str, ...]) -> str:
    """Return in a few words whether results are older than the code; nothing where they are not."""
    commits = {trial.get("commit") for trial in trials}
    older = sum(not trial.get("commit") for trial in trials)
    said = [f"{older} of {len(trials)} before stamps"] if older else []
    since = {commit: changes(commit, files) for commit in commits - {None}}
    said += [f"{commit}: unknown here" for commit, n in since.items() if n is None]
    if most := max((n for n in since.values() if n), default=0):
        said.append(f"{most} commits to the measured files since")
    return "; ".join(said)


if __name__ == "__main__":
    arguments(__doc__).parse_args()
    import_all()
    rows = [
        [f"docs/{bench.page_name}", bench.command, found]
        for bench in BENCHES
        if (found := state(bench.trials(), bench.files))
    ]
    print(markdown_table(["page", "made by", "why it is stale"], rows) if rows else "none")
