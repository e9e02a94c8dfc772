"""Features in an npy file, labels beside it."""

from pathlib import Path

from kspr.data.readers._labels import numbered
from kspr.data.readers._labels_file import labels_from_file
from kspr.data.readers._npy import check_features, open_npy
from kspr.data.readers._reader import Reader
from kspr.data.records import ReadOptions, Records

__all__ = ["NPY"]


def _matches(path: Path, options: ReadOptions) -> bool:  # noqa: ARG001 - told by the name alone
    return path.suffix.lower() == ".npy"


def _read(path: Path, options: ReadOptions) -> Records:
    features = check_features(open_npy(path), str(path))
    labels = None
    if options.labels is not None:
        labels = labels_from_file(options.labels, options.label, len(features), path)
    return Records(path, NPY.name, numbered(len(features)), labels, features)


NPY = Reader(
    "npy",
    "NumPy array (.npy): features, memory-mapped; labels in a file of their own",
    _matches,
    _read,
)
