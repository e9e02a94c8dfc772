"""From a source of many files to a run, on a Dask cluster: workers read, judge and write parts."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from kspr._files import staged, write_parquet, write_sealed
from kspr.errors import InputError
from kspr.runs.answers import apply_checks, checked_rows, write_checks
from kspr.runs.rows import ROWS
from kspr.runs.run import ORIGIN, Origin, check_folder, describe, load_run, origin_document
from kspr.runs.select import checks_of
from kspr.selectors import KnockoffsSPR
from kspr.selectors.cluster_selection import (
    Partitions,
    Rows,
    Written,
    part_name,
    write_on_cluster,
)
from kspr.selectors.engines.cluster import Cluster, local_cluster
from kspr.sources.opening import open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.parts import Part
from kspr.sources.places import absolute
from kspr.sources.readers.table import Field, Table
from kspr.sources.readers.tables import roles_of
from kspr.sources.records import Records, number_digests

__all__ = ["check_own_files", "opened_cluster", "select_on_cluster"]


def select_on_cluster(
    source: Path,
    out: Path,
    selector: KnockoffsSPR,
    *,
    options: ReadOptions,
    command: Sequence[str],
    scheduler: str | None = None,
    overwrite: bool = False,
    checked: Path | None = None,
) -> Written:
    """Select from the files of `source` on a cluster, and write the run to `out`.

    `scheduler` is the address of a Dask scheduler; None starts a cluster on this machine. Workers
    must reach both the files and `out`. `checked` is as for `select_source`.
    """
    check_folder(out, overwrite=overwrite)
    parts, row_bytes = _parts(source, options)
    with opened_cluster(scheduler) as cluster, staged(out) as staging:
        staging.mkdir()
        lengths = _lengths(cluster, parts, options)
        if not sum(lengths):
            raise InputError(f"{source} has no rows.")
        # Parts without rows are never read.
        made = [cluster.lazily(read_part, part.uri, options) for part in parts if part.n_rows]
        held = iter(cluster.held(made, row_bytes * sum(lengths)))
        rows = tuple(next(held) if part.n_rows else None for part in parts)
        partitions = Partitions(rows, lengths)
        groups = options.groups is not None
        written = write_on_cluster(selector, cluster, partitions, staging, groups=groups)
        named = _write_rows(cluster, parts, partitions, staging)
        origin = Origin(
            source=absolute(source),
            reader=parts[0].kind,
            options=describe(options),
            command=tuple(command),
            n_rows=sum(part.n_rows for part in parts),
            notes=_notes(parts, lengths, written),
        )
        write_sealed(staging / ORIGIN, origin_document(origin, named), ROWS, "manifest.json")
    return written if checked is None else _with_answers(written, out, checked)


def _with_answers(written: Written, out: Path, checked: Path) -> Written:
    """Add the answers in the file `checked` to the run in `out`."""
    run = load_run(out)
    try:
        answers, drawn = checked_rows(checked, run.rows, run.selection.label)
    except InputError as error:
        raise InputError(
            f"{error} The run in {out} is without answers; add them with `kspr verify {out} "
            "--answers FILE`."
        ) from error
    checks = checks_of(run.selection, answers, drawn)
    write_checks(out, checks)
    kept = int(apply_checks(run.selection, checks).clean_mask.sum())
    return replace(written, n_kept=kept)


@dataclass(frozen=True)
class FileRows(Rows):
    """The rows of a file, and what identifies them."""

    row: np.ndarray | None = None
    """Their numbers in the file; None for all of its rows."""
    ids: np.ndarray | None = None


def read_part(uri: str, options: ReadOptions) -> FileRows:
    """Return the rows of a file, on a worker."""
    records, chosen = _opened(uri, options)
    label, features = records.label, records.features
    assert label is not None  # noqa: S101 - a source without labels is refused
    ids = np.asarray(records.row_id) if records.named else None
    groups = None if records.groups is None else np.asarray(records.groups)
    if len(chosen) == len(records):
        return FileRows(np.asarray(features), np.asarray(label), groups, None, ids)
    ids, groups = (None if column is None else column[chosen] for column in (ids, groups))
    return FileRows(np.asarray(features[chosen]), np.asarray(label[chosen]), groups, chosen, ids)


def _opened(uri: str, options: ReadOptions) -> tuple[Records, np.ndarray]:
    records = open_source(Path(uri), options)
    if records.features is None:
        raise InputError(
            f"{uri} has no features. Embed its images or texts first, with `kspr embed --engine "
            "dask`."
        )
    if records.label is None:
        raise InputError(f"{uri} has no labels. Name their column with --label.")
    return records, records.labelled()


def _parts(source: Path, options: ReadOptions) -> tuple[tuple[Part, ...], int]:
    """Return the files of a source that workers can read one by one, and the bytes of a row."""
    table = check_own_files(source, options)
    # Before a cluster is started: a column that is missing in one file is missing in all.
    roles = roles_of(table, options, str(source))
    return table.parts, sum(_width(field, table.parts) for field in roles.features)


def check_own_files(source: Path, options: ReadOptions) -> Table:
    """Return a source as a table of files that each has all of its rows' columns."""
    for name in ("labels", "annotators", "probabilities"):
        if getattr(options, name) is not None:
            raise InputError(
                f"--{name} does not go with --engine dask, which reads each file by itself. Put "
                "the labels into the files."
            )
    table = open_table(source, options)
    if table is None or not table.parts:
        raise InputError(
            f"--engine dask reads parquet and Arrow files, such as 'parts/*.parquet', and {source} "
            "is none of these. Leave --engine out."
        )
    return table


def _width(field: Field, parts: Sequence[Part]) -> int:
    """Return about how many bytes a value of a column takes in memory."""
    length, numbers = 1, field.type
    if pa.types.is_fixed_size_list(numbers):
        length, numbers = numbers.list_size, numbers.value_type
    elif pa.types.is_list(numbers) or pa.types.is_large_list(numbers):
        part = next((part for part in parts if part.n_rows), None)
        first = None if part is None else part.read([field])[0][0].as_py()
        length, numbers = len(first or ()), numbers.value_type
    return length * (4 if numbers in (pa.float16(), pa.float32()) else 8)


def _lengths(cluster: Cluster, parts: Sequence[Part], options: ReadOptions) -> tuple[int, ...]:
    if options.missing == "refuse":
        return tuple(part.n_rows for part in parts)
    # Which rows have labels is known to those who read them.
    there = [(part.uri, options) for part in parts if part.n_rows]
    counted = iter(cluster.results(cluster.each(_count_labelled, there)))
    return tuple(next(counted) if part.n_rows else 0 for part in parts)


def _count_labelled(uri: str, options: ReadOptions) -> int:
    return len(_opened(uri, options)[1])


def _write_rows(
    cluster: Cluster, parts: Sequence[Part], partitions: Partitions, staging: Path
) -> bool:
    """Let workers write what identifies the rows; return whether the files name them."""
    folder = staging / ROWS
    folder.mkdir(exist_ok=True)
    blocks = [
        (rows, parts[number].start, folder / part_name(number))
        for rows, number, _ in partitions.blocks()
    ]
    return all(cluster.results(cluster.each(_write_row_part, blocks)))


def _write_row_part(rows: FileRows, first: int, path: Path) -> bool:
    row = first + (np.arange(len(rows.y)) if rows.row is None else rows.row)
    columns = {
        "row": row,
        "row_id": pa.array(row.astype(str) if rows.ids is None else rows.ids).cast(
            pa.large_string()
        ),
        "digest": number_digests(rows.X),
    }
    write_parquet(path, pa.table(columns))
    return rows.ids is not None


def _notes(parts: Sequence[Part], lengths: Sequence[int], written: Written) -> tuple[str, ...]:
    notes = [
        "Selected on a cluster: exact copies of rows are judged by a fit that has seen none of "
        "them; near copies were not looked for, and each copy counts as a row of its own."
    ]
    if written.share_of_copies > 0:
        notes.append(f"About {written.share_of_copies:.1%} of the rows have an exact copy.")
    left_out = sum(part.n_rows for part in parts) - sum(lengths)
    if left_out:
        notes.append(f"{left_out:,} rows have no label and are left out.")
    return tuple(notes)


@contextmanager
def opened_cluster(scheduler: str | None) -> Iterator[Cluster]:
    """Connect to the scheduler at an address, or start a cluster on this machine."""
    found: AbstractContextManager[Cluster]
    found = local_cluster() if scheduler is None else Cluster.at(scheduler)
    with found as cluster:
        yield cluster
