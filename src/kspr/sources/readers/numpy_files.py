"""NumPy files: one array (npy), or an archive (npz) whose arrays are told by their names.

Arrays are memory-mapped; pickles in them are never opened.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Sequence
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
from kspr.sources.readers.roles import LABEL_NAMES, SPLITS, TRUTH_NAMES
from kspr.sources.readers.values import as_single, label_fields, labels_with_gaps, whole_labels
from kspr.sources.records import Records, number_texts

_KIND, _NPZ = "an npy file", "an npz archive"
_HEADERS = {
    (1, 0): npy_format.read_array_header_1_0,
    (2, 0): npy_format.read_array_header_2_0,
}


@dataclass(frozen=True)
class _Header:
    """The header of an npy file: shape, order, type, and where the numbers begin."""

    what: str
    """Name of the array in errors."""
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype[Any]
    offset: int

    @property
    def nbytes(self) -> int:
        """Size of the numbers."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def check(self, size: int) -> None:
        """Raise if an array holds Python objects, or is longer than its `size` bytes."""
        if self.dtype.hasobject:
            raise InputError(
                f"{self.what} holds Python objects, that is, a pickle, which can run code when it "
                "is opened. Save numbers or text (for example with .astype(str)) instead."
            )
        if size < (expected := self.offset + self.nbytes):
            raise InputError(
                f"{self.what} is cut short: it has {size} of {expected} bytes. Write or copy the "
                "file again."
            )

    def map(self, path: Path, start: int = 0) -> np.ndarray:
        """Return the array in a file, as a read-only memory map; its header is at `start`."""
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        about: dict[str, Any] = {"dtype": self.dtype, "shape": self.shape, "order": self.order}
        return np.memmap(path, mode="r", offset=start + self.offset, **about)


def _read_header(file: IO[bytes], what: str) -> _Header:
    version = npy_format.read_magic(file)
    if version not in _HEADERS:
        raise InputError(f"{what} has version {version} of the npy format. Save it again.")
    shape, fortran, dtype = _HEADERS[version](file)
    return _Header(what, shape, "F" if fortran else "C", dtype, file.tell())


def open_npy(path: Path) -> np.ndarray:
    """Return the array at `path` as a read-only memory map."""
    check_file(path, _KIND, b"\x93NUMPY")
    with readable(path, _KIND):
        with path.open("rb") as file:
            header = _read_header(file, str(path))
        header.check(path.stat().st_size)
        return header.map(path)


def check_features(array: np.ndarray, what: str) -> np.ndarray:
    """Return an array of shape ``(rows, features)`` of numbers, as it is stored."""
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must hold numbers, got {array.dtype}.")
    if array.ndim != 2:
        raise InputError(
            f"{what} must have two dimensions (rows, features), got shape {array.shape}. Write "
            "images as files, a folder per class: `kspr select` makes features from these. Reshape "
            "anything else to one row per sample."
        )
    if not array.size:
        raise InputError(f"{what} has no {'rows' if not len(array) else 'columns'}.")
    return array


def read_npy(path: Path, options: ReadOptions) -> Records:  # noqa: ARG001 - every reader's form
    """Return the features in an npy file, which has no labels."""
    features, notes = as_single(check_features(open_npy(path), str(path)), str(path))
    row_id = number_texts(np.arange(len(features)))
    return Records(path, "npy", row_id, features=features, notes=notes)


_FEATURES = ("x", "features", "feature", "embeddings", "embedding", "emb", "data")


def read_npz(path: Path, options: ReadOptions) -> Records:
    """Return the features, labels and true labels in an npz file."""
    archive = _Archive(path)
    probabilities, features = None, None
    notes: tuple[str, ...] = ()
    name = options.probabilities
    if name is not None:
        probabilities, _ = archive.matrix(archive.named(name))
    others = [array for array in archive.headers if array != name]
    # Beside probabilities, features may be missing.
    if name is None or options.features or archive.flat(others):
        name = options.features and archive.named(options.features)
        name = name or archive.only(
            archive.called(_FEATURES, "", others)
            or archive.called(_FEATURES, "train", others)
            or archive.flat(others),
            "the features with --features",
        )
        features, notes = archive.matrix(name)
    count = archive.headers[name].shape[0]
    if probabilities is not None and len(probabilities) != count:
        raise InputError(
            f"Array {options.probabilities!r} of {path} has {len(probabilities)} rows but array "
            f"{name!r} has {count}."
        )
    # X_test goes with y_test: labels of another split would fit by accident only.
    split = next((word for word in name.casefold().split("_") if word in SPLITS), "")
    label, usual = None, archive.called(LABEL_NAMES, split)
    # With a file of labels, --label names a column of that file.
    if options.labels is None and options.label is not None:
        label = archive.named(options.label)
    elif options.labels is None and usual:
        label = archive.only(usual, "the labels with --label")
    truth = options.truth and archive.named(options.truth)
    truth = truth or next(iter(archive.called(TRUTH_NAMES, split)), None)
    groups = options.groups
    # They may be beside the labels instead, in a file of their own.
    if options.labels is not None and groups not in archive.headers:
        groups = None
    return Records(
        path,
        "npz",
        number_texts(np.arange(count))
        if options.id is None
        else archive.labels(options.id, count).astype(np.str_),
        features=features,
        truth=archive.labels(truth, count) if truth else None,
        groups=archive.labels(groups, count) if groups else None,
        named=options.id is not None,
        notes=notes,
        probabilities=probabilities,
        **(archive.label_fields(label, count) if label and options.labels is None else {}),
    )


class _Archive:
    """The arrays of an npz file, of which only the headers are read at first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        check_file(path, _NPZ, b"PK\x03\x04")
        with readable(path, _NPZ), zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            self._members = {info.filename.removesuffix(".npy"): info for info in members}
            self.headers: dict[str, _Header] = {}
            for name, info in self._members.items():
                with archive.open(info) as member:
                    self.headers[name] = _read_header(member, f"Array {name!r} of {path}")
        if not self.headers:
            raise InputError(f"{path} is a zip archive without NumPy arrays. Correct its suffix.")

    def named(self, name: str) -> str:
        """Return the name of an array that the user has named, if there is such."""
        if name not in self.headers:
            raise no_such(name, self.headers, str(self.path), "array")
        return name

    def called(
        self, names: Sequence[str], split: str, among: Sequence[str] | None = None
    ) -> list[str]:
        """Return the arrays that have one of these names, with that of their split."""
        spelled = set(names)
        if split:
            spelled = {f"{name}_{split}" for name in names} | {f"{split}_{name}" for name in names}
        among = list(self.headers) if among is None else among
        return [array for array in among if array.casefold() in spelled]

    def flat(self, among: Sequence[str]) -> list[str]:
        """Return the arrays with two axes."""
        return [array for array in among if len(self.headers[array].shape) == 2]

    def only(self, candidates: Sequence[str], wanted: str) -> str:
        """Return the one candidate; raise if there is none, or more than one."""
        if len(candidates) == 1:
            return candidates[0]
        parts = [f"{name!r} {header.shape}" for name, header in self.headers.items()]
        more = f" and {len(parts) - 12} more" if len(parts) > 12 else ""
        raise InputError(
            f"{self.path} holds the arrays {', '.join(parts[:12])}{more}. Say which are {wanted}."
        )

    def matrix(self, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """Return numbers with two axes in single precision, and notes on what that loses."""
        what = self.headers[name].what
        return as_single(check_features(self.load(name), what), what)

    def labels(self, name: str, count: int) -> np.ndarray:
        """Return an array of labels for `count` rows, none of which has a gap."""
        values = self.load(self.named(name))
        self._check_rows(name, values, count)
        return whole_labels(values, self.headers[name].what)

    def label_fields(self, name: str, count: int) -> dict[str, Any]:
        """Return the fields of `Records` that are about labels."""
        values, what = self.load(name), self.headers[name].what
        self._check_rows(name, values, count)
        return label_fields(*labels_with_gaps(values, what), what)

    def _check_rows(self, name: str, values: np.ndarray, count: int) -> None:
        if values.ndim and len(values) != count:
            raise InputError(
                f"{self.path} has {count} rows but array {name!r} has {len(values)} labels."
            )

    def load(self, name: str) -> np.ndarray:
        """Return an array: mapped where it is stored plainly, else unpacked."""
        header, info = self.headers[name], self._members[name]
        with readable(self.path, _NPZ):
            # A header that claims more than its member holds would map the next member's bytes.
            header.check(info.file_size)
            plain = info.compress_type == zipfile.ZIP_STORED
            if not plain and info.file_size > (limit := unpacked_limit(info.compress_size)):
                raise too_large(header.what, limit)
            start = _data_start(self.path, info) if plain else 0
            # Numbers at an odd address can be mapped, but not computed with on every machine.
            if plain and (start + header.offset) % header.dtype.alignment == 0:
                return header.map(self.path, start)
            return self._unpack(info, header)

    def _unpack(self, info: zipfile.ZipInfo, header: _Header) -> np.ndarray:
        with zipfile.ZipFile(self.path) as archive, archive.open(info) as member:
            if header.nbytes <= IN_MEMORY:
                return np.asarray(npy_format.read_array(member, allow_pickle=False))
            file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is mapped
            with room():
                shutil.copyfileobj(member, file)
            return map_bytes(file, header.dtype, header.shape, header.offset, header.order)


def _data_start(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where a member's bytes begin: after its local header, whose length varies."""
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), dtype="<u2")
    return info.header_offset + 30 + int(lengths.sum())
