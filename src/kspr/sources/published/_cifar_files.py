"""CIFAR's two file formats: pickled batches, and records of bytes."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import AS_FOUND, ReadOptions
from kspr.sources.published._layout import (
    choose,
    damaged,
    missing,
    name_classes,
    only_options,
    read_lines,
)
from kspr.sources.published._pickles import load_pickle
from kspr.sources.published.cifar_n import human_labels
from kspr.sources.records import Records

__all__ = ["Cifar", "Labelling", "Version"]

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class Labelling:
    """One of the label columns of a CIFAR file."""

    name: str
    key: str
    """In a pickled batch."""
    names_key: str
    """In the pickled meta file."""
    names_file: str
    """Of the binary version."""
    classes: tuple[str, ...]
    """As published; used where the file with the names is absent."""


@dataclass(frozen=True)
class Version:
    """One of the two forms in which a CIFAR set is published."""

    binary: bool
    folder: str
    archive: str
    train: tuple[str, ...]
    test: tuple[str, ...]
    names: tuple[str, ...]
    """Files with class names."""

    def files(self) -> tuple[str, ...]:
        return (*self.train, *self.test, *self.names)


@dataclass(frozen=True)
class Batch:
    """One file: its label columns by key, and its images as rows of 3072 bytes."""

    labels: dict[str, np.ndarray]
    pixels: np.ndarray


@dataclass
class Pixels:
    """Images of 32 x 32 pixels, each a row of bytes: red, green, blue plane."""

    batches: tuple[np.ndarray, ...]
    kind: Literal["image", "text"] = "image"

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def __getitem__(self, row: int) -> Any:
        from PIL import Image

        # A range resolves negative rows, and raises IndexError past the end.
        planes = self._row(range(len(self))[row]).reshape(3, 32, 32)
        # (channel, y, x) to (y, x, channel).
        return Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))

    def stored(self, row: int) -> bytes:
        """Return an image's 3072 bytes."""
        return self._row(row).tobytes()

    def file(self, row: int) -> None:
        """Return None: many images share a file."""

    def content(self) -> Iterator[bytes]:
        """Yield each image's 3072 bytes."""
        for batch in self.batches:
            for pixels in batch:
                yield pixels.tobytes()

    def _row(self, row: int) -> np.ndarray:
        # `row - ends[which]` is negative: it counts from the end of the batch.
        ends = np.cumsum([len(batch) for batch in self.batches])
        which = int(np.searchsorted(ends, row, side="right"))
        return np.asarray(self.batches[which][row - ends[which]])


@dataclass(frozen=True)
class Cifar:
    """CIFAR-10 or CIFAR-100, in the python or the binary version."""

    name: str
    about: str
    versions: tuple[Version, ...]
    labellings: tuple[Labelling, ...]
    """In the order of the binary version's label bytes; the last is the default."""
    telling: int
    """How many of a version's files must be there for a folder to be recognised."""
    splits: tuple[str, ...] = ("train", "test")

    def files(self, root: Path) -> list[tuple[str, str]]:
        """Return the files of the version that is at `root`, or of the python version."""
        version, folder = self._version(root) or (self.versions[0], root)
        prefix = "" if folder == root else f"{folder.name}/"
        purposes = [
            *((name, "training images and labels") for name in version.train),
            *((name, "test images and labels") for name in version.test),
            *((name, "class names") for name in version.names),
        ]
        return [(prefix + name, purpose) for name, purpose in purposes]

    def present(self, root: Path) -> bool:
        """Return whether every training file of one version is at `root`."""
        found = self._version(root)
        return found is not None and all((found[1] / name).is_file() for name in found[0].train)

    def matches(self, path: Path, options: ReadOptions) -> bool:  # noqa: ARG002 - the protocol's
        """Return whether `path` is the folder or one of its batches.

        A folder that holds the extracted one counts if it has the data set's name: `data/` may
        hold much else.
        """
        root = path.parent if path.is_file() else path
        found = self._version(root)
        if found is None:
            return False
        if path.is_file():
            return found[1] == root and path.name in (*found[0].train, *found[0].test)
        return root in (found[1], root.parent / self.name)

    def read(
        self,
        path: Path,
        options: ReadOptions = AS_FOUND,
        *,
        split: str | None = None,
    ) -> Records:
        """Return a split, or the one batch that `path` names.

        `options.labels` is a file of other labels for the same rows, such as CIFAR-N's, and
        `options.label` the array in it, or the labelling (`fine`, `coarse`). With other labels,
        the published ones are the truth.
        """
        only_options(options, ("label", "labels"), self.name)
        version, folder = self._expect(path)
        chosen = version.test if choose(split, self.splits, self.name) == "test" else version.train
        names = (path.name,) if path.is_file() else chosen
        batches = [self._batch(folder / name, version) for name in names]
        items = Pixels(tuple(batch.pixels for batch in batches))
        label, truth = self._labels(batches, version, folder, options)
        row_id = np.arange(len(items)).astype(str)
        return Records(path, self.name, row_id, label=label, items=items, truth=truth)

    def _version(self, root: Path) -> tuple[Version, Path] | None:
        for version in self.versions:
            for folder in (root, root / version.folder):
                if sum((folder / name).is_file() for name in version.files()) >= self.telling:
                    return version, folder
        return None

    def _expect(self, path: Path) -> tuple[Version, Path]:
        root = path.parent if path.is_file() else path
        found = self._version(root)
        if found is None:
            raise missing(root / self.versions[0].train[0], self.versions[0].archive)
        return found

    def _batch(self, path: Path, version: Version) -> Batch:
        keys = [labelling.key for labelling in self.labellings]
        if version.binary:
            return read_binary(path, keys, version.archive)
        return read_pickled(path, keys, version.archive)

    def _labels(
        self, batches: Sequence[Batch], version: Version, folder: Path, options: ReadOptions
    ) -> tuple[np.ndarray, np.ndarray | None]:
        labelling = self._labelling(options)
        codes = np.concatenate([batch.labels[labelling.key] for batch in batches])
        classes = self._classes(labelling, version, folder)
        if codes.min() < 0 or codes.max() >= len(classes):
            how = f"has labels outside 0..{len(classes) - 1}"
            raise damaged(folder, version.archive, how)
        if options.labels is None:
            return name_classes(codes, classes), None
        other = human_labels(options.labels, options.label, codes, classes)
        return other, name_classes(codes, classes)

    def _labelling(self, options: ReadOptions) -> Labelling:
        asked = options.label
        if options.labels is not None:
            # CIFAR-100N's arrays of super-classes say so in their name.
            asked = "coarse" if asked and "coarse" in asked else None
        if asked is None:
            return self.labellings[-1]
        for labelling in self.labellings:
            if asked in (labelling.name, labelling.key):
                return labelling
        known = ", ".join(labelling.name for labelling in self.labellings)
        raise InputError(f"{self.name} has no labels {asked!r}; it has {known}.")

    def _classes(self, labelling: Labelling, version: Version, folder: Path) -> Sequence[str]:
        if version.binary:
            path = folder / labelling.names_file
            return read_lines(path, version.archive) if path.is_file() else labelling.classes
        path = folder / version.names[0]
        if not path.is_file():
            return labelling.classes
        meta = load_pickle(path, version.archive)
        if not isinstance(meta, dict) or not isinstance(meta.get(labelling.names_key), list):
            raise damaged(path, version.archive, f"has no {labelling.names_key}")
        # Bytes where Python 2 wrote the pickle, text where someone has saved it again.
        try:
            return [
                n.decode() if isinstance(n, bytes) else str(n) for n in meta[labelling.names_key]
            ]
        except UnicodeDecodeError as error:
            raise damaged(path, version.archive, "has class names that are not text") from error


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
    return Batch(labels, pixels)


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
    return Batch(labels, rows[:, len(keys) :])


def _integers(values: Any, path: Path, archive: str) -> np.ndarray:
    if not isinstance(values, list | np.ndarray) or not all(
        isinstance(value, int | np.integer) for value in values
    ):
        raise damaged(path, archive, "has labels that are not whole numbers")
    if math.prod(np.shape(values)) == 0:
        raise damaged(path, archive, "has no labels")
    return np.asarray(values, np.intp)
