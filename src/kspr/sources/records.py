"""What opening a source returns: its rows, with features or with items loaded one at a time."""

import hashlib
import io
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image, ImageOps

from kspr._files import drop_pages
from kspr._packages import require
from kspr.errors import InputError, UnreadableItemError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import BLOCK_BYTES, limit_of, listed
from kspr.sources.readers.roles import SPLITS
from kspr.sources.readers.table import Cells


class Items(Protocol):
    """Images, texts or sounds, loaded one at a time; nothing is decoded before it is asked for.

    Several threads may ask at once.
    """

    @property
    def kind(self) -> Literal["image", "text", "sound"]:
        """What the items are."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Any:
        """Return a ``PIL.Image.Image`` in RGB, a string, or samples of a sound (`SOUND_RATE`).

        Raise `UnreadableItemError` if the row cannot be decoded.
        """
        ...

    def stored(self, row: int) -> bytes:
        """Return a row's stored bytes; empty where there are none, or where they are gone."""
        ...

    def file(self, row: int) -> Path | None:
        """Return the file that a row has to itself; None where it is in a table or an archive."""
        ...

    def content(self) -> Iterator[bytes]:
        """Yield each row's stored bytes, in order; the fingerprint is computed from them."""
        ...


def number_texts(row: np.ndarray) -> np.ndarray:
    """Return row numbers as texts: the ids of rows that have no others.

    >>> number_texts(np.array([9, 10])).tolist()
    ['9', '10']
    """
    # Without a width, numpy would take 84 bytes for every number.
    return row.astype(f"<U{len(str(row.max(initial=0)))}")


@dataclass(frozen=True, eq=False)
class Records:
    """The rows of a source."""

    source: Path
    reader: str
    """Name of the format, or of the published data set, as in `kspr datasets`."""
    row_id: np.ndarray
    """Text by which a person recognises a row: a path, a value of the id column, a number."""
    label: np.ndarray | None = None
    features: Any = None
    """``(rows, p)``: an array or memory map; None where there are items to be embedded."""
    items: Items | None = None
    truth: np.ndarray | None = None
    groups: np.ndarray | None = None
    """Which rows belong together, as text, where the user has named them."""
    named: bool = False
    """Whether the source itself holds the ids; otherwise they are row numbers."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: what had to be assumed to read the source."""
    no_labels: str | None = None
    """Why labels are missing, of all rows or of those in `unlabelled`: one sentence."""
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of a table's columns by their role: features, label, ..., ignored."""
    unlabelled: np.ndarray | None = None
    """Row numbers whose entry in `label` has no meaning, as they have none; None without such."""
    probabilities: Any = None
    """``(rows, classes)``, where the user has named them."""
    probability_columns: tuple[str, ...] = ()
    """Names of their columns in a table, which name the classes."""
    encoder: Any = None
    """How the gaps, dates and categories of a table became numbers; None for a table without."""
    numbers: np.ndarray | None = None
    """The labels, where these are numbers: each is then claimed to be right."""
    digest: np.ndarray | None = None
    """A digest of what each row holds, where features are made of more than their own row."""

    def __len__(self) -> int:
        return len(self.row_id)

    def labelled(self) -> np.ndarray:
        """Return the numbers of the rows that have a label, in order."""
        every = np.arange(len(self))
        return every if self.unlabelled is None else np.delete(every, self.unlabelled)


def row_digests(records: Records) -> np.ndarray:
    """Return a 64-bit digest of each row's content: its features, else its stored bytes.

    Rows that have neither are told by their probabilities. Equal numbers have equal digests in any
    format: they count in single precision.
    """
    if records.digest is not None:
        return records.digest
    if records.features is not None:
        return number_digests(records.features)
    if records.items is not None:
        return content_digests(records.items.content())
    shown = records.probabilities
    return np.empty(0, np.uint64) if shown is None else number_digests(shown)


def number_digests(numbers: Any) -> np.ndarray:
    """Return a 64-bit digest of each row of an array."""
    return content_digests(_number_rows(numbers))


def all_distinct(ids: np.ndarray) -> bool:
    """Return whether no two ids are equal."""
    # Eight bytes of each, not a set of texts, which takes far more than the texts themselves.
    digest = content_digests(str(text).encode("utf-8", "surrogatepass") for text in ids)
    digest.sort()
    # Equal digests of different ids are all but impossible; still, only the ids decide.
    return not (digest[1:] == digest[:-1]).any() or len(set(ids.tolist())) == len(ids)


def content_digests(contents: Iterable[Any]) -> np.ndarray:
    """Return a 64-bit digest of each of `contents`, which are bytes or arrays of bytes."""
    # BLAKE2: whoever does not know a content cannot write its digest into a run.
    digests = (hashlib.blake2b(content, digest_size=8).digest() for content in contents)
    # One by one: joined, all of them would be Python objects at once, of five times the size.
    numbers = (int.from_bytes(digest, "little") for digest in digests)
    return np.fromiter(numbers, dtype=np.uint64)


def _number_rows(numbers: Any) -> Iterator[np.ndarray]:
    step = max(1, BLOCK_BYTES // max(1, 4 * numbers.shape[1]))
    for start in range(0, len(numbers), step):
        # Values beyond single precision become infinite, here and at every later reading.
        with np.errstate(over="ignore", invalid="ignore"):
            block = np.array(numbers[start : start + step], dtype="<f4", order="C")
        if isinstance(numbers, np.ndarray):
            drop_pages(numbers)
        yield from block.view(np.uint8)


class _ItemCells:
    """Items in a column, or in any other sequence of cells; in a `folder`, texts are paths."""

    def __init__(
        self, cells: Cells | Sequence[str] | np.ndarray, folder: Path | None, where: str
    ) -> None:
        self._cells: Any = cells
        self._folder, self._where = folder, where

    def __len__(self) -> int:
        return len(self._cells)

    def stored(self, row: int) -> bytes:
        """Return the bytes of an item, from its cell or from the file that it names."""
        return self._bytes(self._cells[row])

    def content(self) -> Iterator[bytes]:
        """Yield the bytes of each item, for a fingerprint."""
        return map(self._bytes, self._cells)

    def file(self, row: int) -> Path | None:
        """Return the file that a cell names; None where the item is in the cell itself."""
        stored = None if self._folder is None else _stored(self._cells[row])
        return self._folder / stored if self._folder and isinstance(stored, str) else None

    def _bytes(self, cell: Any) -> bytes:
        stored = _stored(cell)
        if not isinstance(stored, str):
            return stored or b""
        if self._folder is None:
            return stored.encode()
        # A missing file counts as empty: the fingerprint changes when it is there again.
        try:
            return _file_bytes(self._folder / stored)
        except UnreadableItemError:
            return b""


class ImageCells(_ItemCells):
    """Images in a column: bytes, paths, or structs of both as Hugging Face stores them."""

    kind: Literal["image", "text", "sound"] = "image"
    _folder: Path

    def __getitem__(self, row: int) -> Image.Image:
        stored = _stored(self._cells[row])
        if stored is None:
            raise UnreadableItemError(f"There is no image in row {row} of {self._where}.")
        if isinstance(stored, bytes):
            return _decode(stored, f"The image in row {row} of {self._where}")
        path = self._folder / stored
        return _decode(_file_bytes(path), str(path))


class ImageFiles(ImageCells):
    """Images in files, by their names in a folder."""

    def __init__(self, folder: Path, names: Sequence[str] | np.ndarray) -> None:
        super().__init__(names, folder, str(folder))


class TextCells(_ItemCells):
    """Texts in a column."""

    kind: Literal["image", "text", "sound"] = "text"

    def __getitem__(self, row: int) -> str:
        text = self._cells[row]
        if text is None:
            raise UnreadableItemError(f"There is no text in row {row} of {self._where}.")
        try:
            return text.decode() if isinstance(text, bytes) else str(text)
        except UnicodeDecodeError as error:
            what = f"The text in row {row} of {self._where}"
            raise UnreadableItemError(f"{what} is not UTF-8.") from error


SOUND_RATE = 16_000
"""Samples a second, as the embedder takes them; sounds of another rate are resampled."""
_MOST_SAMPLES, _RATES = 30_000_000, (1000, 400_000)
"""What is read of a sound: hours of silence fit into a small file. Other rates are no sounds."""


class SoundFiles(ImageFiles):
    """Sounds in files below a folder: one channel of float32 at `SOUND_RATE`."""

    kind: Literal["image", "text", "sound"] = "sound"

    def __getitem__(self, row: int) -> Any:
        soundfile = require("soundfile", "Reading sounds", "'knockoffs-spr[audio]'")
        from scipy.signal import resample_poly

        path = self._folder / str(self._cells[row])
        try:
            with soundfile.SoundFile(io.BytesIO(_file_bytes(path))) as file:
                rate, most = file.samplerate, _MOST_SAMPLES // file.channels
                channels = file.read(most, dtype="float32", always_2d=True)
        except soundfile.SoundFileError as error:
            raise UnreadableItemError(f"{path} cannot be decoded as a sound.") from error
        usable = len(channels) and np.isfinite(channels).all()
        if not usable or not _RATES[0] <= rate <= _RATES[1]:
            raise UnreadableItemError(f"{path} holds no sound.")
        return resample_poly(channels.mean(axis=1), SOUND_RATE, rate)


def _stored(cell: Any) -> bytes | str | None:
    """Return an image's bytes, else its path."""
    if isinstance(cell, dict):
        return cell.get("bytes") or cell.get("path")
    return cell or None


def _file_bytes(path: Path) -> bytes:
    try:
        # Opening a pipe waits for a writer, and a device may have no end.
        if path.is_file() or not path.exists():
            return path.read_bytes()
        reason = "no regular file"
    # A ValueError says that there is a NUL byte in the name.
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    name = str(path) if len(str(path)) < 300 else f"{str(path)[:300]}..."
    raise UnreadableItemError(f"{name} cannot be read ({reason}).")


_PIXELS = "KSPR_MAX_MEGAPIXELS"
"""Environment variable: the limit holds wherever an image is read, in reports and reviews too."""
_LARGE = 16_000_000
"""Pixels above which images are decoded one after the other, to save memory."""
_large = threading.Lock()


def pixel_limit() -> int:
    """Return how many pixels an image may have."""
    return int(limit_of(_PIXELS, 80, "millions of pixels") * 1e6)


def _decode(data: bytes, what: str) -> Image.Image:
    limit = pixel_limit()
    if Image.MAX_IMAGE_PIXELS is not None and limit > Image.MAX_IMAGE_PIXELS:
        # Pillow has a limit of its own, and the user has asked for more.
        Image.MAX_IMAGE_PIXELS = limit
    try:
        with Image.open(io.BytesIO(data)) as image:
            pixels = image.width * image.height
            if pixels > limit:
                raise Image.DecompressionBombError
            with _large if pixels > _LARGE else nullcontext():
                # Cameras store the rotation beside the pixels.
                return _as_rgb(ImageOps.exif_transpose(image))
    except Image.DecompressionBombError as error:
        raise UnreadableItemError(
            f"{what} has more than {limit / 1e6:g} million pixels. If that is right, set {_PIXELS} "
            "to a larger number."
        ) from error
    # Decoders of damaged images raise almost anything: SyntaxError, struct.error, IndexError...
    except Exception as error:
        raise UnreadableItemError(f"{what} cannot be decoded as an image.") from error


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        # Pillow would cut 16-bit values off at 255 and turn such images white.
        deep = np.asarray(image).astype(np.float64)
        # 65,535 = 257 * 255.
        image = Image.fromarray((deep / 257).clip(0, 255).astype(np.uint8))
    elif image.mode == "P":
        # Straight to RGB, Pillow warns about palettes with transparency.
        image = image.convert("RGBA")
    return image.convert("RGB")


_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class Decoded:
    """An item that is ready for the model, or the reason why it is not."""

    row: int
    value: Any = None
    reason: str | None = None


def decoded(
    items: Items, rows: Iterable[int], prepare: Callable[[Any], Any], *, ahead: int
) -> Generator[Decoded, None, None]:
    """Yield `rows` in order, at most `ahead` of them decoded before they are asked for.

    Images are decoded in a few threads: Pillow releases the interpreter's lock meanwhile.
    """

    def decode(row: int) -> Decoded:
        try:
            return Decoded(row, prepare(items[row]))
        except UnreadableItemError as error:
            return Decoded(row, reason=str(error))

    # Texts need no decoding that would be worth a thread.
    if items.kind == "text":
        yield from map(decode, rows)
        return
    # A few at a time: handing over a small image takes as long as decoding it.
    few = min(8, max(1, ahead // (4 * _THREADS)))
    left = iter(rows)
    chunks = iter(lambda: list(islice(left, few)), [])

    def decode_all(chunk: list[int]) -> list[Decoded]:
        return [decode(row) for row in chunk]

    pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="kspr-decode")
    try:
        waiting = deque(pool.submit(decode_all, chunk) for chunk in islice(chunks, ahead // few))
        while waiting:
            yield from waiting.popleft().result()
            # One in for each one out: never more than `ahead` are held.
            waiting.extend(pool.submit(decode_all, chunk) for chunk in islice(chunks, 1))
    finally:
        # Also reached when the caller stops early, by an error or by Ctrl-C.
        pool.shutdown(wait=True, cancel_futures=True)


IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)


SOUND_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3", ".aiff"})


def read_image_folder(path: Path, options: ReadOptions) -> Records:
    """Return the images below a folder, or its sounds if it has no images.

    The label of each is the name of its class folder.
    """
    # os.walk goes in the order of the disk; row numbers must be the same everywhere.
    names, kind = sorted(_files(path, IMAGE_SUFFIXES)), "images"
    if not names:
        names, kind = sorted(_files(path, SOUND_SUFFIXES)), "sounds"
    if not names:
        raise InputError(
            f"{path} holds no images. Expected one folder per class, with files such as .jpg or "
            ".png in it, or sounds such as .wav or .flac."
        )
    row_id = np.asarray(names, dtype=np.str_)
    items: Items = ImageFiles(path, row_id) if kind == "images" else SoundFiles(path, row_id)
    found = Records(path, "imagefolder", row_id, items=items, named=True)
    if options.labels is not None:
        return found
    label = np.asarray([PurePosixPath(name).parts[0] for name in names], dtype=np.str_)
    reason = _no_classes(path, names, np.unique(label).tolist(), kind)
    # Without classes the items can still be read: a network may predict their labels.
    return replace(found, label=None if reason else label, no_labels=reason)


def _files(folder: Path, suffixes: frozenset[str]) -> Iterator[str]:
    """Yield the files of these kinds below `folder`, as paths relative to it."""
    seen = set()
    for place, folders, files in os.walk(folder, followlinks=True):
        # A link to a folder above would be walked for ever.
        seen.add(os.path.realpath(place))
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(Path(place, name)) not in seen
        ]
        for name in files:
            if not name.startswith(".") and Path(name).suffix.lower() in suffixes:
                yield Path(place, name).relative_to(folder).as_posix()


def _no_classes(path: Path, names: list[str], classes: list[str], kind: str) -> str | None:
    """Return why the folders below `path` are not the classes of its files; None if they are."""
    loose = [name for name in names if "/" not in name]
    if loose:
        return (
            f"{path} holds {kind} that are in no class folder: {listed(loose, 3)}. Move them into "
            "one folder per class, or give their labels with --labels."
        )
    # train/ and test/ as two classes would be selected from without a word.
    if {name.lower() for name in classes} <= SPLITS:
        return (
            f"{path} holds splits, not classes: {listed(classes)}. Name one, such as "
            f"{path / classes[0]}."
        )
    if len(classes) < 2:
        return (
            f"{path} holds only one class ({classes[0]!r}); wrong labels show only against a "
            "second one. Name the folder that has one folder per class in it."
        )
    return None
