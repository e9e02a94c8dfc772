"""Transcripts of command lines: what each prints and writes, with times and paths masked."""

import contextlib
import csv
import io
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden import adapter
from tests.golden.cases import digits, flipped, held_out

__all__ = ["Transcript", "transcripts"]

Transcript = dict[str, Any]
"""The command, its exit code, both streams, and the files that it wrote, all as text."""

NAMES = np.array([f"digit-{k}" for k in range(10)])
TABLE = ("--label", "species", "--features", "emb_*", "--id", "id")
N = 900


def write_data() -> None:
    """Write the sources of all commands into the working directory."""
    import pandas as pd
    from PIL import Image

    X, y, truth = digits()
    frame = pd.DataFrame(X[:N], columns=[f"emb_{k}" for k in range(64)])
    frame.insert(0, "id", [f"s{k}" for k in range(N)])
    frame["species"], frame["truth"] = NAMES[y[:N]], NAMES[truth[:N]]
    frame.to_csv("digits.csv", index=False)
    frame.to_parquet("digits.parquet", index=False)
    votes = frame.drop(columns=["species"])
    for k, rate in enumerate((0.3, 0.4, 0.5)):
        votes[f"rater_{k}"] = NAMES[flipped(truth[:N], rate, k)]
    votes.loc[::3, "rater_2"] = None
    votes.to_csv("votes.csv", index=False)
    shown = pd.DataFrame(held_out()[:N], columns=[f"p_{name}" for name in NAMES])
    shown["species"] = frame["species"]
    shown.to_parquet("predictions.parquet", index=False)
    for k in range(160):
        folder = Path("photos") / ("bright" if (k % 2 == 0) != (k % 7 == 0) else "dark")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(k).integers(0, 100, (32, 32, 3)) + 150 * (k % 2 == 0)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{k:03d}.png")


def answer(path: Path) -> None:
    """Fill in the true labels of a file of rows to check."""
    truth = digits()[2]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["true_label"] = NAMES[truth[int(row["row"])]]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def steps() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield a name and the arguments of each command, in the order in which they must run."""
    yield "select csv", ("select", "digits.csv", *TABLE, "--out", "run")
    yield "select parquet, json", ("select", "digits.parquet", *TABLE, "--json", "--out", "run-q")
    photos = ("select", "photos", "--q", 0.1, "--image-size", 32, "--out", "run-photos")
    yield "select images", photos
    model = ("select", "predictions.parquet", "--label", "species", "--probabilities", "p_*")
    yield "select probabilities", (*model, "--out", "run-p")
    crowd = ("select", "votes.csv", "--features", "emb_*", "--annotators", "rater_*")
    yield "select annotators", (*crowd, "--out", "run-a")
    yield "select paper", ("select", "digits.csv", *TABLE, "--preset", "paper", "--out", "run-pp")
    yield "select spr", ("select", "digits.csv", *TABLE, "--preset", "spr", "--out", "run-s")
    yield "evaluate", ("evaluate", "run", "--truth", "truth")
    yield "evaluate, json", ("evaluate", "run", "--truth", "truth", "--json")
    yield "verify, draw", ("verify", "run", "--checks", 80, "--out", "checks.csv")
    answer(Path("checks.csv"))
    yield "verify, answers", ("verify", "run", "--answers", "checks.csv")
    yield "verify, answers, json", ("verify", "run", "--answers", "checks.csv", "--json")
    yield "gate", ("gate", "run", "--max-wrong", 0.1, "--min-kept", 0.5)
    yield "gate, failed", ("gate", "run", "--max-wrong", 0.01, "--min-kept", 0.95)
    yield "export csv", ("export", "run", "--suspects", "relabel", "--out", "clean.csv")
    yield "export tasks", ("export", "run-photos", "--to", "label-studio", "--out", "tasks.json")
    yield "report", ("report", "run", "--out", "run.html")
    yield "selfcheck", ("selfcheck", "digits.parquet", *TABLE)
    yield "noise", ("noise", "digits.csv", "--label", "truth", "--rate", 0.3, "--out", "noisy.csv")
    methods = ("--methods", "kspr", "kspr-paper", "small-loss")
    compared = ("compare", "digits.parquet", *TABLE, "--truth", "truth", *methods)
    yield "compare", (*compared, "--out", "comparison")
    yield "demo", ("demo", "--out", "demo")
    yield "datasets", ("datasets",)
    yield "methods", ("methods",)
    # Refused, each in one sentence.
    yield "no such column", ("select", "digits.csv", "--label", "colour", "--out", "run-x")
    yield "rate of 5", ("select", "digits.csv", *TABLE, "--q", 5, "--out", "run-x")
    yield "out is taken", ("select", "digits.csv", *TABLE, "--out", "run")
    yield "no answers", ("gate", "run-q", "--max-wrong", 0.1, "--min-kept", 0.5)


def transcripts(folder: Path) -> dict[str, Transcript]:
    """Run all commands in an empty directory, and return what each has printed and written."""
    before, said = Path.cwd(), {}
    kept = {name: os.environ.get(name) for name in ("COLUMNS", "XDG_CACHE_HOME", "NO_COLOR")}
    os.environ.update(COLUMNS="100", XDG_CACHE_HOME=str(folder / "cache"), NO_COLOR="1")
    os.chdir(folder)
    try:
        write_data()
        for name, arguments in steps():
            said[name] = run(folder, arguments)
    finally:
        os.chdir(before)
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return said


def run(folder: Path, arguments: tuple[object, ...]) -> Transcript:
    """Run one command in this process."""
    known = set(Path().rglob("*"))
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        # A warning is part of what is shown, whether it was shown before or not.
        warnings.simplefilter("always")
        try:
            adapter.command(*arguments)
        except SystemExit as stop:
            code = int(stop.code or 0)
    new = sorted(path for path in set(Path().rglob("*")) - known if path.is_file())
    return {
        "command": " ".join(["kspr", *map(str, arguments)]),
        "exit": code,
        "out": masked(out.getvalue(), folder),
        "err": masked(err.getvalue(), folder),
        "files": {
            str(path): shown(path, folder) for path in new if not str(path).startswith("cache")
        },
    }


def shown(path: Path, folder: Path) -> str:
    """Return the beginning of a text file; of others only that they are there."""
    if path.suffix not in (".csv", ".json", ".txt"):
        return "written"
    text = masked(path.read_text(encoding="utf-8"), folder)
    lines = text.splitlines()
    return "\n".join([*(line[:400] for line in lines[:40]), f"({len(lines)} lines)"])


_MASKS = (
    (re.compile(r'"checksum": "\w+"'), '"checksum": HASH'),
    (re.compile(r"embeddings/\w+"), "embeddings/HASH"),
    # Seconds and megabytes of `kspr compare`.
    (re.compile(r"^((?:kspr|small-loss)\S* .*?) +\d+\.\d\d +\d+$", re.MULTILINE), r"\1 TIME"),
    (re.compile(r"\b\d+(\.\d+)?(e-?\d+)? ?(s|ms|seconds|minutes|min)\b"), "TIME"),
    (
        re.compile(r'"(seconds|peak_bytes|peak_mb|memory\w*|created\w*|time\w*)": [^,}\n]+'),
        r'"\1": TIME',
    ),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b\d+(\.\d+)? ?(MB|GB|kB|MiB)\b"), "SIZE"),
)


def masked(text: str, folder: Path) -> str:
    """Return the text without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER").replace(str(Path.cwd()), "FOLDER")
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text
