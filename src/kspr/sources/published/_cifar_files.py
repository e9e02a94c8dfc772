"""CIFAR's files: pickled batches and label files, read as data, and records of bytes.

CIFAR's batches and CIFAR-N's label files are pickles. They hold dictionaries, lists, strings,
numbers and numpy arrays; each array is written as a call of one of five functions. This module
puts inert stand-ins in the place of those five, and refuses every other name: nothing that a file
names is ever imported or called.
"""

import io
import math
import pickle
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from kspr.errors import InputError
from kspr.sources.published import damaged, missing

_LARGEST = 1 << 28
"""Bytes that a label file may unpack to; the published ones take 3 MB."""
_TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""What `torch.save` put in front of its files before it wrote zip archives."""


def load_pickle(path: Path, origin: str) -> Any:
    """Return what the pickle at `path` holds, with strings of Python 2 as bytes."""
    return _guarded(path, origin, _unpickle)


def load_torch(path: Path, origin: str) -> Any:
    """Return what a file by `torch.save` holds, old or new; tensors are refused."""
    return _guarded(path, origin, _torch)


def load_npy(path: Path, origin: str) -> Any:
    """Return the array in an npy file, or the object that a pickled one holds."""
    return _guarded(path, origin, _npy)


class _RefusedError(Exception):
    """A name that does not belong in the file."""


def _guarded(path: Path, origin: str, load: Callable[[IO[bytes]], Any]) -> Any:
    if not path.is_file():
        raise missing(path, origin)
    try:
        with path.open("rb") as stream:
            return load(stream)
    except _RefusedError as refused:
        raise InputError(
            f"{path} wants to run {refused} on opening, which the file from {origin} does not; "
            "nothing of it was run."
        ) from None
    # A damaged pickle can fail in any way: stack, key, type, memory and unicode errors.
    except Exception as error:
        raise damaged(path, origin, "is cut short or damaged") from error


def _unpickle(stream: IO[bytes]) -> Any:
    # Python 2 wrote CIFAR: by default, its strings of pixels would be decoded as ASCII, and fail.
    return _settle(_Unpickler(stream, encoding="bytes").load())


def _torch(stream: IO[bytes]) -> Any:
    if not zipfile.is_zipfile(stream):
        stream.seek(0)
        return _old_torch(stream)
    with zipfile.ZipFile(stream) as archive:
        # The folder around it has the name that the file was saved under.
        [member] = [m for m in archive.infolist() if m.filename.endswith("data.pkl")]
        if member.file_size > _LARGEST:
            raise ValueError("larger than any published file")
        return _unpickle(io.BytesIO(archive.read(member)))


def _old_torch(stream: IO[bytes]) -> Any:
    """Skip the three pickles in front: a magic number, a version, facts about the machine."""
    if _unpickle(stream) != _TORCH_MAGIC:
        raise ValueError("not written by torch.save")
    _unpickle(stream)
    _unpickle(stream)
    return _unpickle(stream)


def _npy(stream: IO[bytes]) -> Any:
    major, _ = np.lib.format.read_magic(stream)
    versions = np.lib.format
    header = versions.read_array_header_1_0 if major == 1 else versions.read_array_header_2_0
    dtype = header(stream)[2]
    # An object array is a pickle behind the header, which np.load would run.
    if dtype.hasobject:
        return _unpickle(stream)
    stream.seek(0)
    return np.load(stream, allow_pickle=False)


class _DType:
    """Stands for `numpy.dtype`: plain numbers, and `O8` around a dictionary in an npy file."""

    __slots__ = ("code", "order")

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = _text(code)
        self.order = "="

    def __setstate__(self, state: Any) -> None:
        self.order = _text(state[1])

    def numpy(self) -> np.dtype[Any]:
        if self.code[:1] not in {"b", "i", "u", "f"}:
            raise ValueError(f"arrays of {self.code} do not belong here")
        return np.dtype(self.order + self.code)


class _Array:
    """Stands for an array between its creation and the arrival of its content."""

    __slots__ = ("value",)

    def __init__(self, *_: Any) -> None:
        self.value: Any = None

    def __setstate__(self, state: Any) -> None:
        # What numpy writes: version, shape, type, whether columns come first, bytes.
        _, shape, dtype, fortran, content = state
        if dtype.code.startswith("O"):
            # CIFAR-N's npy file: an array without dimensions around one dictionary.
            [self.value] = content
            return
        flat = np.frombuffer(content, dtype.numpy())
        if math.prod(shape) != flat.size:
            raise ValueError("an array is shorter than its shape")
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class _Name:
    """Stands for a name in a pickle; cannot be changed, and calls nothing but its stand-in."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise ValueError("a name has no state")


def _scalar(dtype: _DType, content: bytes) -> int | float:
    value: int | float = np.frombuffer(content, dtype.numpy()).item()
    return value


def _encode(text: str, encoding: str) -> bytes:
    """Return a byte string as Python 3 writes it in protocol 2: as its latin-1 text."""
    if encoding != "latin1":
        raise ValueError("byte strings are written as latin1")
    return text.encode("latin1")


def _nothing(*_: Any) -> None:
    raise ValueError("numpy.ndarray is named, never called")


_STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("_codecs", "encode"): _encode,
    ("numpy", "dtype"): _DType,
    ("numpy", "ndarray"): _nothing,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.multiarray", "scalar"): _scalar,
    # numpy 2 moved the same two.
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "scalar"): _scalar,
}


# The one in Python: its memo is a dictionary, where the one in C makes room for any place that a
# file names, and so for ten bytes that ask for 64 GB.
class _Unpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise _RefusedError(f"{module}.{name}")
        return _Name(_STAND_INS[module, name])

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError("a torch tensor's storage" if pid else "an outside reference")


def _settle(value: Any) -> Any:
    """Put the arrays in the place of their stand-ins, and text in the place of byte keys."""
    value = _arrived(value)
    # One level, as in the published files: a small pickle can hold dictionaries without end.
    if isinstance(value, dict):
        return {_text(key): _arrived(entry) for key, entry in value.items()}
    return value


def _arrived(value: Any) -> Any:
    return value.value if isinstance(value, _Array) else value


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise TypeError("a name must be a string")
    return value.decode("latin1") if isinstance(value, bytes) else value


_PIXELS = 3 * 32 * 32


class Pixels:
    """Images of 32 x 32 pixels, each a row of bytes: red, green, blue plane."""

    kind: Literal["image", "text", "sound"] = "image"

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Any:
        from PIL import Image

        # (channel, y, x) to (y, x, channel).
        planes = self._rows[row].reshape(3, 32, 32).transpose(1, 2, 0)
        return Image.fromarray(np.ascontiguousarray(planes))

    def stored(self, row: int) -> bytes:
        """Return an image's 3072 bytes."""
        return bytes(self._rows[row])

    def file(self, row: int) -> None:
        """Return None: many images share a file."""

    def content(self) -> Iterator[bytes]:
        """Yield each image's 3072 bytes."""
        return (row.tobytes() for row in self._rows)


Batch = tuple[np.ndarray, dict[str, np.ndarray]]
"""One file: its images as rows of 3072 bytes, and its label columns by key."""


def read_pickled(path: Path, keys: Sequence[str], archive: str) -> Batch:
    """Return a batch of the python version, without running what the pickle names."""
    content = load_pickle(path, archive)
    absent = [key for key in ("data", *keys) if not isinstance(content, dict) or key not in content]
    if absent:
        raise damaged(path, archive, f"has no {absent[0]}")
    pixels = content["data"]
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 2:
        raise damaged(path, archive, "has images that are not rows of bytes")
    labels = {key: _integers(content[key], path, archive) for key in keys}
    if pixels.shape[1] != _PIXELS or any(len(pixels) != len(y) for y in labels.values()):
        raise damaged(path, archive, "has images and labels that do not fit together")
    return pixels, labels


def read_binary(path: Path, keys: Sequence[str], archive: str) -> Batch:
    """Return a batch of the binary version, memory-mapped: label bytes, then the image's."""
    if not path.is_file():
        raise missing(path, archive)
    record = len(keys) + _PIXELS
    size = path.stat().st_size
    if size == 0 or size % record:
        raise damaged(path, archive, f"is cut short: {size} bytes are no multiple of {record}")
    rows = np.memmap(path, np.uint8, mode="r").reshape(-1, record)
    # CIFAR-100 has two label bytes in front of each image, the coarse class first.
    labels = {key: np.asarray(rows[:, column], np.intp) for column, key in enumerate(keys)}
    return np.asarray(rows[:, len(keys) :]), labels


def _integers(values: Any, path: Path, archive: str) -> np.ndarray:
    # No class has so large a number, and NumPy no room for it.
    if not isinstance(values, list | np.ndarray) or not all(
        isinstance(value, int | np.integer) and abs(int(value)) < 1 << 31 for value in values
    ):
        raise damaged(path, archive, "has labels that are not whole numbers")
    if math.prod(np.shape(values)) == 0:
        raise damaged(path, archive, "has no labels")
    return np.asarray(values, np.intp)
