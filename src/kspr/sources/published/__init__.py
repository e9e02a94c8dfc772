"""Data sets in the layouts in which their authors published them: checks and errors of all.

A data set has a name, one line `about` it for `kspr datasets`, and its `splits`, the default first;
`files(root)` are the expected files with what each is for, `present(root)` tells whether the
default split can be read, `matches(path)` whether `path` is its folder or one of its split files,
and `read(path, options)` returns the rows. Nothing is decoded before it is asked for.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.sources.joining import with_label_file
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import shown
from kspr.sources.records import Records


def missing(path: Path, origin: str) -> InputError:
    """Return the error for a file that is not there; `origin` is the archive that holds it."""
    return InputError(f"{path} is missing; it comes with {origin}.")


def damaged(path: Path, origin: str, how: str) -> InputError:
    """Return the error for a file whose content is not as published."""
    return InputError(f"{path} {how}; extract it again from {origin}.")


def read_lines(path: Path, origin: str) -> list[str]:
    """Return the lines of a text file without the empty ones."""
    if not path.is_file():
        raise missing(path, origin)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise damaged(path, origin, "is not text") from error
    lines = [line for line in map(str.strip, lines) if line]
    if not lines:
        raise damaged(path, origin, "is empty")
    return lines


def split_line(path: Path, line: str, origin: str, classes: int) -> tuple[str, int]:
    """Return the image and the class of a line such as ``google/q0001/a.jpg 0``."""
    # From the right: a path may have spaces in it.
    image, _, label = line.rpartition(" ")
    # Not isdigit, which is true of superscripts that int() refuses.
    if not image or not label.isdecimal() or int(label) >= classes:
        how = f"has the line {shown(line)} where an image and a class in 0..{classes - 1} belong"
        raise damaged(path, origin, how)
    return image.strip(), int(label)


def choose_split(
    options: ReadOptions, splits: Sequence[str], name: str, *, takes: Sequence[str] = ()
) -> str:
    """Return the split asked for, by default the first.

    Raise if an option names a column: the layout is fixed. `takes` are options that it has all the
    same; those about a file of labels go with this file.
    """
    takes = (*takes, *(("labels", "label") if options.labels else ()), "missing", "split")
    for field in fields(options):
        if field.name not in takes and getattr(options, field.name) != field.default:
            raise InputError(
                f"The option {field.name} does not apply to {name}, whose layout is fixed; "
                "leave it out."
            )
    split = splits[0] if options.split is None else options.split
    if split not in splits:
        raise InputError(f"{name} has no split {split!r}; it has {', '.join(splits)}.")
    return split


def with_labels(records: Records, options: ReadOptions, *, verified: bool) -> Records:
    """Return `records` with the labels of the file `options.labels`, if there is one.

    The published labels become the truth if people have `verified` them.
    """
    if options.labels is None:
        return records
    labelled = with_label_file(records, options)
    return replace(labelled, truth=records.label if verified else records.truth)


def name_classes(codes: Any, classes: Sequence[str]) -> np.ndarray:
    """Return the class names of class numbers."""
    return np.asarray(classes)[np.asarray(codes, dtype=np.intp)]
