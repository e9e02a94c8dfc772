"""The paper's data sets, in the layouts in which they were published."""

import os
from pathlib import Path

from kspr.errors import InputError
from kspr.sources.published._layout import PublishedData
from kspr.sources.published.cifar import CIFAR_10, CIFAR_100
from kspr.sources.published.clothing1m import CLOTHING1M
from kspr.sources.published.ilsvrc12 import ILSVRC12_VALIDATION
from kspr.sources.published.webvision import WEBVISION, WEBVISION_MINI

__all__ = ["PUBLISHED", "PublishedData", "data_folders", "find_published", "find_root", "where"]

PUBLISHED: tuple[PublishedData, ...] = (
    CIFAR_10,
    CIFAR_100,
    WEBVISION_MINI,
    WEBVISION,
    ILSVRC12_VALIDATION,
    CLOTHING1M,
)

_SHARED = {WEBVISION_MINI.name: WEBVISION.name}
"""Data sets that are a part of another one's files."""


def find_published(name: str) -> PublishedData:
    """Return the data set called `name`."""
    for dataset in PUBLISHED:
        if dataset.name == name:
            return dataset
    known = ", ".join(dataset.name for dataset in PUBLISHED)
    raise InputError(f"There is no data set {name!r}; there are {known}.")


def data_folders() -> list[Path]:
    """Return the folders that may hold data sets: ``$KSPR_DATA``, ``./data``, the user's cache."""
    parents = [Path("data"), Path.home() / ".cache" / "kspr"]
    # Set but empty counts as not set: Path("") would be the current folder.
    if os.environ.get("KSPR_DATA"):
        parents.insert(0, Path(os.environ["KSPR_DATA"]))
    return parents


def where(name: str) -> list[Path]:
    """Return the folders in which the data set `name` is looked for, the first wins.

    They are ``$KSPR_DATA/name``, ``./data/name`` and ``~/.cache/kspr/name``.
    """
    find_published(name)
    # The first 50 classes of WebVision lie in the folder of all of them.
    folders = [name, _SHARED[name]] if name in _SHARED else [name]
    return [parent / folder for parent in data_folders() for folder in folders]


def find_root(name: str) -> Path | None:
    """Return the first folder of `where` that holds the data set; None if none does."""
    dataset = find_published(name)
    return next((root for root in where(name) if dataset.present(root)), None)
