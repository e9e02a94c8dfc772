"""NumPy files: one array (npy), or an archive (npz) whose arrays are told by their names.

Arrays are memory-mapped; pickles in them are never opened.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy_format

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import (
    IN_MEMORY,
    check_file,
    map_bytes,
    no_such,
    readable,
    room,
    too_large,
    unpacked_limit,
)
from kspr.sources.readers.labels import (
    array_with_gaps,
    check_rows,
    label_fields,
    labels_from_array,
)
from kspr.sources.readers.numbers import as_single
from kspr.sources.readers.roles import LABEL_NAMES, SPLITS, TRUTH_NAMES
from kspr.sources.records import Records, number_texts

__all__ = ["check_features", "open_npy", "read_npy", "read_npz"]

_KIND = "an npy file"
_HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Header:
    """The header of an npy file: shape, order, type, and where the numbers begin."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Size of the numbers."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize


def read_header(file: IO[bytes], what: str) -> Header:
    """Return the header at the beginning of `file`."""
    version = npy_format.read_magic(file)
    if version not in _HEADERS:
        raise InputError(f"{what} has version {version} of the npy format. Save it again.")
    shape, fortran, dtype = _HEADERS[version](file)
    return Header(shape, "F" if fortran else "C", dtype, file.tell())


def refuse_objects(header: Header, what: str) -> None:
    """Raise if an array holds Python objects."""
    if header.dtype.hasobject:
        raise InputError(
            f"{what} holds Python objects, that is, a pickle, which can run code when it is "
            "opened. Save numbers or text (for example with .astype(str)) instead."
        )


def open_npy(path: Path) -> np.ndarray:
    """Return the array at `path` as a read-only memory map."""
    check_file(path, _KIND, b"\x93NUMPY")
    with readable(path, _KIND):
        with path.open("rb") as file:
            header = read_header(file, str(path))
        refuse_objects(header, str(path))
        size = path.stat().st_size
        if size < header.offset + header.nbytes:
            raise InputError(
                f"{path} is cut short: it has {size} of {header.offset + header.nbytes} bytes. "
                "Write or copy it again."
            )
        if not header.nbytes:
            return np.empty(header.shape, header.dtype)
        return map_file(path, header, header.offset)


def map_file(path: Path, header: Header, offset: int) -> np.ndarray:
    """Return the array whose numbers begin at `offset`, as a read-only memory map."""
    return np.memmap(
        path, dtype=header.dtype, mode="r", offset=offset, shape=header.shape, order=header.order
    )


def check_features(array: np.ndarray, what: str) -> np.ndarray:
    """Return an array of shape ``(rows, features)`` of numbers, as it is stored."""
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must hold numbers, got {array.dtype}.")
    if array.ndim != 2:
        raise InputError(
            f"{what} must have two dimensions (rows, features), got shape {array.shape}. Reshape "
            "it to one row per sample."
        )
    if not array.size:
        raise InputError(f"{what} has no {'rows' if not len(array) else 'columns'}.")
    return array


_FEATURES = ("x", "features", "feature", "embeddings", "embedding", "emb", "data")

Shapes = Mapping[str, tuple[int, ...]]


def choose_features(shapes: Shapes, name: str | None, where: str) -> str:
    """Return the array that is named, or named like features, or the only one with two axes."""
    if name is not None:
        return _present(shapes, name, where)
    flat = [array for array, shape in shapes.items() if len(shape) == 2]
    candidates = _among(shapes, _FEATURES, "") or _among(shapes, _FEATURES, "train") or flat
    if len(candidates) == 1:
        return candidates[0]
    raise _unclear(shapes, where, "the features with --features")


def choose_labels(shapes: Shapes, name: str | None, features: str, where: str) -> str | None:
    """Return the array that is named, or the labels that go with the array of features."""
    if name is not None:
        return _present(shapes, name, where)
    # X_test goes with y_test: labels of another split would fit by accident only.
    split = _split(features)
    candidates = _among(shapes, LABEL_NAMES, split)
    if len(candidates) > 1:
        raise _unclear(shapes, where, "the labels with --label")
    return candidates[0] if candidates else None


def choose_truth(shapes: Shapes, name: str | None, features: str, where: str) -> str | None:
    """Return the array of true labels, if there is one."""
    if name is not None:
        return _present(shapes, name, where)
    return next(iter(_among(shapes, TRUTH_NAMES, _split(features))), None)


def _present(shapes: Shapes, name: str, where: str) -> str:
    if name not in shapes:
        raise no_such(name, shapes, where, "array")
    return name


def _split(name: str) -> str:
    words = name.casefold().split("_")
    return next((word for word in words if word in SPLITS), "")


def _among(shapes: Shapes, names: Sequence[str], split: str) -> list[str]:
    spelled = set(names)
    if split:
        spelled = {f"{name}_{split}" for name in names} | {f"{split}_{name}" for name in names}
    return [array for array in shapes if array.casefold() in spelled]


def _unclear(shapes: Shapes, where: str, wanted: str, most: int = 12) -> InputError:
    parts = [f"{name!r} {shape}" for name, shape in list(shapes.items())[:most]]
    more = f" and {len(shapes) - most} more" if len(shapes) > most else ""
    return InputError(f"{where} holds the arrays {', '.join(parts)}{more}. Say which are {wanted}.")


def read_npy(path: Path, options: ReadOptions) -> Records:  # noqa: ARG001 - every reader's form
    """Return the features in an npy file, which has no labels."""
    features, notes = as_single(check_features(open_npy(path), str(path)), str(path))
    return Records(
        path, "npy", number_texts(np.arange(len(features))), features=features, notes=notes
    )


_NPZ = "an npz archive"


def read_npz(path: Path, options: ReadOptions) -> Records:
    """Return the features, labels and true labels in an npz file."""
    archive = _Archive(path)
    shapes = {name: header.shape for name, header in archive.headers.items()}
    chosen = options.probabilities
    probabilities = None
    if chosen is not None:
        probabilities, _ = archive.matrix(_present(shapes, chosen, str(path)))
    rest = {name: shape for name, shape in shapes.items() if name != chosen}
    features, name = None, chosen
    notes: tuple[str, ...] = ()
    # Beside probabilities, features may be missing.
    if name is None or options.features or any(len(shape) == 2 for shape in rest.values()):
        name = choose_features(rest, options.features, str(path))
        features, notes = archive.matrix(name)
    count = shapes[name][0]
    if probabilities is not None and len(probabilities) != count:
        raise InputError(
            f"Array {chosen!r} of {path} has {len(probabilities)} rows but array {name!r} has "
            f"{count}."
        )
    labels = _labels(archive, name, options, count)
    truth_name = choose_truth(shapes, options.truth, name, str(path))
    truth = archive.labels(truth_name, count) if truth_name else None
    groups = None
    # They may be beside the labels instead, in a file of their own.
    if options.groups is not None and (options.labels is None or options.groups in shapes):
        groups = archive.labels(_present(shapes, options.groups, str(path)), count)
    return Records(
        path,
        "npz",
        _row_id(archive, options, count),
        features=features,
        truth=truth,
        groups=groups,
        named=options.id is not None,
        notes=notes,
        probabilities=probabilities,
        **labels,
    )


def _labels(archive: "_Archive", features: str, options: ReadOptions, count: int) -> dict[str, Any]:
    """Return the fields of `Records` that are about labels."""
    shapes = {name: header.shape for name, header in archive.headers.items()}
    name = None
    if options.labels is None:
        name = choose_labels(shapes, options.label, features, str(archive.path))
    if name is None:
        return {}
    what = f"Array {name!r} of {archive.path}"
    label, empty = array_with_gaps(archive.load(name), what)
    check_rows(label, count, f"array {name!r}", archive.path)
    return label_fields(label, empty, what)


def _row_id(archive: "_Archive", options: ReadOptions, count: int) -> Any:
    if options.id is None:
        return number_texts(np.arange(count))
    if options.id not in archive.headers:
        raise no_such(options.id, archive.headers, str(archive.path), "array")
    return archive.labels(options.id, count).astype(np.str_)


class _Archive:
    """The arrays of an npz file, of which only the headers are read at first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_file(path, _NPZ, b"PK\x03\x04")
        with readable(path, _NPZ), zipfile.ZipFile(path) as archive:
            self._members = {
                info.filename.removesuffix(".npy"): info
                for info in archive.infolist()
                if info.filename.endswith(".npy")
            }
            self.headers: Mapping[str, Header] = {
                name: self._header(archive, name) for name in self._members
            }
        if not self.headers:
            raise InputError(f"{path} is a zip archive without NumPy arrays. Correct its suffix.")

    def matrix(self, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return numbers with two axes in single precision, and notes on what that loses."""
        what = f"Array {name!r} of {self.path}"
        return as_single(check_features(self.load(name), what), what)

    def labels(self, name: str, count: int) -> np.ndarray:
        """Return an array of labels for `count` rows."""
        what = f"Array {name!r} of {self.path}"
        labels = labels_from_array(self.load(name), what)
        check_rows(labels, count, f"array {name!r}", self.path)
        return labels

    def load(self, name: str) -> np.ndarray:
        """Return an array: mapped where it is stored plainly, else unpacked."""
        header, info = self.headers[name], self._members[name]
        with readable(self.path, _NPZ):
            refuse_objects(header, f"Array {name!r} of {self.path}")
            # A header that claims more than its member holds would map the next member's bytes.
            if info.file_size < header.offset + header.nbytes:
                raise InputError(
                    f"Array {name!r} of {self.path} is cut short: it has {info.file_size} of "
                    f"{header.offset + header.nbytes} bytes. Write the file again."
                )
            plain = info.compress_type == zipfile.ZIP_STORED
            if not plain and info.file_size > (limit := unpacked_limit(info.compress_size)):
                raise too_large(f"Array {name!r} of {self.path}", limit)
            start = _data_start(self.path, info) + header.offset if plain else 1
            # Numbers at an odd address can be mapped, but not computed with on every machine.
            if plain and header.nbytes and start % header.dtype.alignment == 0:
                return map_file(self.path, header, start)
            return self._unpack(info, header)

    def _unpack(self, info: zipfile.ZipInfo, header: Header) -> np.ndarray:
        with zipfile.ZipFile(self.path) as archive, archive.open(info) as member:
            if header.nbytes <= IN_MEMORY:
                return np.asarray(npy_format.read_array(member, allow_pickle=False))
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is mapped
            with room():
                shutil.copyfileobj(member, file)
            return map_bytes(file, header.dtype, header.shape, header.offset, header.order)

    def _header(self, archive: zipfile.ZipFile, name: str) -> Header:
        with archive.open(self._members[name]) as member:
            return read_header(member, f"Array {name!r} of {self.path}")


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where a member's bytes begin: after its local header, whose length varies."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), dtype="<u2")
    return info.header_offset + 30 + int(lengths.sum())
