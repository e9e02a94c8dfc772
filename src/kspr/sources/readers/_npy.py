"""NumPy arrays in npy files, memory-mapped; pickles in them are never opened."""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy_format

from kspr.errors import InputError
from kspr.sources.readers.file_checks import check_file, readable

__all__ = ["Header", "check_features", "map_file", "open_npy", "read_header", "refuse_objects"]

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
