"""Write today's answers, and compare the answers of other code with them.

    python -m tests.golden.golden write /tmp/golden/before
    python -m tests.golden.golden compare /tmp/golden/before
    python -m tests.golden.golden compare /tmp/golden/before --only 'dask*' --no-transcripts
    python -m tests.golden.golden compare /tmp/golden/before --only nothing   # transcripts alone
    python -m tests.golden.golden compact                  # tests/golden/answers.json

FILE.npz has the arrays, FILE.json the texts. Masks and labels must be equal, numbers to 1e-6.
Transcripts are shown as diffs of lines. The exit code is 1 where any array, text or transcript
differs; `--texts-may-differ` looks at arrays only.
"""

# ruff: noqa: T201 - a script for a terminal
import argparse
import contextlib
import difflib
import fnmatch
import io
import json
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

from tests.golden.cases import CASES, Answer
from tests.golden.compact import write_compact
from tests.golden.transcripts import Transcript, transcripts

TOLERANCE = 1e-6
LONGEST = 60
"""Lines of a diff that are shown."""


def answered(name: str) -> Answer:
    """Return the answers of a case; what a command prints is held by the transcripts."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return CASES[name]()


def write(file: Path, only: str, with_transcripts: bool) -> None:
    """Write the answers of the code that is imported."""
    arrays: dict[str, np.ndarray] = {}
    texts: dict[str, str] = {}
    for name in fnmatch.filter(CASES, only):
        for part, value in answered(name).items():
            (texts if isinstance(value, str) else arrays)[f"{name}/{part}"] = value
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file.with_suffix(".npz"), **arrays)
    said = in_empty_folder() if with_transcripts else {}
    text = json.dumps({"texts": texts, "transcripts": said}, indent=1)
    file.with_suffix(".json").write_text(text, encoding="utf-8")
    print(f"{len(arrays)} arrays, {len(texts)} texts and {len(said)} transcripts in {file}.*")


def in_empty_folder() -> dict[str, Transcript]:
    """Return the transcripts of all commands."""
    with tempfile.TemporaryDirectory() as folder:
        return transcripts(Path(folder).resolve())


def difference(
    part: str, before: np.ndarray, after: np.ndarray, case: dict[str, np.ndarray]
) -> str:
    """Return how an array differs, in a few words; an empty text where it does not."""
    if before.shape != after.shape:
        return f"shape {before.shape} -> {after.shape}"
    if part == "suspects":
        return misplaced(case["suspicion"], before, after)
    if before.dtype.kind in "fc" or after.dtype.kind in "fc":
        same = np.isclose(
            after.astype(float), before.astype(float), TOLERANCE, TOLERANCE, equal_nan=True
        )
        finite = np.isfinite(before.astype(float)) & np.isfinite(after.astype(float))
        gap = np.abs(np.where(finite, after, 0).astype(float) - np.where(finite, before, 0))
        if same.all():
            return ""
        return f"{(~same).sum():,} of {same.size:,} differ, by {gap.max():.3g} at most"
    n = int(np.sum(before != after))
    return f"{n:,} of {before.size:,} differ" if n else ""


def misplaced(suspicion: np.ndarray, before: np.ndarray, after: np.ndarray) -> str:
    """Compare two orders of rows: rows that are equally suspicious may change places."""
    same = np.isclose(suspicion[after], suspicion[before], TOLERANCE, TOLERANCE)
    return "" if same.all() else f"{(~same).sum():,} of {same.size:,} places differ"


def compare_case(
    name: str, arrays: dict[str, np.ndarray], texts: dict[str, str]
) -> tuple[int, int]:
    """Print how the answers of a case differ; return how many arrays do, and how many texts."""
    try:
        found = answered(name)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(f"FAIL {name}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})")
        return 1, 0
    wrong = []
    for part, before in arrays.items():
        if part not in found:
            wrong.append(f"{part} is missing")
            continue
        words = difference(part, before, np.asarray(found[part]), arrays)
        wrong += [f"{part}: {words}"] if words else []
    new = [part for part in found if part not in arrays and part not in texts]
    diffs = [
        (part, before, str(found.get(part, "")))
        for part, before in texts.items()
        if found.get(part) != before
    ]
    state = "DIFF" if wrong else "text" if diffs else "ok"
    print(f"{state:4} {name}" + (f" (new: {', '.join(new)})" if new else ""))
    for line in wrong:
        print(f"       {line}")
    for part, before, after in diffs:
        print_diff(part, before, after)
    return len(wrong), len(diffs)


def print_diff(title: str, before: str, after: str) -> None:
    """Print the lines that differ."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    print(f"       {title}:")
    for line in [line for line in lines if not line.startswith(("@@", "---", "+++"))][:LONGEST]:
        print(f"         {line}")


def compare_transcripts(before: dict[str, Transcript]) -> int:
    """Print the diffs of all commands; return how many differ."""
    after, n_different = in_empty_folder(), 0
    for name, old in before.items():
        new = after.get(name, {"exit": None, "out": "", "err": "", "files": {}})
        parts = [(part, str(old[part]), str(new[part])) for part in ("exit", "out", "err")]
        files = sorted({*old["files"], *new["files"]})
        parts += [(f, old["files"].get(f, "absent"), new["files"].get(f, "absent")) for f in files]
        diffs = [part for part in parts if part[1] != part[2]]
        n_different += bool(diffs)
        print(f"{'DIFF' if diffs else 'ok':4} {old['command']}")
        for part in diffs:
            print_diff(*part)
    return n_different


def compare(file: Path, only: str, with_transcripts: bool, texts_may_differ: bool) -> int:
    """Compare the code that is imported with stored answers; return the exit code."""
    about = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(file.with_suffix(".npz"), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    names = list(dict.fromkeys(name.split("/")[0] for name in arrays))
    n_arrays = n_texts = 0
    for name in fnmatch.filter(names, only):
        mine = {k.split("/", 1)[1]: v for k, v in arrays.items() if k.split("/")[0] == name}
        said = {k.split("/", 1)[1]: v for k, v in about["texts"].items() if k.split("/")[0] == name}
        wrong, changed = compare_case(name, mine, said)
        n_arrays, n_texts = n_arrays + wrong, n_texts + changed
    n_commands = compare_transcripts(about["transcripts"]) if with_transcripts else 0
    print(f"{n_arrays} arrays, {n_texts} texts and {n_commands} transcripts differ")
    return int(bool(n_arrays or (not texts_may_differ and (n_texts or n_commands))))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("write", "compare", "compact"))
    parser.add_argument("file", type=Path, nargs="?", help="without its suffix, or with either")
    parser.add_argument("--only", default="*", help="pattern of names of cases")
    parser.add_argument("--no-transcripts", action="store_true")
    parser.add_argument("--texts-may-differ", action="store_true")
    chosen = parser.parse_args()
    if chosen.action == "compact":
        print(write_compact({name: answered(name) for name in CASES}))
        return 0
    if chosen.file is None:
        parser.error("FILE is missing")
    if chosen.action == "write":
        write(chosen.file, chosen.only, not chosen.no_transcripts)
        return 0
    return compare(chosen.file, chosen.only, not chosen.no_transcripts, chosen.texts_may_differ)


if __name__ == "__main__":
    sys.exit(main())
