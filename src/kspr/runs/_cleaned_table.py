"""Rows of a run as a table: every column as the source stores it, and what was found of each."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from kspr.errors import InputError
from kspr.runs.run import Run
from kspr.selectors.options import DOUBTING
from kspr.sources.formats import Format, delimiter_of
from kspr.sources.opening import label_column
from kspr.sources.readers.table import Columns, Table
from kspr.sources.writing import write_batches

__all__ = ["Plan", "marks", "write_rows"]


@dataclass(frozen=True, eq=False)
class Plan:
    """What becomes of each row of a run."""

    chosen: np.ndarray
    """Positions of the rows to write, ascending."""
    moved: np.ndarray
    """Mask of the rows that get the suggested label."""
    gone: np.ndarray
    """Positions of rows that the source does not hold any more as they were."""

    def without(self, files: list[int]) -> "Plan":
        """Return the plan in which chosen rows that have no file are gone, too."""
        left = np.setdiff1d(self.chosen, files)
        moved = self.moved.copy()
        moved[left] = False
        return Plan(np.array(files, dtype=np.int64), moved, np.union1d(self.gone, left))

    def labels(self, run: Run) -> np.ndarray:
        """Return the label that each row of the run is written with."""
        return np.where(self.moved, run.selection.suggested_label, run.selection.label)


def write_rows(run: Run, plan: Plan, out: Path, to: Format) -> None:
    """Write the chosen rows of a run as a table: with all columns of the source, if it has any."""
    table = run.table()
    if table is None and to.name == "huggingface" and _has_images(run):
        raise InputError(
            f"{run.origin.source} holds images in files, not in a table. Write them with --to "
            "imagefolder: load_dataset('imagefolder', data_dir=...) of datasets reads that folder."
        )
    if table is None:
        _write_rows(run, plan.chosen, plan.labels(run), out, to)
    else:
        _write_columns(run, table, plan, out, to)


def _has_images(run: Run) -> bool:
    items = run.items()
    return items is not None and items.kind == "image"


def _write_rows(run: Run, chosen: np.ndarray, label: np.ndarray, out: Path, to: Format) -> None:
    """Write the rows of a source without columns: their ids, labels and marks."""
    columns = {"row_id": pa.array(run.row_id[chosen]), "label": pa.array(label[chosen])}
    batch = pa.record_batch({**columns, **marks(run, chosen)})
    write_batches(out, to, batch.schema, [batch])


def marks(run: Run, chosen: np.ndarray) -> dict[str, pa.Array]:
    """Return the columns that say where a row comes from and what became of it."""
    selection = run.selection
    found = {
        "kspr_row": pa.array(run.row[chosen]),
        "kspr_given_label": pa.array(selection.label[chosen]),
        "kspr_clean": pa.array(selection.clean_mask[chosen]),
        "kspr_suggested_label": pa.array(selection.suggested_label[chosen]),
        "kspr_selection_time": pa.array(selection.selection_time[chosen]),
    }
    if selection.q_value is not None:
        level = selection.q_value[chosen].astype(np.float64)
        # Nothing where no level keeps a row: JSON and many readers have no infinity.
        found["kspr_q_value"] = pa.array(level, mask=~np.isfinite(level))
    if selection.control in DOUBTING:
        found["kspr_doubt"] = pa.array(selection.statistic[chosen])
    return found


def _write_columns(run: Run, table: Table, plan: Plan, out: Path, to: Format) -> None:
    """Write the chosen rows of a table: all of its columns, as they are stored, and the marks.

    They come in the order that the source has now.
    """
    columns = table.columns(as_text=to.name == "csv")
    place = run.joined.places()
    name, label = _label_cells(run, table, columns, place, plan)
    chosen = plan.chosen[np.argsort(place[plan.chosen])]
    fields = {field.name: field for field in columns.schema}
    # Without rows: only the types are needed for the schema.
    added = {name: label.slice(0, 0), **marks(run, chosen[:0])}
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
            arrays |= {name: _combined(label.take(pa.array(here))), **marks(run, here)}
            yield pa.record_batch([arrays[field.name] for field in schema], schema=schema)
            start += len(batch)

    write_batches(out, to, schema, batches(), _delimiter(table, out))


def _delimiter(table: Table, out: Path) -> str | None:
    """Return the delimiter of the source where the suffix of `out` leaves it open."""
    # A comma stands for any table as text; a tab has suffixes of its own.
    own = getattr(table, "delimiter", None)
    return own if own == ";" and delimiter_of(out) == "," else None


def _label_cells(
    run: Run, table: Table, columns: Columns, place: np.ndarray, plan: Plan
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
