"""Rows of a run as a table: every column as the source stores it, and marks of the selection."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.runs.run import Run
from kspr.sources.formats import Format, delimiter_of
from kspr.sources.opening import label_column
from kspr.sources.pairs import Pairs
from kspr.sources.readers.table import Columns, Table
from kspr.sources.writing import write_batches

_BLOCK = 1 << 18
"""Rows that are written at a time."""
_Cells = Callable[[pa.RecordBatch, np.ndarray], pa.Array]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What becomes of each row of a run: masks over its rows."""

    chosen: np.ndarray
    """Rows to write."""
    moved: np.ndarray
    """Rows that get the suggested label."""
    gone: np.ndarray
    """Rows that the source does not hold any more as they were."""

    def without(self, files: list[int]) -> "Outcome":
        """Return the outcome in which chosen rows that have no file are gone, too."""
        with_file = np.zeros(len(self.chosen), dtype=bool)
        with_file[files] = True
        left = self.chosen & ~with_file
        return Outcome(self.chosen & with_file, self.moved & ~left, self.gone | left)

    def differing(self) -> np.ndarray:
        """Return a mask of the rows that differ from the source."""
        return np.asarray(~self.chosen | self.moved)

    def of_rows(self, run: Run) -> "Outcome":
        """Return the outcome of the rows of the source, an entry each, where pairs are judged.

        A row is written if all of its pairs are: of another, some label is not known.
        """
        if run.n_labels == 1:
            return self
        chosen, moved, gone = (
            mask.reshape(-1, run.n_labels) for mask in (self.chosen, self.moved, self.gone)
        )
        written = np.asarray(chosen.all(axis=1))
        return Outcome(written, moved.any(axis=1) & written, np.asarray(gone.any(axis=1)))

    def labels(self, run: Run) -> np.ndarray:
        """Return the label that each row of the run is written with."""
        selection = run.selection
        return np.where(self.moved, selection.suggested_label, selection.label)


def write_rows(run: Run, outcome: Outcome, out: Path, to: Format) -> None:
    """Write the chosen rows of a run as a table: with all columns of the source, if it has any."""
    table, of_rows = run.table(), outcome.of_rows(run)
    if table is not None:
        _write_columns(run, table, outcome, out, to)
        return
    items = run.items() if to.name == "huggingface" else None
    if items is not None and items.kind == "image":
        raise InputError(
            f"{run.origin.source} holds images in files, not in a table. Write them with --to "
            "imagefolder: load_dataset('imagefolder', data_dir=...) of datasets reads that folder."
        )
    label, ids, marked = outcome.labels(run), run.row_id, marks
    if run.n_labels > 1:
        label, marked = _sets(run, label), _set_marks
        records = run.records()
        assert isinstance(records, Pairs)  # noqa: S101 - so say the options of the run
        ids = records.rows.row_id[run.table_rows()[:: run.n_labels]]
    chosen = np.flatnonzero(of_rows.chosen)

    def batch(rows: np.ndarray) -> pa.RecordBatch:
        texts, given = pa.array(ids[rows], pa.string()), pa.array(label[rows])
        return pa.record_batch({"row_id": texts, "label": given, **marked(run, rows)})

    # As Arrow has them, texts take much memory.
    batches = (batch(chosen[k : k + _BLOCK]) for k in range(0, len(chosen), _BLOCK))
    write_batches(out, to, batch(chosen[:0]).schema, batches)


def marks(run: Run, chosen: np.ndarray) -> dict[str, pa.Array]:
    """Return the added columns: a row's place in the source, and how its label was judged."""
    selection = run.selection
    columns = {
        "kspr_row": pa.array(run.row[chosen]),
        "kspr_given_label": pa.array(selection.label[chosen]),
        "kspr_clean": pa.array(selection.clean_mask[chosen]),
        "kspr_suggested_label": pa.array(selection.suggested_label[chosen]),
        "kspr_selection_time": pa.array(selection.selection_time[chosen]),
    }
    if selection.q_value is not None:
        level = selection.q_value[chosen].astype(np.float64)
        # Nothing where no level keeps a row: JSON and many readers have no infinity.
        columns["kspr_q_value"] = pa.array(level, mask=~np.isfinite(level))
    if selection.doubt_is_chance:
        columns["kspr_doubt"] = pa.array(selection.doubt[chosen])
    return columns


def _sets(run: Run, claims: np.ndarray) -> np.ndarray:
    """Return the labels of each row as one text, where pairs of it and a label claim `claims`."""
    claimed = claims.reshape(-1, run.n_labels)
    separator = str(run.origin.read_options().labels_separator)
    names = run.label_names
    return np.array([separator.join(names[has]) for has in claimed == names], dtype=np.str_)


def _set_marks(run: Run, chosen: np.ndarray) -> dict[str, pa.Array]:
    """Return the added columns of rows with several labels, by their numbers among such rows."""
    selection, k = run.selection, run.n_labels
    clean = selection.clean_mask.reshape(-1, k)[chosen]
    separator = str(run.origin.read_options().labels_separator)
    doubtful = [separator.join(run.label_names[~row]) for row in clean]
    return {
        "kspr_row": pa.array(run.row[::k][chosen] // k),
        "kspr_given_label": pa.array(_sets(run, selection.label)[chosen]),
        "kspr_clean": pa.array(clean.all(axis=1)),
        "kspr_doubtful_labels": pa.array(doubtful, pa.string()),
        "kspr_suggested_label": pa.array(_sets(run, selection.suggested_label)[chosen]),
    }


def _write_columns(run: Run, table: Table, outcome: Outcome, out: Path, to: Format) -> None:
    """Write the chosen rows of a table: all of its columns, as they are stored, and the marks.

    They come in the order that the source has now, a block of it at a time.
    """
    columns, several = table.columns(as_text=to.name == "csv"), run.n_labels > 1
    cells_of = _set_cells if several else _label_cells
    label, marked = cells_of(run, table, columns, outcome), _set_marks if several else marks
    # The position in the run of each row of the source that is written.
    chosen, places = np.flatnonzero(outcome.of_rows(run).chosen), run.table_rows()[:: run.n_labels]
    position_of = np.full(places.max(initial=-1) + 1, -1)
    position_of[places[chosen]] = chosen
    fields = {field.name: field for field in columns.schema}
    # Without rows: only the types are needed for the schema.
    empty = marked(run, np.empty(0, dtype=np.int64))
    added = {name: kind for name, (kind, _) in label.items()}
    added |= {extra: values.type for extra, values in empty.items()}
    for extra, of_extra in added.items():
        # The label column stays what it was, with its type and its metadata.
        if extra not in fields or fields[extra].type != of_extra:
            fields[extra] = pa.field(extra, of_extra)
    schema = pa.schema(list(fields.values()), columns.schema.metadata)

    def batches() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in columns.walk():
            here = position_of[start : start + len(batch)]
            position = here[here >= 0]
            rows = batch.take(pa.array(np.flatnonzero(here >= 0)))
            arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
            arrays |= {name: cells(rows, position) for name, (_, cells) in label.items()}
            arrays |= marked(run, position)
            yield pa.record_batch([arrays[field.name] for field in schema], schema=schema)
            start += len(batch)

    # A comma stands for any table as text, and a tab has suffixes of its own.
    semicolons = getattr(table, "delimiter", None) == ";" and delimiter_of(out) == ","
    write_batches(out, to, schema, batches(), ";" if semicolons else None)


def _set_cells(
    run: Run, table: Table, columns: Columns, outcome: Outcome
) -> dict[str, tuple[pa.DataType, _Cells]]:
    """Return what `_label_cells` does where rows have several labels, in one column or in many."""
    options = run.origin.read_options()
    claimed = outcome.labels(run).reshape(-1, run.n_labels) == run.label_names
    texts, moved = _sets(run, outcome.labels(run)), outcome.of_rows(run).moved

    def indicator(name: str, kind: pa.DataType) -> _Cells:
        of_label = claimed[:, run.label_names == name].any(axis=1).astype(np.int8)
        return lambda _, rows: pa.array(of_label[rows]).cast(kind)

    used = [name for name in run.records().columns["label"] if options.labels is None]
    if len(used) > 1:
        kinds = {name: columns.schema.field(name).type for name in used}
        return {name: (kind, indicator(name, kind)) for name, kind in kinds.items()}
    name = label_column(table, options, run.origin.source)
    if name not in used:
        return {name: (pa.string(), lambda _, rows: pa.array(texts[rows]))}
    kind = columns.schema.field(name).type

    def cells(batch: pa.RecordBatch, rows: np.ndarray) -> pa.Array:
        written = pa.array(texts[rows], pa.string())
        if pa.types.is_nested(kind):
            sets = [run.label_names[has].tolist() for has in claimed[rows]]
            written = pa.array(sets, pa.list_(pa.string()))
        # What is not changed stays as it was written.
        return pc.if_else(pa.array(moved[rows]), written.cast(kind), batch.column(name))

    return {name: (kind, cells)}


def _label_cells(
    run: Run, table: Table, columns: Columns, outcome: Outcome
) -> dict[str, tuple[pa.DataType, _Cells]]:
    """Return the label column's name with its type and a function that returns its cells.

    That takes a batch of the source's rows, and their positions in the run. Labels from a second
    file take the place of those in the table.
    """
    options = run.origin.read_options()
    name = label_column(table, options, run.origin.source)
    # A label within a struct cannot be replaced alone; it becomes a column of its own.
    if options.labels is not None or name not in columns.schema.names:
        label = outcome.labels(run)
        kind = pa.array(run.selection.classes).type
        return {name: (kind, lambda _, rows: pa.array(label[rows]))}
    suggested = run.selection.suggested_code
    spelled, number = _spelled(run, columns, name, outcome)

    def cells(batch: pa.RecordBatch, rows: np.ndarray) -> pa.Array:
        given, moved = batch.column(name), outcome.moved[rows]
        if not moved.any():
            return given
        cell = np.arange(len(batch))
        cell[moved] = len(batch) + number[suggested[rows[moved]]]
        # A column of a record batch must be one array.
        combined = pa.chunked_array([given, *spelled]).take(pa.array(cell)).combine_chunks()
        return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined

    return {name: (columns.schema.field(name).type, cells)}


def _spelled(
    run: Run, columns: Columns, name: str, outcome: Outcome
) -> tuple[list[pa.Array], np.ndarray]:
    """Return the cells of the classes that rows are moved to, and the place of each class in them.

    A suggested label is written as the source writes it: with the cell of the first row that has
    it. So class numbers stay numbers, and `01000` stays `01000`.
    """
    selection, present = run.selection, np.flatnonzero(~outcome.gone)
    none = len(run.records())
    first = np.full(len(selection.classes), none)
    np.minimum.at(first, selection.label_code[present], run.joined.places()[present])
    wanted = np.unique(selection.suggested_code[outcome.moved])
    lost = wanted[first[wanted] == none]
    if lost.size:
        raise InputError(
            f"{run.origin.source} has no row of the class {str(selection.classes[lost[0]])!r} any "
            "more, so that its spelling is not known. Pass --suspects keep or drop."
        )
    wanted = wanted[np.argsort(first[wanted])]
    rank = np.full(len(selection.classes), -1)
    rank[wanted] = np.arange(len(wanted))
    left, start, cells = first[wanted], 0, []
    for batch in columns.walk() if len(left) else ():
        here = left[left < start + len(batch)]
        cells.append(batch.column(name).take(pa.array(here - start)))
        left, start = left[len(here) :], start + len(batch)
        if not len(left):
            break
    return cells, rank
