"""Data sets on disk as recipes need them: features, or images for whole networks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr.data.options import EmbedSettings, ReadOptions
from kspr.data.published.cifar_classes import CIFAR10
from kspr.data.records import Records
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
    return replace(sample.first(rows), picture=_pictures(home))


def _from_npz(dataset: str, path: Path) -> Sample:
    with np.load(path) as stored:
        X, y = stored["X_train"].astype(np.float32), stored["y_train"].astype(np.int64)
        test = stored["X_test"].astype(np.float32), stored["y_test"].astype(np.int64)
    names = CIFAR10 if dataset == "cifar10" else ()
    return Sample(X, y, y, test, f"{dataset}: features of {path.name} ({X.shape[1]})", names=names)


def _embedded(dataset: str, home: Path, test: str, transfer: str | None) -> Sample:
    """Embed with what `kspr embed` ships; `load_source` keeps the features in the user's cache."""
    from kspr.train.settings import TrainSettings
    from kspr.train.sources import load_source

    def load(split: str | None) -> Any:
        source, options = _place(home, split)
        return load_source(source, TrainSettings.from_preset("cpu"), options, EmbedSettings())

    train, held = load(None), load(test)
    other = None if transfer is None else load(transfer)
    return Sample(
        train.X,
        train.label,
        train.label if dataset.startswith("cifar") else train.truth,
        (held.X, held.label),
        f"{dataset}: features of the shipped embedder",
        None if other is None else (other.X, other.label),
    )


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
    X, label, truth = _decoded(home, None, rows, side)
    held = _decoded(home, test, test_rows, side)[:2]
    other = None if transfer is None else _decoded(home, transfer, test_rows, side)[:2]
    truth = label if dataset.startswith("cifar") else truth
    return Sample(X, label, truth, held, f"{dataset}: {len(label):,} images", other)


def _decoded(
    home: Path, split: str | None, rows: int | None, side: int | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    from kspr.train.inputs import image_inputs

    records = open_source(*_place(home, split))
    items, label = records.items, np.asarray(records.label)
    if items is None:
        raise TypeError(f"{home} holds no images")
    if rows is not None:
        X = np.stack([np.asarray(items[i]) for i in range(rows)])
        return X, label[:rows], None if records.truth is None else records.truth[:rows]
    inputs, kept, _ = image_inputs(items, side)
    return inputs, label[kept], None if records.truth is None else records.truth[kept]


def _place(home: Path, split: str | None) -> tuple[Path, ReadOptions]:
    """Return what `open_source` is asked: a parquet file by split, or a published folder."""
    parquet = home / f"{split or 'train'}.parquet"
    return (parquet, ReadOptions()) if parquet.is_file() else (home, ReadOptions(split=split))


def _pictures(home: Path) -> Callable[[int], Any] | None:
    """Return the images behind features, by row; None where the folder has features only."""
    source, options = _place(home, None)
    if not source.is_file() and {path.name for path in home.iterdir()} == {"features.npz"}:
        return None
    opened: list[Records] = []

    def picture(row: int) -> Any:
        if not opened:
            opened.append(open_source(source, options))
        items = opened[0].items
        return None if items is None else items[row]

    return picture


STORED: Mapping[str, Callable[..., Sample]] = {"features": _features, "images": _images}
