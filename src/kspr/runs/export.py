"""Writing the cleaned data set of a run, in a format of choice; the source is not changed."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from kspr._files import staged
from kspr._text import spreadsheet_cell
from kspr.errors import InputError
from kspr.runs._image_files import write_images
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.selectors.relabelling import THRESHOLD
from kspr.sources.formats import Format, WrittenFormat, delimiter_of, written_format
from kspr.sources.opening import label_column
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.table import Columns, Table
from kspr.sources.writing import write_batches

__all__ = ["Exported", "Suspects", "export_run"]

Suspects = Literal["drop", "relabel", "keep", "reviewed"]
_CHANGES = "changes.csv"
_LISTED = ("row", "id", "action", "from", "to", "why", "q_value")
"""Columns of the list of changes."""


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


@dataclass(frozen=True, eq=False)
class _Plan:
    """What becomes of each row of a run."""

    chosen: np.ndarray
    """Positions of the rows to write, ascending."""
    moved: np.ndarray
    """Mask of the rows that get the suggested label."""
    gone: np.ndarray
    """Positions of rows that the source does not hold any more as they were."""

    def without(self, files: list[int]) -> "_Plan":
        """Return the plan in which chosen rows that have no file are gone, too."""
        left = np.setdiff1d(self.chosen, files)
        moved = self.moved.copy()
        moved[left] = False
        return _Plan(np.array(files, dtype=np.int64), moved, np.union1d(self.gone, left))

    def labels(self, run: Run) -> np.ndarray:
        """Return the label that each row of the run is written with."""
        return np.where(self.moved, run.selection.suggested_label, run.selection.label)


def export_run(
    folder: Path,
    out: Path,
    to: WrittenFormat | None,
    suspects: Suspects,
    source: Path | None = None,
    *,
    threshold: float = THRESHOLD,
    say: Callable[[str], None] | None = None,
) -> Exported:
    """Write the cleaned rows of a run to `out`.

    Without `to`, the suffix of `out` decides the format. `source` is where the data of the run is
    now. Rows that are not in it any more, or not as they were, are left out and named. Beside the
    file, or in the folder of images, `changes.csv` lists what differs from the source and why.

    With ``"relabel"``, suspects whose suggested label has a probability of at least `threshold` get
    it, and the others are left out. `say` is called with what is expected of that, before anything
    is written. With ``"reviewed"``, only rows that people have answered differ from the source.
    """
    known = written_format(out, to)
    images = known.name == "imagefolder"
    changes = out / _CHANGES if images else out.with_name(f"{out.name}.{_CHANGES}")
    for path in (out, changes):
        if path.exists() and not (path == changes and _is_left(changes)):
            raise InputError(f"{path} already exists. Choose another --out.")
    run = load_run(folder, source)
    if suspects == "reviewed" and run.selection.checked is None:
        raise InputError(
            f"{folder} has no answers that could be written. Give some with `kspr review {folder}`."
        )
    plan = _plan(run, suspects, threshold)
    if suspects == "relabel" and say is not None:
        say(str(run.selection.relabel(threshold)))
    if images:
        with staged(out) as staging:
            files, notes = write_images(run, plan.chosen, plan.labels(run), staging)
            left, plan = np.setdiff1d(plan.chosen, list(files)), plan.without(list(files))
            _write_changes(staging / _CHANGES, run, plan, files)
        if left.size:
            few = listed(run.row_id[left].tolist(), 5)
            notes += (f"Changed in {run.origin.source} since the run was made: {few}.",)
        return _exported(run, plan, out, changes, notes)
    if not len(_differing(plan, len(run.rows))):
        changes.unlink(missing_ok=True)
        _write_table(run, plan, out, known)
        return _exported(run, plan, out, None)
    # The list first: data without its list would look like a whole export after a kill. A list
    # without data is about nothing, and the next export replaces it.
    with staged(changes) as staging:
        _write_changes(staging, run, plan)
    try:
        _write_table(run, plan, out, known)
    except BaseException:
        changes.unlink(missing_ok=True)
        raise
    return _exported(run, plan, out, changes)


def _is_left(changes: Path) -> bool:
    """Return whether `changes` is a list that a killed export left; its data is not there."""
    if not changes.is_file():
        return False
    with changes.open("rb") as file:
        return file.readline(200).rstrip() == ",".join(_LISTED).encode()


def _plan(run: Run, suspects: Suspects, threshold: float) -> _Plan:
    selection, n = run.selection, len(run.rows)
    there = np.zeros(n, dtype=bool)
    there[run.joined.position] = True
    moved = np.zeros(n, dtype=bool)
    everything = suspects in ("keep", "reviewed")
    chosen = np.ones(n, dtype=bool) if everything else selection.clean_mask.copy()
    if suspects == "relabel":
        moved = selection.relabel(threshold).pile == "change"
        chosen |= moved
    if selection.checked is not None:
        rows, code = selection.checked.rows, selection.checked.true_code
        # What a person has found is written whatever becomes of other suspects.
        moved[rows] = (code >= 0) & ~selection.checked.right
        chosen[rows] = (code >= 0) | (suspects == "keep")
    moved &= there & chosen
    return _Plan(np.flatnonzero(chosen & there), moved, np.flatnonzero(~there))


def _exported(
    run: Run, plan: _Plan, out: Path, changes: Path | None, more: tuple[str, ...] = ()
) -> Exported:
    return Exported(
        out=out,
        rows=len(plan.chosen),
        relabelled=int(plan.moved.sum()),
        dropped=len(run.rows) - len(plan.gone) - len(plan.chosen),
        changes=changes,
        notes=(*run.notes(), *more),
    )


def _differing(plan: _Plan, n: int) -> np.ndarray:
    """Return the positions of the rows that are not written as the source has them."""
    kept = np.zeros(n, dtype=bool)
    kept[plan.chosen] = True
    return np.flatnonzero(~kept | plan.moved)


def _write_changes(path: Path, run: Run, plan: _Plan, files: dict[int, str] | None = None) -> None:
    """List the rows that differ from the source; with `files`, all rows and the file of each."""
    selection, gone = run.selection, set(plan.gone.tolist())
    differing = _differing(plan, len(run.rows))
    shown = differing if files is None else np.arange(len(run.rows))
    changed = set(differing.tolist())
    level = selection.q_value
    checked = set() if selection.checked is None else set(selection.checked.rows.tolist())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_LISTED if files is None else [*_LISTED, "file"])
        for k in shown.tolist():
            given, new = selection.label[k], selection.suggested_label[k]
            if k in gone:
                action, to, why = "left out", "", "gone from the source, or changed there"
            elif k not in changed:
                action, to, why = "kept", given, ""
            elif plan.moved[k]:
                why = "checked by a person" if k in checked else _chance(selection, k)
                action, to = "relabelled", new
            else:
                why = "checked: no class, or nobody can tell" if k in checked else "suspect"
                action, to = "left out", ""
            cells = [run.row[k], run.row_id[k], action, given, to, why]
            cells.append("" if level is None else f"{level[k]:.4g}")
            cells += [] if files is None else [files.get(k, "")]
            writer.writerow([spreadsheet_cell(cell) for cell in cells])


def _chance(selection: Selection, k: int) -> str:
    chance = selection.suggestion_probability
    return "suspect" if chance is None else f"suspect; this label is right with {chance[k]:.0%}"


def _write_table(run: Run, plan: _Plan, out: Path, to: Format) -> None:
    table = run.table()
    if table is None:
        _write_rows(run, plan.chosen, plan.labels(run), out, to)
    else:
        _write_columns(run, table, plan, out, to)


def _write_rows(run: Run, chosen: np.ndarray, label: np.ndarray, out: Path, to: Format) -> None:
    """Write the rows of a source without columns: their ids, labels and marks."""
    columns = {"row_id": pa.array(run.row_id[chosen]), "label": pa.array(label[chosen])}
    batch = pa.record_batch({**columns, **_marks(run, chosen)})
    write_batches(out, to, batch.schema, [batch])


def _marks(run: Run, chosen: np.ndarray) -> dict[str, pa.Array]:
    """Return the columns that say where a row comes from and what became of it."""
    selection = run.selection
    return {
        "kspr_row": pa.array(run.row[chosen]),
        "kspr_given_label": pa.array(selection.label[chosen]),
        "kspr_clean": pa.array(selection.clean_mask[chosen]),
        "kspr_suggested_label": pa.array(selection.suggested_label[chosen]),
        "kspr_selection_time": pa.array(selection.selection_time[chosen]),
    }


def _write_columns(run: Run, table: Table, plan: _Plan, out: Path, to: Format) -> None:
    """Write the chosen rows of a table: all of its columns, as they are stored, and the marks.

    They come in the order that the source has now.
    """
    columns = table.columns(as_text=to.name == "csv")
    place = run.joined.places()
    name, label = _label_cells(run, table, columns, place, plan)
    chosen = plan.chosen[np.argsort(place[plan.chosen])]
    fields = {field.name: field for field in columns.schema}
    # Without rows: only the types are needed for the schema.
    added = {name: label.slice(0, 0), **_marks(run, chosen[:0])}
    for extra, values in added.items():
        # The label column stays what it was, with its type and its metadata.
        if extra not in fields or fields[extra].type != values.type:
            fields[extra] = pa.field(extra, values.type)
    schema = pa.schema(list(fields.values()), columns.schema.metadata)

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in columns.walk():
            first, end = np.searchsorted(place[chosen], [start, start + len(batch)])
            here = chosen[first:end]
            rows = batch.take(pa.array(place[here] - start))
            arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
            arrays |= {name: _combined(label.take(pa.array(here))), **_marks(run, here)}
            yield pa.record_batch([arrays[field.name] for field in schema], schema=schema)
            start += len(batch)

    write_batches(out, to, schema, batches(), _delimiter(table, out))


def _delimiter(table: Table, out: Path) -> str | None:
    """Return the delimiter of the source where the suffix of `out` leaves it open."""
    # A comma stands for any table as text; a tab has suffixes of its own.
    own = getattr(table, "delimiter", None)
    return own if own == ";" and delimiter_of(out) == "," else None


def _label_cells(
    run: Run, table: Table, columns: Columns, place: np.ndarray, plan: _Plan
) -> tuple[str, pa.ChunkedArray]:
    """Return the label column's name, and its cell for each of the run's rows.

    A suggested label is written as the source writes it: with the cell of the first row that has
    it. So class numbers stay numbers, and `01000` stays `01000`. Labels from a second file take
    the place of the table's own.
    """
    options = run.origin.read_options()
    name = label_column(table, options, run.origin.source)
    # A label within a struct cannot be replaced alone; it becomes a column of its own.
    if options.labels is not None or name not in columns.schema.names:
        return name, pa.chunked_array([pa.array(plan.labels(run))])
    stored = pa.chunked_array([batch.column(name) for batch in columns.walk()])
    there = run.joined.position
    classes, first = np.unique(run.selection.label[there], return_index=True)
    wanted = run.selection.suggested_label[plan.moved]
    lost = np.setdiff1d(wanted, classes)
    if lost.size:
        raise InputError(
            f"{run.origin.source} has no row of the class {str(lost[0])!r} any more, so that its "
            "spelling is not known. Pass --suspects keep or drop."
        )
    cells = place.copy()
    cells[plan.moved] = place[there[first[np.searchsorted(classes, wanted)]]]
    # A null where the source has no row: such rows are never written.
    return name, stored.take(pa.array(cells, mask=cells < 0))


def _combined(cells: pa.ChunkedArray) -> pa.Array:
    # A column of a record batch must be one array.
    combined = cells.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
