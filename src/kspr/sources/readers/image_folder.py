"""Folders of images, one folder per class."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from kspr.errors import InputError
from kspr.sources.options import ReadOptions
from kspr.sources.readers.file_checks import listed
from kspr.sources.readers.items import ImageFiles
from kspr.sources.readers.roles import SPLITS
from kspr.sources.records import Records

__all__ = ["IMAGE_SUFFIXES", "read_image_folder"]

IMAGE_SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
)


def read_image_folder(path: Path, options: ReadOptions) -> Records:
    """Return the images below a folder; the label of each is the name of its class folder."""
    # os.walk goes in the order of the disk; row numbers must be the same everywhere.
    names = sorted(_images(path))
    if not names:
        raise InputError(
            f"{path} holds no images. Expected one folder per class, with files such as .jpg or "
            ".png in it."
        )
    row_id = np.asarray(names, dtype=np.str_)
    items = ImageFiles(path, row_id)
    if options.labels is not None:
        return Records(path, "imagefolder", row_id, items=items, named=True)
    label = np.asarray([PurePosixPath(name).parts[0] for name in names], dtype=np.str_)
    reason = _no_classes(path, names, np.unique(label).tolist())
    return Records(
        path,
        "imagefolder",
        row_id,
        # Without classes the images can still be read: a network may predict their labels.
        label=None if reason else label,
        items=items,
        named=True,
        no_labels=reason,
    )


def _images(folder: Path) -> Iterator[str]:
    """Yield the images below `folder`, as paths relative to it."""
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
            if not name.startswith(".") and Path(name).suffix.lower() in IMAGE_SUFFIXES:
                yield Path(place, name).relative_to(folder).as_posix()


def _no_classes(path: Path, names: list[str], classes: list[str]) -> str | None:
    """Return why the folders below `path` are not the classes of its images; None if they are."""
    loose = [name for name in names if "/" not in name]
    if loose:
        return (
            f"{path} holds images that are in no class folder: {listed(loose, 3)}. Move them into "
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
