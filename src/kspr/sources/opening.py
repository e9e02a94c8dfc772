"""One door to everything that can be read: users' own files and published data sets."""

from dataclasses import dataclass, replace
from pathlib import Path

from kspr.errors import InputError
from kspr.sources.published import PUBLISHED, find_root, where
from kspr.sources.readers import READERS, read
from kspr.sources.records import ReadOptions, Records

__all__ = ["Format", "Known", "Sources", "list_sources", "open_source"]


@dataclass(frozen=True)
class Format:
    """A format of users' own files."""

    name: str
    reads: str


@dataclass(frozen=True)
class Known:
    """A published data set, and whether it is here."""

    name: str
    reads: str
    root: Path | None
    places: tuple[Path, ...]
    files: tuple[tuple[str, str], ...]
    """Files that are expected in its folder, and what each is."""


@dataclass(frozen=True)
class Sources:
    """Everything that can be read."""

    formats: tuple[Format, ...]
    published: tuple[Known, ...]


def list_sources() -> Sources:
    """Return what can be read, where each published data set is expected, and whether it is."""
    return Sources(
        formats=tuple(Format(reader.name, reader.reads) for reader in READERS),
        published=tuple(
            Known(
                dataset.name,
                dataset.reads,
                root := find_root(dataset.name),
                tuple(where(dataset.name)),
                tuple((str(f), purpose) for f, purpose in dataset.files(root or Path())),
            )
            for dataset in PUBLISHED
        ),
    )


def open_source(path: Path, options: ReadOptions) -> Records:
    """Read `path`; published layouts come before formats, which they are made of."""
    for dataset in PUBLISHED:
        if dataset.matches(path, options):
            return dataset.read(path, replace(options, split=None), split=options.split)
    if options.split is not None:
        raise InputError(f"{path} is no published data set; --split is for these only.")
    return read(path, options)
