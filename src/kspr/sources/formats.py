"""The files of a source: where they are, and in which formats files of users come.

The readers, `kspr datasets`, the choices of `kspr export`, the files of `--labels` and the error
messages are all made from the one list of formats. Imports nothing heavy: the command line's help
shows it. An address begins with the name of a storage system: ``s3://bucket/folder``. Arrow opens
those that it knows, `fsspec` the others, once an address is used.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from kspr.errors import InputError, MissingExtraError

# A letter alone is a drive of Windows.
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?=[^/])")
_WILD = re.compile(r"[*?\[]")


def address_of(source: Path | str) -> str | None:
    """Return the address that `source` is; None for a path of this machine.

    >>> address_of(Path("s3://bucket/parts"))
    's3://bucket/parts'
    """
    text = str(source)
    # A Path has folded the two slashes into one.
    return _ADDRESS.sub(r"\1://", text) if _ADDRESS.match(text) else None


def local(source: Path | str) -> Path | None:
    """Return the path of a source on this machine; None for an address."""
    return Path(source) if address_of(source) is None else None


def absolute(source: Path | str) -> str:
    """Return where a source is, whatever the current folder."""
    return address_of(source) or str(Path(source).resolve())


def is_pattern(source: Path | str) -> bool:
    """Return whether `source` stands for all files whose names fit: ``parts/*.parquet``."""
    address = address_of(source)
    if address is not None:
        return _WILD.search(urlsplit(address).path) is not None
    # A file may have such a name of its own.
    return _WILD.search(str(source)) is not None and not Path(source).exists()


def exists(source: Path | str) -> bool:
    """Return whether there is a file or a folder, or a file that fits a pattern."""
    return Path(source).exists() if _is_plain(source) else bool(list_files(source))


def _is_plain(source: Path | str) -> bool:
    return address_of(source) is None and not is_pattern(source)


def list_files(source: Path | str, suffixes: tuple[str, ...] = ("",)) -> list[str]:
    """Return the files of a source, sorted: itself, those in its folder, or those that fit.

    Of a folder, those whose names end in one of the `suffixes`. Hidden files are left out.
    """
    # Arrow's data sets skip a leading dot or underscore as well: such files are no data. macOS puts
    # "._" files beside those that it copies.
    if _is_plain(source):
        path = Path(source)
        inside = path.iterdir() if path.is_dir() else ()
        files = [str(p) for p in inside if _is_data(p.name, suffixes) and p.is_file()]
        return sorted(files) if path.is_dir() else [str(path)] * path.exists()
    system, path_there, address = _located(source)
    return sorted(map(address, _matching(system, PurePosixPath(path_there), suffixes)))


def open_input(uri: str) -> Any:
    """Return a file to read at any place, as Arrow's readers take it."""
    system, path, _ = _located(uri)
    return system.open_input_file(path)


def _located(source: Path | str) -> tuple[Any, str, Callable[[str], str]]:
    """Return the file system of a source, its path there, and what makes an address of a path."""
    from pyarrow.fs import LocalFileSystem

    address = address_of(source)
    if address is None:
        return LocalFileSystem(), str(source), str
    parts = urlsplit(address)
    if "@" in parts.netloc or "secret" in parts.query:
        raise InputError(
            f"The address of {parts.path!r} holds a key, which the run would keep. Leave it out, "
            "and set the variables of the storage system, such as AWS_SECRET_ACCESS_KEY."
        )
    system, root = _opened(urlunsplit(parts._replace(path="/")))
    return (
        system,
        root + parts.path,
        lambda path: urlunsplit(parts._replace(path=path.removeprefix(root))),
    )


# Connecting takes time, and there are a file and a folder to open for each part.
@lru_cache(maxsize=8)
def _opened(root: str) -> tuple[Any, str]:
    from pyarrow import ArrowException, ArrowInvalid, fs

    try:
        system, path = fs.FileSystem.from_uri(root)
    except ArrowInvalid:
        return _by_fsspec(root)
    except (ArrowException, OSError) as error:
        raise _unreachable(root, error) from error
    return system, path.rstrip("/")


def _by_fsspec(root: str) -> tuple[Any, str]:
    """Return a file system that Arrow does not know itself."""
    from pyarrow import fs

    scheme = urlsplit(root).scheme
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(f"An address that begins with {scheme}://", "fsspec") from error
    try:
        system, path = fsspec.core.url_to_fs(root)
    # Its packages have errors of their own kinds.
    except Exception as error:
        raise _unreachable(root, error) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(path).rstrip("/")


def _unreachable(uri: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:160].rstrip(".")
    return InputError(f"{uri} cannot be reached ({reason}). Check the address and its permissions.")


def _matching(system: Any, pattern: PurePosixPath, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that fit a pattern, or those in it if it is a folder."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileType

    steps = list(pattern.parts)
    plain = next((i for i, step in enumerate(steps) if _WILD.search(step)), len(steps))
    start = str(PurePosixPath(*steps[:plain])) if plain else "."
    try:
        entries = [(system.get_file_info(start), start)]
        for step in steps[plain:]:
            inside = [entry for folder, _ in entries for entry in _listed(system, folder)]
            entries = [
                (entry, entry.path) for entry in inside if fnmatchcase(entry.base_name, step)
            ]
        if plain == len(steps) and entries[0][0].type == FileType.Directory:
            here = _listed(system, entries[0][0])
            entries = [(e, e.path) for e in here if _is_data(e.base_name, suffixes)]
    except (ArrowException, OSError) as error:
        raise _unreachable(str(pattern), error) from error
    named = plain == len(steps)
    return [
        path
        for entry, path in entries
        if entry.type == FileType.File and (named or _is_data(entry.base_name, ("",)))
    ]


def _listed(system: Any, folder: Any) -> Sequence[Any]:
    from pyarrow.fs import FileSelector, FileType

    if folder.type != FileType.Directory:
        return ()
    entries: Sequence[Any] = system.get_file_info(FileSelector(folder.path))
    return entries


def _is_data(name: str, suffixes: tuple[str, ...]) -> bool:
    return name[:1] not in ("", ".", "_") and name.lower().endswith(suffixes)


WrittenFormat = Literal[
    "csv", "parquet", "arrow", "jsonl", "imagefolder", "huggingface", "label-studio", "fiftyone"
]
"""Formats that kspr writes, by name. A type of its own, so that the command line checks it."""


@dataclass(frozen=True)
class Format:
    """One format of users' own files."""

    name: str
    about: str
    """One line for `kspr datasets`: what it holds, and how it is recognised."""
    suffixes: tuple[str, ...] = ()
    """Ends of file names, in lower case, the usual one first; empty for folders."""
    is_source: bool = True
    """Whether `kspr select` can read it."""
    has_labels: bool = False
    """Whether `--labels` and `--truth` can read it."""
    for_people: bool = False
    """Whether it is a JSON document with rows for people to look at, in a tool of that name. Among
    other .json files it is told by its content."""

    @property
    def is_written(self) -> bool:
        """Whether `kspr export` can write it."""
        return self.name in get_args(WrittenFormat)

    def matches(self, path: Path) -> bool:
        """Return whether the name of a file ends in one of the suffixes."""
        # Not `path.suffix`, which sees `.gz` alone in `x.csv.gz`.
        return path.name.lower().endswith(self.suffixes)


FORMATS: tuple[Format, ...] = (
    Format(
        "npy",
        "NumPy array: features, memory-mapped; labels in a file of their own",
        (".npy",),
        has_labels=True,
    ),
    Format(
        "npz",
        "NumPy archive, never pickled: arrays by name, or X and y, features and labels, ...",
        (".npz",),
    ),
    # Recognised by its columns, so that its files are CSV files in every other respect.
    Format("manifest", "list of images in a CSV file: paths relative to its folder, and labels"),
    Format(
        "csv",
        "table as text, tab-separated as .tsv: feature columns by pattern or texts, label by name",
        (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz"),
        has_labels=True,
    ),
    Format(
        "parquet",
        "parquet file, folder or pattern: feature columns, one list column, images or texts",
        (".parquet", ".pq"),
        has_labels=True,
    ),
    Format(
        "arrow",
        "Arrow or Feather file, folder or pattern: as parquet, memory-mapped where not compressed",
        (".arrow", ".feather", ".ipc"),
        has_labels=True,
    ),
    Format(
        "jsonl",
        "one JSON object per line, or a .json array of objects: as parquet, read into memory",
        (".jsonl", ".ndjson", ".json"),
        has_labels=True,
    ),
    Format(
        "huggingface",
        "Hugging Face data set (folder made by save_to_disk): memory-mapped; class names are used",
        has_labels=True,
    ),
    Format(
        "label-studio",
        "tasks of Label Studio (.json): what people chose, also as answers of `kspr verify`",
        is_source=False,
        has_labels=True,
        for_people=True,
    ),
    Format(
        "fiftyone",
        "classification labels of FiftyOne (.json), by the names of images",
        is_source=False,
        has_labels=True,
        for_people=True,
    ),
    Format(
        "imagefolder",
        "folder of images or sounds, a folder per class (deeper folders belong to it)",
    ),
    Format(
        "txt",
        "one label per line",
        (".txt", ".labels", ".txt.gz"),
        is_source=False,
        has_labels=True,
    ),
)

LABEL_FORMATS = tuple(known for known in FORMATS if known.has_labels)
HUGGING_FACE_FILES = ("state.json", "dataset_dict.json")
"""Files that `save_to_disk` leaves in the folder of one split, and around several splits."""


def find_format(name: str) -> Format:
    """Return the format called `name`."""
    return next(known for known in FORMATS if known.name == name)


def format_of(path: Path) -> Format | None:
    """Return the format of a file by its suffix, or of a folder by what it holds.

    A pattern has the format of the files that fit. None for a file with an unknown suffix.
    """
    # The suffix counts for folders too: Spark writes x.parquet as a folder of part files.
    named = _by_suffix(path)
    if named is not None:
        return named
    if is_pattern(path) or address_of(path) is not None:
        files = list_files(path)
        return _by_suffix(Path(files[0])) if files else None
    if not path.is_dir():
        return None
    saved = any((path / name).is_file() for name in HUGGING_FACE_FILES)
    # A saved data set is Arrow files and what is known about them.
    for name in ("parquet", "huggingface" if saved else "arrow"):
        if name == "huggingface" or list_files(path, find_format(name).suffixes):
            return find_format(name)
    return find_format("imagefolder")


def delimiter_of(path: Path) -> str:
    """Return what separates the cells of a CSV file, by its suffix: a comma, or a tab."""
    tabs = path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab"))
    return "\t" if tabs else ","


def _by_suffix(path: Path) -> Format | None:
    return next((known for known in FORMATS if known.matches(path)), None)


def some_suffixes(formats: tuple[Format, ...]) -> str:
    """Return the usual suffix of each format, for a message: ``.npy, .csv or .parquet``."""
    usual = [known.suffixes[0] for known in formats if known.suffixes]
    return " or ".join(filter(None, (", ".join(usual[:-1]), usual[-1])))


def written_format(out: Path, to: str | None = None, *, files_only: bool = False) -> Format:
    """Return the format in which `out` is to be written: `to`, else what its suffix says.

    Raise `InputError` if the two contradict each other, or if kspr does not write the format.
    """
    choices = tuple(f for f in FORMATS if f.is_written and (f.suffixes or not files_only))
    named = _by_suffix(out)
    # Lines are read from such a file too, but other programs expect one document in it.
    if out.suffix.lower() == ".json" and to in (None, "jsonl"):
        raise InputError(f"JSON lines go to a file that ends in .jsonl, got {out.name!r}.")
    if to is None:
        if named in choices:
            return named
        raise InputError(
            f"--out must end in {some_suffixes(choices)}, got {out.name!r}."
            + ("" if files_only else " For another name, a folder or another tool, pass --to.")
        )
    asked = find_format(to)
    if asked.for_people:
        if out.suffix.lower() != ".json":
            raise InputError(f"--to {to} writes a file that ends in .json, got {out.name!r}.")
        return asked
    # A parquet file called x.csv would be refused by whoever reads it next, kspr among them.
    if named is not None and named != asked:
        raise InputError(
            f"--to {to} contradicts --out {out.name}, whose suffix says {named.name}. Leave out "
            f"--to, or choose a name that ends in {asked.suffixes[0] if asked.suffixes else '/'}."
        )
    return asked
