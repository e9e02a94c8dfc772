"""The one list of formats: what each is called, how it is recognised, what can be done with it.

The readers, `kspr datasets`, the choices of `kspr export`, the files of `--labels` and the error
messages are all made from this list. Imports nothing heavy: the command line's help shows it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kspr.errors import InputError
from kspr.sources.places import address_of, is_pattern, list_files

__all__ = [
    "FORMATS",
    "HUGGING_FACE_FILES",
    "LABEL_FORMATS",
    "Format",
    "WrittenFormat",
    "delimiter_of",
    "find_format",
    "format_of",
    "some_suffixes",
    "written_format",
]

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
