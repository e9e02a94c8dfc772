"""Data sets on disk as recipes need them: features, or images for whole networks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kspr.data.options import EmbedSettings, ReadOptions
from kspr.data.published import find_published
from kspr.data.published.cifar_classes import CIFAR10
from kspr.data.records import Records
from kspr.data.selecting import cache_folder, embed_records
from kspr.data.sources import open_source
from kspr.experiments.samples import Sample

__all__ = ["STORED"]


def _features(
    dataset: str, home: Path, rows: int | None, test: str = "test", transfer: str | None = None
) -> Sample:
    """Return ``features.npz`` of the folder, or the images there, embedded once and kept."""
    if (home / "features.npz").is_file():
        sample = _from_npz(dataset, home / "features.npz")
    else:
        sample = _embedded(dataset, home, test, transfer)
    return replace(sample.first(rows), picture=_pictures(dataset, home))


def _from_npz(dataset: str, path: Path) -> Sample:
    with np.load(path) as stored:
        X, y = stored["X_train"].astype(np.float32), stored["y_train"].astype(np.int64)
        test = stored["X_test"].astype(np.float32), stored["y_test"].astype(np.int64)
    names = CIFAR10 if dataset == "cifar10" else ()
    return Sample(X, y, y, test, f"{dataset}: features of {path.name} ({X.shape[1]})", names=names)


def _embedded(dataset: str, home: Path, test: str, transfer: str | None) -> Sample:
    """Embed with what `kspr embed` ships; the features stay in the user's cache."""
    train, held = _rows(dataset, home, None), _rows(dataset, home, test)
    other = None if transfer is None else _rows(dataset, home, transfer)
    return Sample(
        train.X,
        train.label,
        train.label if dataset.startswith("cifar") else train.truth,
        (held.X, held.label),
        f"{dataset}: features of the shipped embedder",
        None if other is None else (other.X, other.label),
    )


class _Rows(NamedTuple):
    X: Any
    label: np.ndarray
    truth: np.ndarray | None


def _rows(dataset: str, home: Path, split: str | None) -> _Rows:
    """Return the features of a split; rows that cannot be decoded are left out."""
    records, settings = _records(dataset, home, split), EmbedSettings()
    folder = cache_folder(home, settings, split)
    embedded = embed_records(records, folder, settings, overwrite=True)
    kept = np.asarray(embedded.kept)
    truth = None if records.truth is None else records.truth[kept]
    return _Rows(embedded.features, np.asarray(records.label)[kept], truth)


def _images(
    dataset: str,
    home: Path,
    rows: int | None,
    test: str = "test",
    transfer: str | None = None,
    test_rows: int | None = None,
    side: int | None = None,
) -> Sample:
    """Return the images themselves: the first `rows`, or all of them."""
    X, label, truth = _decoded(dataset, home, None, rows, side)
    held = _decoded(dataset, home, test, test_rows, side)[:2]
    other = None if transfer is None else _decoded(dataset, home, transfer, test_rows, side)[:2]
    truth = label if dataset.startswith("cifar") else truth
    return Sample(X, label, truth, held, f"{dataset}: {len(label):,} images", other)


def _decoded(
    dataset: str, home: Path, split: str | None, rows: int | None, side: int | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    from kspr.train.inputs import image_inputs

    records = _records(dataset, home, split)
    items, label = records.items, np.asarray(records.label)
    if items is None:
        raise TypeError(f"{home} holds no images")
    if rows is not None:
        X = np.stack([np.asarray(items[i]) for i in range(rows)])
        return X, label[:rows], None if records.truth is None else records.truth[:rows]
    inputs, kept, _ = image_inputs(items, side)
    return inputs, label[kept], None if records.truth is None else records.truth[kept]


def _records(dataset: str, home: Path, split: str | None) -> Records:
    """Return the rows of a split: of a parquet file by that name, or as published."""
    parquet = home / f"{split or 'train'}.parquet"
    if parquet.is_file():
        return open_source(parquet, ReadOptions())
    return find_published(dataset).read(home, split=split)


def _pictures(dataset: str, home: Path) -> Callable[[int], Any] | None:
    """Return the images behind features, by row; None where the folder has features only."""
    if not (home / "train.parquet").is_file() and not find_published(dataset).present(home):
        return None
    opened: list[Records] = []

    def picture(row: int) -> Any:
        if not opened:
            opened.append(_records(dataset, home, None))
        items = opened[0].items
        return None if items is None else items[row]

    return picture


STORED: Mapping[str, Callable[..., Sample]] = {"features": _features, "images": _images}
