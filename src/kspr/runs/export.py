"""Writing the cleaned data set of a run, or its rows for other tools; the source is not changed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from kspr._files import staged
from kspr._packages import version
from kspr._text import visible, write_csv
from kspr.errors import InputError
from kspr.runs._cleaned_table import Outcome, marks, write_rows
from kspr.runs._item_files import ANNOTATION_WRITERS, config_beside, write_images
from kspr.runs.run import Run, load_run
from kspr.runs.verify import checking_notes
from kspr.selectors.plan import THRESHOLD
from kspr.sources.formats import Format, WrittenFormat, written_format
from kspr.sources.readers.file_checks import listed

Suspects = Literal["drop", "relabel", "relabel-keep", "keep", "reviewed"]
RowsShown = Literal["suspects", "drawn", "all"]
_RELABELLED = ("relabel", "relabel-keep")
_SHOWN: dict[str, RowsShown] = {"label-studio": "suspects", "fiftyone": "all"}
"""What users of each tool expect: a list of work, or a data set to filter."""
_CHANGES = "changes.csv"
_LISTED = ("row", "id", "action", "from", "to", "why", "q_value")
"""Columns of the list of changes."""
_CARD = "README.md"
"""Where the pages of Hugging Face look for it."""
_PAGE = """# {name}, labels checked by kspr

The labels of `{name}` were judged with knockoffs-spr {version}.

    {headline}

{rows:,} rows are in this data set. Of the suspects, {relabelled:,} have the suggested label now,
and {dropped:,} were left out; `changes.csv` lists them. The other labels are as they were.

## What the error rate rests on

{basis}

## Columns that were added

| column | what it holds |
|---|---|
| `kspr_row` | row number in the source, from 0 |
| `kspr_given_label` | the label that the source gives |
| `kspr_clean` | whether that label was kept |
| `kspr_suggested_label` | the class that fits best, or what a person has found |
| `kspr_selection_time` | large values are suspicious |
| `kspr_q_value` | the smallest error rate at which the row is kept, where there is one |
| `kspr_doubt` | estimated probability that the given label is wrong, where it was estimated |
"""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    out: Path
    rows: int
    relabelled: int
    dropped: int
    """Suspects that were left out."""
    changes: Path | None
    """CSV file with every row that was changed or left out; None if there is none."""
    notes: tuple[str, ...]
    """Sentences for the user: rows that are gone, classes whose folders have other names."""
    config: Path | None = None
    """Labelling config of Label Studio, which goes with tasks; None for every other format."""


def export_run(
    folder: Path,
    out: Path,
    to: WrittenFormat | None,
    suspects: Suspects | None = None,
    source: Path | None = None,
    *,
    q: float | None = None,
    rows: RowsShown | None = None,
    threshold: float = THRESHOLD,
    say: Callable[[str], None] | None = None,
) -> Exported:
    """Write the cleaned rows of a run to `out`, or rows for people to look at in another tool.

    Without `to`, the suffix of `out` decides the format. `source` is where the data of the run is
    now. Rows that are not in it any more, or not as they were, are left out and named. Beside the
    file, or in the folder, `changes.csv` lists what differs from the source and why.

    Suspects are dropped unless said otherwise. With ``"relabel"``, those whose suggested label has
    a probability of at least `threshold` get it, and the others are left out; with
    ``"relabel-keep"`` these stay as they are. `say` is called with what that does and what is
    expected of it, before anything is written. With ``"reviewed"``, only rows that people have
    answered differ from the source; that is the choice where the run has a plan. `q` is another
    error rate than the run's own.

    For Label Studio and FiftyOne, `rows` says instead which rows people are to see.
    """
    known = written_format(out, to)
    if known.for_people:
        if suspects is not None:
            raise InputError(
                f"--suspects goes with a cleaned data set. --to {known.name} writes rows for "
                "people to look at: choose them with --rows."
            )
        _refuse_sets(load_run(folder, source), known)
        _check_new(out, *([config_beside(out)] if known.name == "label-studio" else []))
        return _export_rows(load_run(folder, source).at(q), out, known.name, rows)
    if rows is not None:
        raise InputError(
            f"--rows goes with --to label-studio or fiftyone. For {known.name}, say what becomes "
            "of suspects with --suspects."
        )
    in_folder = not known.suffixes
    changes = out / _CHANGES if in_folder else out.with_name(f"{out.name}.{_CHANGES}")
    _check_new(out, *(() if _is_left(changes) else (changes,)))
    run = load_run(folder, source).at(q)
    if suspects == "reviewed" and run.selection.checked is None:
        raise InputError(
            f"{folder} has no answers that could be written. Give some with `kspr review {folder}`."
        )
    finished = run.checks is not None and run.checks.plan is not None
    suspects = suspects or ("reviewed" if finished else "drop")
    outcome = _outcome(run, suspects, threshold)
    if suspects in _RELABELLED and say is not None:
        say(f"{run.selection.relabel(threshold)}\n{_forecast(outcome.of_rows(run), suspects)}")
    notes = checking_notes(run)
    if finished and suspects != "reviewed":
        notes = ("What the plan promises is not about this file: that takes --suspects reviewed.",)
    if known.name == "imagefolder":
        _refuse_sets(run, known)
    if in_folder:
        return _export_folder(run, outcome, out, known, notes)
    differs = bool(outcome.differing().any())
    changes.unlink(missing_ok=True)
    # The list first: data without its list would look like a whole export after a kill. A list
    # without data is about nothing, and the next export replaces it.
    if differs:
        with staged(changes) as staging:
            _write_changes(staging, run, outcome)
    try:
        write_rows(run, outcome, out, known)
    except BaseException:
        changes.unlink(missing_ok=True)
        raise
    return _exported(run, outcome, out, changes if differs else None, notes)


def _refuse_sets(run: Run, to: Format) -> None:
    """Raise if rows have several labels, where a format has one for each."""
    if run.n_labels > 1:
        raise InputError(
            f"Rows of {run.folder} have several labels, and --to {to.name} holds one a row. Write "
            "a table: --out clean.parquet. `kspr review` and `kspr verify` show pairs to people."
        )


def _forecast(outcome: Outcome, suspects: str) -> str:
    """Return what becomes of all rows when suspects are relabelled, in a sentence."""
    n, n_moved = int(outcome.chosen.sum()), int(outcome.moved.sum())
    n_all, n_left = len(outcome.chosen), int((~outcome.chosen).sum())
    more = " To keep them as they are: --suspects relabel-keep." if suspects == "relabel" else ""
    return (
        f"Of {n_all:,} rows, {n - n_moved:,} are written as they are, {n_moved:,} with another "
        f"label, and {n_left:,} are left out.{more if n_left else ''}"
    )


def _check_new(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise InputError(f"{path} already exists. Choose another --out.")


def _export_folder(
    run: Run, outcome: Outcome, out: Path, to: Format, notes: tuple[str, ...]
) -> Exported:
    """Write a folder of images, or a data set of Hugging Face; with the list of changes inside."""
    files: dict[int, str] | None = None
    with staged(out) as staging:
        if to.name == "imagefolder":
            chosen = np.flatnonzero(outcome.chosen)
            files, renamed = write_images(run, chosen, outcome.labels(run), staging)
            outcome = outcome.without(list(files))
            notes += (*renamed, *_changed(run, np.setdiff1d(chosen, list(files))))
        else:
            write_rows(run, outcome, staging, to)
        _write_changes(staging / _CHANGES, run, outcome, files)
        exported = _exported(run, outcome, out, out / _CHANGES, notes)
        if to.name == "huggingface":
            card = data_card(run, exported)
            (staging / _CARD).write_text(card, encoding="utf-8")
    return exported


def _export_rows(run: Run, out: Path, tool: str, rows: RowsShown | None) -> Exported:
    """Write rows for people to look at in `tool`."""
    rows, checks, more = rows or _SHOWN[tool], run.checks, {}
    if rows == "drawn":
        if checks is None or not checks.positions:
            raise InputError(
                f"No rows were drawn from {run.folder} yet. Draw some with kspr verify "
                f"{run.folder} --checks 100."
            )
        chosen, more = np.array(checks.positions, dtype=np.int64), {"drawn_from": checks.drawn}
    else:
        chosen = np.arange(len(run.rows)) if rows == "all" else run.selection.suspect_indices
    chosen = chosen[run.joined.places()[chosen] >= 0]
    said = [
        {name: value for name, value in {**fields, **more}.items() if value is not None}
        for fields in pa.table(marks(run, chosen)).to_pylist()
    ]
    written = ANNOTATION_WRITERS[tool](run, chosen, said, out)
    notes = (*run.notes(), *checking_notes(run), *_changed(run, np.setdiff1d(chosen, written)))
    config = config_beside(out) if tool == "label-studio" else None
    return Exported(out, len(written), 0, 0, None, notes, config)


def _changed(run: Run, left: np.ndarray) -> tuple[str, ...]:
    if not left.size:
        return ()
    few = listed(run.row_id[left].tolist(), 5)
    return (f"Changed in {run.origin.source} since the run was made: {few}.",)


def _is_left(changes: Path) -> bool:
    """Return whether `changes` is a list that a killed export left; its data is not there."""
    if not changes.is_file():
        return False
    with changes.open("rb") as file:
        return file.readline(200).rstrip() == ",".join(_LISTED).encode()


def _outcome(run: Run, suspects: Suspects, threshold: float) -> Outcome:
    selection, present = run.selection, run.joined.places() >= 0
    moved = np.zeros(len(present), dtype=bool)
    chosen = selection.clean_mask | (suspects in ("keep", "relabel-keep", "reviewed"))
    if suspects in _RELABELLED:
        moved = selection.relabel(threshold).pile == "change"
        chosen |= moved
    if selection.checked is not None:
        rows, code = selection.checked.rows, selection.checked.true_code
        # What a person has found is written whatever becomes of other suspects.
        moved[rows] = (code >= 0) & ~selection.checked.right
        chosen[rows] = (code >= 0) | (suspects in ("keep", "relabel-keep"))
    chosen &= present
    return Outcome(chosen, moved & chosen, ~present)


def _exported(
    run: Run, outcome: Outcome, out: Path, changes: Path | None, notes: tuple[str, ...]
) -> Exported:
    outcome = outcome.of_rows(run)
    n_rows = int(outcome.chosen.sum())
    return Exported(
        out=out,
        rows=n_rows,
        relabelled=int(outcome.moved.sum()),
        dropped=len(outcome.chosen) - int(outcome.gone.sum()) - n_rows,
        changes=changes,
        notes=(*run.notes(), *notes),
    )


def _write_changes(
    path: Path, run: Run, outcome: Outcome, files: dict[int, str] | None = None
) -> None:
    """List the rows that differ from the source; with `files`, all rows and the file of each."""
    with path.open("w", newline="", encoding="utf-8") as file:
        head = _LISTED if files is None else [*_LISTED, "file"]
        write_csv(file, head, _changes(run, outcome, files))


def _changes(run: Run, outcome: Outcome, files: dict[int, str] | None) -> Iterator[list[Any]]:
    selection, checked = run.selection, run.selection.checked
    given, new, level = selection.label, selection.suggested_label, selection.q_value
    chance = selection.suggestion_probability
    rows = np.flatnonzero(outcome.differing()) if files is None else np.arange(len(run.rows))
    by_person = np.isin(rows, [] if checked is None else checked.rows)
    for k, a_person in zip(rows.tolist(), by_person.tolist(), strict=True):
        if outcome.gone[k]:
            action, to, why = "left out", "", "gone from the source, or changed there"
        elif outcome.moved[k]:
            right = "" if chance is None else f"; this label is right with {chance[k]:.0%}"
            action, to = "relabelled", new[k]
            why = "checked by a person" if a_person else f"suspect{right}"
        elif outcome.chosen[k]:
            action, to, why = "kept", given[k], ""
        else:
            why = "checked: no class, or nobody can tell" if a_person else "suspect"
            action, to = "left out", ""
        q = "" if level is None else f"{level[k]:.4g}"
        more = [] if files is None else [files.get(k, "")]
        yield [run.row[k], run.row_id[k], action, given[k], to, why, q, *more]


def data_card(run: Run, exported: Exported) -> str:
    """Return the card of the exported rows of a run, in Markdown."""
    summary = run.selection.summary()
    # The name alone: a path would tell whoever reads the card about the machine.
    name = visible(Path(run.origin.source).name).replace("`", "'")
    basis = summary.basis or "No error rate was estimated."
    return _PAGE.format(
        name=name,
        version=version("knockoffs-spr"),
        headline=summary.headline().replace("\n", "\n    "),
        rows=exported.rows,
        relabelled=exported.relabelled,
        dropped=exported.dropped,
        basis="\n\n".join(basis.split("\n")),
    )
