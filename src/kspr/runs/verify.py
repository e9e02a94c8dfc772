"""Rows drawn at random for a person to check, and the error rate that the answers show."""

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr._files import read_json, staged, write_json
from kspr.core.intervals import Z95, clopper_pearson_interval
from kspr.core.labels import same_label
from kspr.core.noise import check_seed
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.answers import Answers, Pool, Rows, read_answers
from kspr.runs.run import Run, load_run
from kspr.sources.records import Items

__all__ = ["Draw", "Pool", "Verification", "draw_checks", "load_verification", "verify_run"]

_STREAM = 0x636865636B
"""Keeps these random numbers apart from those of a caller who used the same seed."""
_DRAWN = "checks.json"
_FOUND = "verification.json"
_TEXT = 500
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class Draw:
    """Rows that were drawn to be checked."""

    path: Path
    drawn_from: Pool
    n_drawn: int
    n_pool: int
    """Rows that were drawn from."""
    seed: int


@dataclass(frozen=True)
class Verification:
    """What a person found among the kept labels of a run."""

    drawn_from: Pool | None
    """None where the file of answers does not say."""
    n_missing: int
    """Drawn rows that have no answer yet."""
    n_answered: int
    n_checked: int
    """Answered rows that are kept; their labels were drawn at random from all kept ones."""
    n_wrong: int
    """Wrong labels among these."""
    n_kept: int
    """All kept rows that could have been drawn."""
    fsr: float
    interval: tuple[float, float]
    """Clopper and Pearson's, exact, two-sided, of 95 %."""
    q: float | None
    """The rate that was asked for; None for a selection without one."""
    noise_rate: float | None
    """Share of wrong labels among all rows, if drawn from all."""
    noise_interval: tuple[float, float] | None
    wrong_rows: tuple[int, ...]
    """Row numbers in the source of the kept labels that were found wrong."""
    fingerprint: str
    """Of the data that the run was made from."""

    @property
    def verdict(self) -> Literal["held", "not held", "cannot tell"] | None:
        """Whether the interval lies below the rate asked for, above it, or around it."""
        if self.q is None:
            return None
        low, high = self.interval
        return "held" if high <= self.q else "not held" if low > self.q else "cannot tell"

    @property
    def n_needed(self) -> int | None:
        """About how many kept rows would decide it, if the share found so far is right."""
        if self.q is None or self.verdict != "cannot tell":
            return None
        # Zero among a few rows would ask for too few more.
        share = (self.n_wrong + 1) / (self.n_checked + 2)
        gap = abs(share - self.q)
        # So near to q, it would take thousands of answers: about 7,300 at q = 0.05.
        if gap < 0.1 * self.q:
            return None
        # Where the normal interval, share +- Z95 * its standard error, just excludes q.
        return min(self.n_kept, round(Z95**2 * share * (1 - share) / gap**2))


def draw_checks(folder: Path, out: Path, *, sample: int, pool: Pool, seed: int) -> Draw:
    """Draw rows of the run in `folder`, write them to `out` for a person to fill in.

    They come in random order: whoever stops half way has still checked a random sample. The draw
    is saved in the run, so that rows which were deleted from the file are counted as missing.
    """
    if sample < 1:
        raise InputError(f"--sample must be at least 1, got {sample}.")
    check_seed(seed, "--seed")
    if out.exists():
        raise InputError(f"{out} already exists, and may hold answers. Choose another --out.")
    run = load_run(folder)
    rows = _pool(run, pool)
    if not len(rows):
        raise InputError(f"{folder} keeps nothing that could be drawn. Use --from all.")
    rng = np.random.default_rng([_STREAM, seed, int(pool == "all")])
    # The whole is permuted, so that a larger sample with the same seed begins with the smaller one.
    drawn = rng.permutation(rows)[:sample]
    with staged(out) as staging, staging.open("w", newline="", encoding="utf-8") as file:
        _write(run, drawn, pool, csv.writer(file))
    _note(folder, pool, {"seed": seed, "rows": run.row[drawn].tolist()})
    return Draw(out, pool, len(drawn), len(rows), seed)


def verify_run(folder: Path, path: Path) -> Verification:
    """Estimate the error rate of the run in `folder` from the answers in `path`; save it there."""
    run = load_run(folder)
    answers = read_answers(path, Rows(run.row, run.row_id, run.selection.label))
    _check_unused(path, run, answers)
    missing = _missing(folder, path, run, answers)
    kept = run.selection.clean_mask[answers.position]
    wrong = ~same_label(run.selection.label[answers.position], answers.truth)
    n_checked, n_wrong = int(kept.sum()), int((kept & wrong).sum())
    if not n_checked:
        raise InputError(f"{path} has no answers about kept rows yet: fill in 'true_label'.")
    from_all = answers.drawn_from == "all"
    found = Verification(
        drawn_from=answers.drawn_from,
        n_missing=missing,
        n_answered=len(wrong),
        n_checked=n_checked,
        n_wrong=n_wrong,
        n_kept=len(_pool(run, "kept")),
        fsr=n_wrong / n_checked,
        interval=clopper_pearson_interval(n_wrong, n_checked),
        q=run.selection.summary().q_asked,
        noise_rate=float(wrong.mean()) if from_all else None,
        noise_interval=clopper_pearson_interval(int(wrong.sum()), len(wrong)) if from_all else None,
        wrong_rows=tuple(run.row[answers.position[kept & wrong]].tolist()),
        fingerprint=run.selection.manifest.fingerprint,
    )
    write_json(folder / _FOUND, {**asdict(found), "verdict": found.verdict})
    return found


def load_verification(run: Run) -> Verification | None:
    """Return the result that `verify_run` saved; None if there is none for this selection."""
    file = run.folder / _FOUND
    if not file.is_file():
        return None
    about = _read_json(file)
    # Written for people who read the file; here it is a property.
    about.pop("verdict", None)
    for name in ("interval", "noise_interval", "wrong_rows"):
        about[name] = None if about.get(name) is None else tuple(about[name])
    try:
        found = Verification(**about)
    except TypeError as error:
        raise InputError(f"{file} cannot be read as a verification: {error}") from error
    # The run may have been made anew from other data since.
    return found if found.fingerprint == run.selection.manifest.fingerprint else None


def _pool(run: Run, pool: Pool) -> np.ndarray:
    """Return the positions to draw from, without the rows that set the cut-off.

    Rows that set the cut-off cannot also estimate the error rate.
    """
    rows = run.selection.clean_indices if pool == "kept" else np.arange(len(run.row))
    checked = run.selection.checked
    return rows if checked is None else np.setdiff1d(rows, checked.rows)


def _check_unused(path: Path, run: Run, answers: Answers) -> None:
    """Raise if answers were used to make the run: they cannot also estimate its error rate."""
    checked = run.selection.checked
    used = 0 if checked is None else int(np.isin(answers.position, checked.rows).sum())
    if used:
        raise InputError(
            f"{run.folder} was cut by {used} of the answers in {path}, which cannot test it too. "
            "Draw other rows with `kspr verify --out`."
        )


def _write(run: Run, drawn: np.ndarray, pool: Pool, writer: Any) -> None:
    shown = _shown(run, drawn)
    columns = ["row", "id", "label", "suggested_label", "true_label", "drawn_from"]
    writer.writerow([*columns, *shown])
    for k, *extra in zip(drawn.tolist(), *shown.values(), strict=True):
        label, suggested = run.selection.label[k], run.selection.suggested_label[k]
        writer.writerow([run.row[k], run.row_id[k], label, suggested, "", pool, *extra])


def _shown(run: Run, drawn: np.ndarray) -> dict[str, list[str]]:
    """Return the column that shows rows to a person: texts, or the paths of images."""
    source = Path(run.origin.source)
    # Ids of images are paths, relative to a folder of images or to the folder of a list of them.
    for folder in (source, source.parent):
        paths = [folder / str(row_id) for row_id in run.row_id[drawn]]
        if paths[0].is_file():
            return {"image": [str(path) for path in paths]}
    items = run.items()
    if items is None or items.kind != "text":
        return {}  # nothing to show, or the source is gone: row and id must do
    return {"text": [_text(items, position) for position in drawn.tolist()]}


def _text(items: Items, position: int) -> str:
    try:
        # A text may have megabytes: only its beginning is split.
        return " ".join(str(items[position])[: 4 * _TEXT].split())[:_TEXT]
    except (UnreadableItemError, OSError):
        return ""


def _note(folder: Path, pool: Pool, drawn: dict[str, Any]) -> None:
    # Draws from the kept rows and from all rows are saved side by side.
    file = folder / _DRAWN
    before = _read_json(file) if file.is_file() else {}
    write_json(file, {**before, pool: drawn})


def _missing(folder: Path, path: Path, run: Run, answers: Answers) -> int:
    """Return how many of the rows that were drawn have no answer."""
    file = folder / _DRAWN
    drawn = _read_json(file).get(str(answers.drawn_from)) if file.is_file() else None
    if drawn is None:
        return len(answers.unanswered)
    listed = run.row[np.concatenate([answers.position, answers.unanswered])]
    strange = np.setdiff1d(listed, drawn["rows"])
    if strange.size:
        raise InputError(
            f"{path} has an answer for row {strange[0]}, which was not drawn from {folder}. Rows "
            "must be drawn at random; draw more with --sample and another --seed."
        )
    return len(drawn["rows"]) - len(answers.position)


def _read_json(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(f"{file} cannot be read: it is cut short or damaged. Remove it.")
    return found
