"""Commands in processes that are killed, right after a rename or at any moment."""

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.hostile.made_by_kspr import rows

NEVER = -1
PROCESSES = multiprocessing.get_context("forkserver")
# Loading these takes seconds; processes that are forked from this one have them already.
PROCESSES.set_forkserver_preload(
    [
        *("kspr.cli", "kspr.runs.export", "kspr.runs.verify", "kspr.train.source"),
        *("sklearn.linear_model", "matplotlib.figure", "matplotlib.backends.backend_svg"),
    ]
)


@dataclass(frozen=True)
class Command:
    """A command with its input in the current folder."""

    name: str
    arguments: str
    result: Callable[[], Any]
    """Returns what must be the same after a kill as without one."""
    whole: Callable[[], bool]
    """Whether what a user can see is whole, right after a kill."""
    before: str = ""
    """A command that ran before: it left the run to work on, or an earlier result."""


def files(folder: str) -> dict[str, str]:
    """Return a digest of every file in a folder, or of a file and those named after it."""
    found = sorted(Path().glob(f"{folder}*")) if "." in folder else sorted(Path(folder).rglob("*"))
    # A killed process may leave a hidden file.
    shown = [p for p in found if p.is_file() and not p.name.startswith(".")]
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in shown}


_TIMES = ("seconds", "select_seconds", "select_share")


def _trained() -> Any:
    """Return the network, the metrics without times, and the selections of a training run."""
    import torch

    stored = torch.load("out/network.pt", weights_only=True)["network"]
    network = {name: tensor.numpy().tobytes() for name, tensor in stored.items()}
    lines = map(json.loads, Path("out/metrics.jsonl").read_text().splitlines())
    metrics = [{k: v for k, v in line.items() if k not in _TIMES} for line in lines]
    # run.json has the command, in which --resume stands or not.
    tables = {**files("out/selection"), **files("out/frozen")}
    tables = {name: sums for name, sums in tables.items() if "run.json" not in name}
    return network, metrics, tables


def _opens(folder: str) -> bool:
    from kspr.runs.run import load_run

    # Between two renames the earlier run is set aside; the next start brings it back.
    aside = Path(f".{folder}.kspr-old")
    return len(load_run(aside if aside.exists() else Path(folder)).rows) == len(rows()[0])


def _no_half_file(name: str) -> Callable[[], bool]:
    import pyarrow.parquet as pq

    return lambda: not Path(name).exists() or pq.read_table(name).num_rows > 0


SELECT = "select data.npz --q 0.05 --cut pooled"
COMMANDS = {
    command.name: command
    for command in (
        Command(
            "select",
            f"{SELECT} --seed 1 --out out --overwrite",
            lambda: files("out"),
            lambda: _opens("out"),
            f"{SELECT} --out out",
        ),
        Command(
            "embed",
            "embed texts.csv --embedder mine:lengths --batch-size 256 --out out",
            lambda: files("out"),
            lambda: not Path("out/embedding.json").exists() or Path("out/features.npy").exists(),
        ),
        Command(
            "train",
            "train data.npz --settings s.toml --out out",
            _trained,
            lambda: not Path("out/selection").exists() or _opens("out/selection"),
        ),
        Command(
            "export",
            "export run --out clean.parquet",
            lambda: files("clean.parquet"),
            _no_half_file("clean.parquet"),
            f"{SELECT} --out run",
        ),
        Command(
            "verify",
            "verify run --answers answers.csv --drawn all",
            lambda: files("run"),
            lambda: _opens("run"),
            f"{SELECT} --out run",
        ),
    )
}
MINE = """
import time
import numpy as np

def lengths(texts):
    time.sleep(0.005)
    return np.array([[len(t), ord(t[-1])] for t in texts], dtype=np.float32)
"""
SETTINGS = "epochs = 3\nwarmup_epochs = 1\nbatch_size = 8\n[selection]\nq = 0.2\ncut = 'pooled'\n"


def prepare(command: Command) -> None:
    """Write the input of a command into the current folder, which is emptied."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    X, y = rows()
    np.savez("data.npz", X=X, y=y)
    # Three shards.
    lines = [f"text {k},{y[k % len(y)]}" for k in range(9_000)]
    Path("texts.csv").write_text("\n".join(["text,label", *lines]))
    answers = [f"{k},{label}" for k, label in enumerate(y[:12])]
    Path("answers.csv").write_text("\n".join(["row,true_label", *answers]))
    Path("mine.py").write_text(MINE)
    Path("s.toml").write_text(SETTINGS)
    if command.before:
        assert run(command.before) == 0


def again(command: Command) -> str | None:
    """Return the command as a user types it after a kill; None where everything is done."""
    # The data of an export takes its place last.
    if command.name == "export" and Path("clean.parquet").exists():
        return None
    begun = command.name == "train" and Path("out/train.json").exists()
    return f"{command.arguments}{' --resume' * begun}"


def run(
    arguments: str, *, renames: int = NEVER, seconds: float | None = None, count: str = ""
) -> int:
    """Run a command in a process of its own; return its exit code.

    Kill it after so many `renames`, or after so many `seconds`. `count` names a file for the number
    of renames.
    """
    process = PROCESSES.Process(target=_child, args=(arguments, str(Path.cwd()), renames, count))
    process.start()
    process.join(seconds)
    if process.is_alive() and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    return int(process.exitcode or 0)


def _child(arguments: str, folder: str, renames: int, count: str) -> None:
    os.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
    log = Path("log.txt").open("a")  # noqa: SIM115 - open until the process ends
    sys.stdout = sys.stderr = log
    done = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def rename(*names: Any, **how: Any) -> Any:
            nonlocal done
            result = real(*names, **how)
            done += 1
            if done == renames:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return rename

    # Here, not in kspr: the product has no hook for its tests.
    from kspr.cli import main

    os.replace, os.rename = counted(os.replace), counted(os.rename)
    main(arguments.split())
    if count:
        Path(count).write_text(str(done))


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in `folder` while the block runs."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@dataclass(frozen=True)
class Undisturbed:
    """A command that nobody killed."""

    result: Any
    renames: int
    seconds: float


def undisturbed(command: Command) -> Undisturbed:
    """Return the result of a command, how often it renames, and how long it takes."""
    prepare(command)
    start = time.monotonic()
    assert run(command.arguments, count="count.txt") == 0, Path("log.txt").read_text()
    taken = time.monotonic() - start
    return Undisturbed(command.result(), int(Path("count.txt").read_text()), taken)


def aside() -> list[str]:
    """Return the folders that were set aside, and neither brought back nor removed."""
    return [str(path) for path in Path().rglob(".*.kspr-old")]
