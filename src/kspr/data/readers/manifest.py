"""CSV and TSV files that list image files and their labels."""

from pathlib import Path

from kspr.data.readers._assemble import records_of, roles_of
from kspr.data.readers._csv_table import has_table_suffix, open_csv_table
from kspr.data.readers._reader import Reader
from kspr.data.records import ReadOptions, Records
from kspr.errors import InputError

__all__ = ["MANIFEST"]


def _matches(path: Path, options: ReadOptions) -> bool:
    if not has_table_suffix(path):
        return False
    try:
        return roles_of(open_csv_table(path), options, str(path)).image is not None
    except InputError:
        # The reader of tables will say what is wrong.
        return False


def _read(path: Path, options: ReadOptions) -> Records:
    return records_of(open_csv_table(path), path, MANIFEST.name, options)


MANIFEST = Reader(
    "manifest",
    "list of images (.csv or .tsv with path and label): paths are relative to the list's folder",
    _matches,
    _read,
)
