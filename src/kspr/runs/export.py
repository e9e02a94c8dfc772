"""Writing the cleaned data set of a run, in a format of choice; the source is not changed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from kspr._files import staged
from kspr.errors import InputError
from kspr.runs.run import Run, load_run
from kspr.sources.formats import Format, WrittenFormat, written_format
from kspr.sources.opening import label_column
from kspr.sources.readers.image_folder import IMAGE_SUFFIXES
from kspr.sources.readers.table import Columns, Table
from kspr.sources.writing import write_batches

__all__ = ["Suspects", "export_run"]

Suspects = Literal["drop", "relabel", "keep"]


def export_run(folder: Path, out: Path, to: WrittenFormat | None, suspects: Suspects) -> int:
    """Write the cleaned rows of a run to `out`, and return how many there are.

    Without `to`, the suffix of `out` decides the format.
    """
    known = written_format(out, to)
    if out.exists():
        raise InputError(f"{out} already exists. Choose another --out.")
    run = load_run(folder)
    chosen = np.arange(len(run.row)) if suspects != "drop" else run.selection.clean_indices
    moved = np.zeros(len(run.row), dtype=bool)
    if suspects == "relabel":
        suggested = run.selection.suggested_label
        # A suspect whose own label is the most likely one keeps its cell as it is.
        moved = ~run.selection.clean_mask & (suggested != run.selection.label)
    if known.name == "imagefolder":
        _write_images(run, chosen, _labels(run, moved), out)
        return len(chosen)
    table = run.table()
    if table is None:
        _write_rows(run, chosen, _labels(run, moved), out, known)
    else:
        _write_columns(run, table, chosen, moved, out, known)
    return len(chosen)


def _labels(run: Run, moved: np.ndarray) -> np.ndarray:
    return np.where(moved, run.selection.suggested_label, run.selection.label)


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


def _write_columns(
    run: Run, table: Table, chosen: np.ndarray, moved: np.ndarray, out: Path, to: Format
) -> None:
    """Write the chosen rows of a table: all of its columns, as they are stored, and the marks."""
    columns = table.columns(as_text=to.name == "csv")
    place = run.place(_count(table, columns))
    name, label = _label_cells(run, table, columns, place, moved)
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
            # Rows are in ascending order, so that those of a block are next to each other.
            first, end = np.searchsorted(place[chosen], [start, start + len(batch)])
            here = chosen[first:end]
            rows = batch.take(pa.array(place[here] - start))
            arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
            arrays |= {name: _combined(label.take(pa.array(here))), **_marks(run, here)}
            yield pa.record_batch([arrays[field.name] for field in schema], schema=schema)
            start += len(batch)

    write_batches(out, to, schema, batches())


def _count(table: Table, columns: Columns) -> int:
    return sum(map(len, columns.walk())) if table.rows is None else table.rows


def _label_cells(
    run: Run, table: Table, columns: Columns, place: np.ndarray, moved: np.ndarray
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
        return name, pa.chunked_array([pa.array(_labels(run, moved))])
    stored = pa.chunked_array([batch.column(name) for batch in columns.walk()])
    # Suggested labels are always among the given ones, so that searchsorted finds each.
    classes, first = np.unique(run.selection.label, return_index=True)
    suggested = first[np.searchsorted(classes, run.selection.suggested_label[moved])]
    source = np.arange(len(run.row))
    source[moved] = suggested
    return name, stored.take(pa.array(place[source]))


def _combined(cells: pa.ChunkedArray) -> pa.Array:
    # A column of a record batch must be one array.
    combined = cells.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _write_images(run: Run, chosen: np.ndarray, label: np.ndarray, out: Path) -> None:
    """Copy the stored bytes of each image into a folder per class."""
    run.records()  # says why, if the source cannot be read any more
    items = run.items()
    if items is None or items.kind != "image":
        raise InputError(
            f"{run.origin.source} holds no images, which an image folder is made of. Choose an "
            "--out that ends in .csv or .parquet."
        )
    wanted, folders = set(chosen.tolist()), _class_folders(label[chosen])
    with staged(out) as staging:
        staging.mkdir()
        for position, content in enumerate(items.content()):
            if position not in wanted:
                continue
            folder = staging / folders[str(label[position])]
            folder.mkdir(exist_ok=True)
            # By row number: files of one name may come from different folders.
            name = f"{run.row[position]:08d}{_suffix(str(run.row_id[position]), content)}"
            (folder / name).write_bytes(content)


def _class_folders(label: np.ndarray) -> dict[str, str]:
    """Return the folder of each class; raise if two classes would share one."""
    folders: dict[str, str] = {}
    for name in map(str, np.unique(label).tolist()):
        same = next((other for other, folder in folders.items() if folder == _safe(name)), None)
        if same is not None:
            raise InputError(
                f"The classes {same!r} and {name!r} would share the folder {_safe(name)!r}. "
                "Rename one of them in the source, or choose an --out that ends in .csv."
            )
        folders[name] = _safe(name)
    return folders


def _safe(name: str) -> str:
    """Return a class name as a folder may be called."""
    # What Windows refuses in names, where dots and spaces at the end are dropped, too. Nothing is
    # left of "..", which would lead out of the folder.
    kept = "".join("_" if ch in '/\\:*?"<>|' or ord(ch) < 32 else ch for ch in name).strip(". ")
    return kept or "_"


def _suffix(row_id: str, content: bytes) -> str:
    """Return the suffix of an image: that of its file, else the one that its first bytes show."""
    named = Path(row_id).suffix.lower()
    if named in IMAGE_SUFFIXES:
        return named
    known = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"GI": ".gif", b"BM": ".bmp", b"RI": ".webp"}
    if content[:2] in known:
        return known[content[:2]]
    raise InputError(
        f"The image of row {row_id!r} is not stored as an image file. Choose an --out that ends in "
        ".csv or .parquet."
    )
