"""CSV and TSV tables of features or texts."""

from pathlib import Path

from kspr.data.readers._assemble import records_of
from kspr.data.readers._csv_table import has_table_suffix, open_csv_table
from kspr.data.readers._reader import Reader
from kspr.data.records import ReadOptions, Records

__all__ = ["DELIMITED"]


def _matches(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return has_table_suffix(path)


def _read(path: Path, options: ReadOptions) -> Records:
    return records_of(open_csv_table(path), path, DELIMITED.name, options)


DELIMITED = Reader(
    "csv",
    "CSV or TSV table (.csv, .tsv, also .gz): feature columns by pattern or texts, label by name",
    _matches,
    _read,
)
