"""What users say about their data, and how items become features.

Imports nothing heavy: the command line's help shows it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class ReadOptions:
    """What the user says about a file; the reader finds the rest by names and types.

    Column names for tables, array names for npz files.
    """

    label: str | None = None
    """Column (or array) of labels."""
    features: str | None = None
    """Columns of features, by a pattern such as ``emb_*``, or one column of lists."""
    columns: str | None = None
    """Columns of a table to judge by, where these are of several kinds: numbers, dates and
    categories, by names or patterns with commas between, such as `age,city*`. With `!` in front a
    column is left out: `!zip`."""
    probabilities: str | None = None
    """Class probabilities of a model of your own, which has not seen the labels: columns by a
    pattern such as ``p_*``, named like the classes; one array of an npz file; or an npy file."""
    image: str | None = None
    """Column of image files (paths or bytes)."""
    text: str | None = None
    """Column of texts."""
    labels: Path | None = None
    """A second file with the labels, one per row: any table, npy, or txt."""
    labels_separator: str | None = None
    """What stands between the labels of a row where a row has any number of them, such as `|` in
    the cell `cat|indoors`. The column may also hold lists of labels; or name several columns of 0
    and 1 by `--label 'cat|indoors'`. Each pair of a row and a label is judged."""
    target: Literal["classes", "numbers"] = "classes"
    """What labels are: `classes`; or `numbers`, such as prices, or grades that have an order. Those
    are doubtful that are far from what a model of the other rows says, and nothing is kept before
    rows are checked."""
    missing: Literal["refuse", "drop"] = "refuse"
    """What to do with rows without a label: refuse the source, or leave these rows out."""
    truth: str | None = None
    """Column (or array) of true labels, where the file has them."""
    id: str | None = None
    """Column that identifies a row; without it, the row's number or path does."""
    groups: str | None = None
    """Column (or array) that says which rows belong together, such as the patient of each photo:
    rows of one group are judged by a fit that has seen none of them, and `kspr verify
    --whole-groups` shows them together. It may be in the file --labels."""
    annotators: str | None = None
    """Columns with the labels of several people, by a pattern such as ``rater_*``. Or the column of
    the file --labels that says who gave a label, where that file has one line per label."""
    encoding: str | None = None
    """Encoding of a text file, such as ``latin-1``; without it, UTF-8 or its byte-order mark."""
    decimal: Literal[".", ","] | None = None
    """Decimal mark of a CSV file; without it, a comma only where nothing else is possible."""
    split: str | None = None
    """Part of a published data set, such as ``test``; without it, the training part."""
    classes: int | None = None
    """The first classes of WebVision alone; the paper takes 50. [default: all, or 50 where the
    folder's name has ``mini``]"""

    @property
    def encoder(self) -> Any:
        """How gaps, dates and categories become numbers; None if the rows themselves tell."""
        return None


@dataclass(frozen=True)
class _WithEncoder(ReadOptions):
    # A class of its own, because the fields of `ReadOptions` are flags of commands.
    encoder: Any = None


def with_encoder(options: ReadOptions, encoder: Any) -> ReadOptions:
    """Return options that read rows by the encoder of others; None changes nothing."""
    return options if encoder is None else _WithEncoder(**{**vars(options), "encoder": encoder})


AS_FOUND = ReadOptions()
"""No options: every part of a source is found by its name, type or layout."""


@dataclass(frozen=True)
class EmbedSettings:
    """How images, texts and sounds become features."""

    embedder: str | None = None
    """An embedder's name. [default: the one that comes with kspr]"""
    batch_size: int = 64
    """Items to embed at a time."""
    device: str = "auto"
    """Where the embedder runs, such as `cpu` or `cuda:1`; `auto` takes a GPU if there is one."""
    half: bool = False
    """Compute and store in half precision."""
    image_size: int | None = None
    """Pixels to which images are scaled. [default: the embedder's own]"""
    flips: bool = False
    """Average the features of each image and its mirror image: better, at twice the time."""
    strict: bool = False
    """Fail on the first item that cannot be read, instead of leaving such items out."""


AS_SHIPPED = EmbedSettings()
"""The embedder that comes with kspr, with its own settings."""
