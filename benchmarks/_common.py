"""What all benchmarks share: places, stored trials with their stamps, measured parts of pages.

With ``--smoke`` a benchmark runs in seconds on small data that is drawn for it. It goes through the
same code, and everything it reads and writes lies in a temporary folder, named by the environment
variable KSPR_SMOKE for the processes that it starts.
"""

import argparse
import atexit
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from rich.progress import track

from _prose import wrap_prose

__all__ = [
    "BENCHES",
    "DOCS",
    "ROOT",
    "SHARED",
    "SMOKE",
    "WORK",
    "Bench",
    "Store",
    "arguments",
    "either",
    "markdown_table",
    "measured_when",
    "stamp",
    "versions_in_words",
]

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
SMOKE = "--smoke" in sys.argv or "KSPR_SMOKE" in os.environ


def _smoke_folder() -> Path:
    """Return the folder of this smoke run, with a copy of the pages; removed at the end."""
    if "KSPR_SMOKE" not in os.environ:
        folder = Path(tempfile.mkdtemp(prefix="kspr-smoke-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["KSPR_SMOKE"] = str(folder)
        for place in ("figures", "how-to"):
            (folder / "docs" / place).mkdir(parents=True)
        for place in ("docs", "docs/how-to"):
            for page in (ROOT / place).glob("*.md"):
                shutil.copy(page, folder / place)
    return Path(os.environ["KSPR_SMOKE"])


_BASE = _smoke_folder() if SMOKE else ROOT
RESULTS = _BASE / "benchmarks" / "results"
DOCS = _BASE / "docs"
WORK = _BASE / ".benchmarks"
"""Intermediate results, which are not stored."""
SHARED = _BASE / "data" if SMOKE else ROOT.parent / "shared" / "data"
"""Data sets beside the repository."""


def either(real: T, smoke: T) -> T:
    """Return a size of the benchmark, or that of its smoke run."""
    return smoke if SMOKE else real


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="seconds on small data; keep nothing")
    parser.add_argument("--page", action="store_true", help="write the page, measure nothing")
    parser.add_argument(
        "--again", action="store_true", help="drop stored results of other commits first"
    )
    return parser


# Stored trials ------------------------------------------------------------------------------------


PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "kspr": "knockoffs-spr",
    "cleanlab": "cleanlab",
    "torch": "torch",
    "onnxruntime": "onnxruntime",
    "transformers": "transformers",
    "distributed": "dask",
    "starlette": "starlette",
}
"""Packages by the name of their module: a stamp has the versions of those that are loaded."""


@cache
def commit() -> str:
    """Return the commit that is checked out; ``-dirty`` where files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


@cache
def processor() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def stamp() -> dict[str, Any]:
    """Return commit, date and machine for a result that is measured now."""
    versions = {name: version(name) for module, name in PACKAGES.items() if module in sys.modules}
    return {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": processor(),
            "cores": os.cpu_count(),
            "versions": {"python": platform.python_version(), **versions},
        },
    }


@dataclass(frozen=True)
class Store:
    """The trials of a benchmark: lines of a file in benchmarks/results."""

    name: str

    @property
    def path(self) -> Path:
        """The file."""
        return RESULTS / f"{self.name}.jsonl"

    def trials(self) -> list[dict[str, Any]]:
        """Return the trials, in the order in which they were measured; none without a file."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def named(self) -> dict[str, dict[str, Any]]:
        """Return the trials by their names."""
        return {trial["name"]: trial for trial in self.trials()}

    def done(self, *keys: str) -> set[tuple[Any, ...]]:
        """Return the values of some entries in all trials."""
        return {tuple(trial[key] for key in keys) for trial in self.trials()}

    def keep(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the trials that are not wanted."""
        kept = [trial for trial in self.trials() if wanted(trial)]
        if len(kept) < len(self.trials()):
            self.path.write_text("".join(json.dumps(trial) + "\n" for trial in kept))

    def add(self, trial: dict[str, Any], replaces: Sequence[str] = ()) -> None:
        """Store a trial with its stamp, in the place of one with the same values of `replaces`."""
        if replaces:
            self.keep(lambda old: any(old.get(key) != trial[key] for key in replaces))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as out:
            out.write(json.dumps({**trial, **stamp()}) + "\n")

    def run(
        self,
        measure: Callable[..., dict[str, Any]],
        given: Sequence[tuple[Any, ...]],
        workers: int,
    ) -> None:
        """Call `measure` with each of `given` in a process of its own, and store every trial."""
        if SMOKE:
            # Starting processes takes longer than the trials.
            for one in given:
                self.add(measure(*one))
            return
        with ProcessPoolExecutor(workers, max_tasks_per_child=1) as pool:
            waiting = [pool.submit(measure, *one) for one in given]
            for future in track(as_completed(waiting), total=len(waiting), description="training"):
                # Stored as soon as it is there: an interruption loses the running trials only.
                self.add(future.result())


# Pages --------------------------------------------------------------------------------------------


def measured_when(trials: Iterable[Mapping[str, Any]]) -> str:
    """Return when, at which commits and where trials were measured, as a sentence."""
    trials = list(trials)
    commits = list(dict.fromkeys(trial["commit"] for trial in trials if "commit" in trial))
    older = sum("commit" not in trial for trial in trials)
    dates = sorted(
        {trial[key][:10] for trial in trials for key in ("date", "when") if key in trial}
    )
    machines = dict.fromkeys(
        f"{trial['machine']['cpu']}, {trial['machine']['cores']} cores"
        for trial in trials
        if "machine" in trial
    )
    words = ["Measured", " to ".join(dict.fromkeys([*dates[:1], *dates[-1:]]))]
    if commits:
        more = f" and {len(commits) - 4} more" if commits[4:] else ""
        words.append(f"at {', '.join(commits[:4])}{more}")
        words.append(f"({older} of {len(trials)} results before stamps)" if older else "")
    else:
        words.append("before stamps, at no stored commit")
    words.append(f"({'; '.join(machines)})" if machines else "")
    return " ".join(filter(None, words)) + "."


def versions_in_words(trial: Mapping[str, Any], *names: str) -> str:
    """Return the versions of packages that a trial was measured with."""
    stored = trial["machine"]["versions"]
    return ", ".join(f"{name} {stored[name]}" for name in names if stored.get(name))


def markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


@dataclass(frozen=True)
class Bench:
    """A command that measures, the file of its results, and the page that shows them."""

    command: str
    page_name: str
    stores: tuple[Store, ...]
    """A run with ``--again`` keeps only what was measured at this commit."""
    shown: Callable[[], str | Mapping[str, str]]
    """Returns what stands between the marks of the page; of several marks, by their names."""
    measure: Callable[[argparse.Namespace], object] | None = None
    """Stores the trials that are missing; None for a page of the results of others."""
    files: tuple[str, ...] = ("src/kspr/core", "src/kspr/selectors")
    """What is measured: the page is stale where one of these has changed since."""
    shared: bool = True
    """Whether the data sets beside the repository are needed."""
    stamped: bool = True
    """Whether the page says when trials were measured: below its part, or in the part `when`."""
    draw: Callable[[], object] | None = None
    """Writes the figures of the page."""

    def __post_init__(self) -> None:
        BENCHES.append(self)

    @property
    def page(self) -> Path:
        """The page in docs/."""
        return DOCS / self.page_name

    def trials(self) -> list[dict[str, Any]]:
        """Return the stored trials."""
        return [trial for store in self.stores for trial in store.trials()]

    def filled(self, text: str) -> str:
        """Return the page's text with what was measured between its marks."""
        shown = self.shown()
        parts = {"": shown} if isinstance(shown, str) else dict(shown)
        if self.stamped:
            when = measured_when(self.trials())
            parts = {"": f"{shown}\n\n{when}"} if "" in parts else {"when": when, **parts}
        for name, part in parts.items():
            begin = f"<!-- measured by `{self.command}`{': ' * bool(name)}{name} -->\n"
            end = "<!-- end of what was measured -->"
            before, mark, rest = text.partition(begin)
            if not mark:
                raise ValueError(f"{self.page} has no mark {begin.strip()}")
            filled = wrap_prose(f"\n{part.strip()}\n")
            text = f"{before}{begin}{filled}\n{end}{rest.partition(end)[2]}"
        return text

    def run(self, given: argparse.ArgumentParser | str) -> None:
        """Measure what is missing, unless only the page is asked for, and fill the page.

        `given` is a description, or a parser with more options.
        """
        parser = arguments(given) if isinstance(given, str) else given
        chosen = parser.parse_args()
        if self.measure is not None and not chosen.page:
            for store in self.stores if chosen.again else ():
                store.keep(lambda trial: trial.get("commit") == commit())
            if self.shared:
                # Imported here: it uses this module, and makes the data of a smoke run.
                from _data import FEATURES

                if not FEATURES.exists():
                    parser.exit(1, f"The shared data is needed and not at {SHARED}.\n")
            self.measure(chosen)
        if self.draw is not None:
            self.draw()
        self.page.write_text(self.filled(self.page.read_text()))
        print(f"wrote {self.page}")


BENCHES: list[Bench] = []
"""Every benchmark that has been imported."""
