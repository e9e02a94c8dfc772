"""The cleaned data set, in a format of choice; the source is never touched."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq

from kspr._files import staged
from kspr.errors import InputError
from kspr.runs.run import Run, load_run
from kspr.sources.readers import LABEL_NAMES

__all__ = ["Format", "Suspects", "export_run"]

Format = Literal["csv", "parquet", "jsonl", "imagefolder"]
Suspects = Literal["drop", "relabel", "keep"]


def export_run(folder: Path, out: Path, to: Format, suspects: Suspects) -> int:
    """Write the cleaned rows of a run to `out`, and return how many there are."""
    if out.exists():
        raise InputError(f"{out} already exists. Choose another --out.")
    run = load_run(folder)
    chosen = np.arange(len(run.row)) if suspects != "drop" else run.selection.clean_indices
    label = run.selection.label
    if suspects == "relabel":
        label = np.where(run.selection.clean_mask, label, run.selection.suggested_label)
    if to == "imagefolder":
        _write_images(run, chosen, label, out)
    else:
        with staged(out) as staging:
            _write_table(_tables(run, chosen, label), staging, to)
    return len(chosen)


def _tables(run: Run, chosen: np.ndarray, label: np.ndarray) -> Iterator[pa.Table]:
    """Yield the chosen rows: with all of their columns where the source is a table."""
    source = Path(run.origin.source)
    if source.suffix.lower() not in (".parquet", ".csv", ".tsv"):
        yield pa.table(
            {"row_id": run.row_id[chosen], "label": label[chosen], **_marks(run, chosen)}
        )
        return
    row, start = run.row[chosen], 0
    for batch in _source_batches(source):
        here = slice(*np.searchsorted(row, [start, start + len(batch)]))
        table = pa.Table.from_batches([batch]).take(pa.array(row[here] - start))
        yield _with_labels(table, run, label[chosen[here]], _marks(run, chosen[here]))
        start += len(batch)


def _source_batches(source: Path) -> Iterator[Any]:
    if source.suffix.lower() == ".parquet":
        yield from pq.ParquetFile(source).iter_batches()
        return
    separator = "\t" if source.suffix.lower() == ".tsv" else ","
    parse = pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    layout = pa_dataset.CsvFileFormat(parse_options=parse)
    yield from pa_dataset.dataset(source, format=layout).to_batches(use_threads=False)


def _with_labels(
    table: pa.Table, run: Run, label: np.ndarray, marks: dict[str, np.ndarray]
) -> pa.Table:
    """Put the labels into the table's own label column, and the marks behind all columns."""
    named = run.origin.options.get("label")
    usual = [name for name in table.column_names if name.casefold() in LABEL_NAMES]
    name = named if named in table.column_names else (usual[0] if len(usual) == 1 else "label")
    column = pa.array(label)
    if name in table.column_names:
        table = table.set_column(table.column_names.index(name), name, column)
    else:
        table = table.append_column(name, column)
    for mark, values in marks.items():
        table = table.append_column(mark, pa.array(values))
    return table


def _marks(run: Run, chosen: np.ndarray) -> dict[str, np.ndarray]:
    selection = run.selection
    return {
        "kspr_row": run.row[chosen],
        "kspr_given_label": selection.label[chosen],
        "kspr_clean": selection.clean_mask[chosen],
        "kspr_suggested_label": selection.suggested_label[chosen],
        "kspr_selection_time": selection.selection_time[chosen],
    }


def _write_table(tables: Iterator[pa.Table], path: Path, to: Format) -> None:
    with ExitStack() as stack:
        write: Callable[[pa.Table], None] | None = None
        for table in tables:
            write = write or _writer(table.schema, path, to, stack)
            write(table)


def _writer(
    schema: pa.Schema, path: Path, to: Format, stack: ExitStack
) -> Callable[[pa.Table], None]:
    if to == "parquet":
        parquet = stack.enter_context(pq.ParquetWriter(path, schema))
        return lambda table: parquet.write_table(table.cast(schema))
    if to == "csv":
        nested = [field.name for field in schema if pa.types.is_nested(field.type)]
        if nested:
            raise InputError(
                f"A CSV file cannot hold the lists of column {nested[0]!r}. Use --to parquet."
            )
        writer = stack.enter_context(pa_csv.CSVWriter(path, schema))
        return lambda table: writer.write_table(table.cast(schema))
    binary = [field.name for field in schema if pa.types.is_binary(field.type)]
    if binary:
        raise InputError(f"JSON cannot hold the bytes of column {binary[0]!r}. Use --to parquet.")
    lines = stack.enter_context(path.open("w", encoding="utf-8"))

    def write_lines(table: pa.Table) -> None:
        lines.writelines(
            json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table.to_pylist()
        )

    return write_lines


def _write_images(run: Run, chosen: np.ndarray, label: np.ndarray, out: Path) -> None:
    """Copy the stored bytes of each image into a folder per class."""
    records = run.records()
    if records.items is None or records.items.kind != "image":
        raise InputError("Only images can be exported as an image folder; use --to csv or parquet.")
    with staged(out) as staging:
        staging.mkdir()
        place = dict(zip(run.row[chosen].tolist(), chosen.tolist(), strict=True))
        for row, content in enumerate(records.items.content()):
            if row not in place:
                continue
            folder = staging / _safe(str(label[place[row]]))
            folder.mkdir(exist_ok=True)
            name = f"{row:08d}{_suffix(str(run.row_id[place[row]]), content)}"
            (folder / name).write_bytes(content)


def _safe(name: str) -> str:
    """Return a class name as a folder may be called."""
    kept = "".join("_" if ch in '/\\:*?"<>|' or ord(ch) < 32 else ch for ch in name).strip(". ")
    return kept or "_"


def _suffix(row_id: str, content: bytes) -> str:
    named = Path(row_id).suffix.lower()
    if named in (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"):
        return named
    known = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"GI": ".gif", b"BM": ".bmp", b"RI": ".webp"}
    if content[:2] in known:
        return known[content[:2]]
    raise InputError("The images of this source are not stored as image files; use --to parquet.")
