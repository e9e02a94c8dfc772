"""The data of a recipe: read from files on this machine, or generated.

A source is described by a table such as ``{source = "features", dataset = "cifar10"}``. `absent`
says why it is not available here; `open_sample` returns it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pyarrow import parquet

from kspr.errors import InputError
from kspr.experiments.reproduce.sample import MADE, Sample
from kspr.features.loading import cache_folder, embed_records
from kspr.features.options import EmbedSettings
from kspr.noise import CIFAR10, circular
from kspr.sources.opening import data_folders, find_published, open_source, where
from kspr.sources.options import ReadOptions
from kspr.sources.records import Records

__all__ = ["absent", "describe", "identity", "is_stored", "open_sample", "prepare"]


def _features(
    dataset: str,
    home: Path,
    rows: int | None,
    test: str = "test",
    transfer: str | None = None,
    labels: tuple[Path, str] | None = None,
) -> Sample:
    """Return ``features.npz`` of the folder, or features of its images from the cache.

    `labels` are a file and a column of it: what people answered for the rows, in their order.
    """
    if (home / "features.npz").is_file():
        sample = _from_npz(dataset, home / "features.npz")
    else:
        sample = _embedded(dataset, home, test, transfer)
    if labels is not None:
        given = parquet.read_table(labels[0], columns=[labels[1]])[labels[1]].to_numpy()
        sample = replace(sample, label=given, about=f"{sample.about}, labels {labels[1]}")
    return replace(sample.first(rows), picture=_pictures(dataset, home))


def _texts(file: Path, rows: int | None) -> Sample:
    """Return an npz of embedded texts: ``X``, ``y`` and ``split``, which is train, val or test."""
    with np.load(file) as stored:
        X, y, split = stored["X"].astype(np.float32), stored["y"], stored["split"]
    train, test = split == "train", split == "test"
    about = f"{file.stem}: embedded texts ({X.shape[1]})"
    # Noise between similar classes: the next one in the alphabet, for want of a list of pairs.
    sample = Sample(X[train], y[train], y[train], (X[test], y[test]), about, similar=circular)
    return sample.first(rows)


def _from_npz(dataset: str, path: Path) -> Sample:
    with np.load(path) as stored:
        X, y = stored["X_train"].astype(np.float32), stored["y_train"].astype(np.int64)
        test = stored["X_test"].astype(np.float32), stored["y_test"].astype(np.int64)
    names = CIFAR10 if dataset == "cifar10" else ()
    return Sample(X, y, y, test, f"{dataset}: features of {path.name} ({X.shape[1]})", names=names)


def _embedded(dataset: str, home: Path, test: str, transfer: str | None) -> Sample:
    """Embed with the default embedder of `kspr embed`; features go to the user's cache."""
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
    # A cache of older files is replaced: it can be computed again at any time.
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
    # CIFAR is published with right labels; noise is put on them later.
    truth = label if dataset.startswith("cifar") else truth
    return Sample(X, label, truth, held, f"{dataset}: {len(label):,} images", other)


def _decoded(
    dataset: str, home: Path, split: str | None, rows: int | None, side: int | None
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    # Imported here: only trials on images need torch.
    from kspr.train.inputs import image_inputs

    records = _records(dataset, home, split)
    items, label = records.items, np.asarray(records.label)
    if items is None:
        raise TypeError(f"{home} holds no images")
    if rows is not None:
        # Only these are decoded: `image_inputs` is for the whole set.
        X = np.stack([np.asarray(items[i]) for i in range(rows)])
        return X, label[:rows], None if records.truth is None else records.truth[:rows]
    inputs, kept, _ = image_inputs(items, side)
    return inputs, label[kept], None if records.truth is None else records.truth[kept]


def _records(dataset: str, home: Path, split: str | None) -> Records:
    """Return the rows of a split, from ``<split>.parquet`` or from the published files."""
    parquet = home / f"{split or 'train'}.parquet"
    if parquet.is_file():
        return open_source(parquet, ReadOptions())
    return find_published(dataset).read(home, ReadOptions(split=split))


def _pictures(dataset: str, home: Path) -> Callable[[int], Any] | None:
    """Return a function from row to image; None where the folder has features only."""
    if not (home / "train.parquet").is_file() and not find_published(dataset).present(home):
        return None
    opened: list[Records] = []

    def picture(row: int) -> Any:
        # Opened on first use: most trials never show an image.
        if not opened:
            opened.append(_records(dataset, home, None))
        items = opened[0].items
        return None if items is None else items[row]

    return picture


_STORED: Mapping[str, Callable[..., Sample]] = {"features": _features, "images": _images}


def absent(description: Mapping[str, Any], folder: Path | None) -> str | None:
    """Return a sentence that says what is missing for this source; None if nothing is."""
    for name in _single_files(description):
        if _file(name, folder) is None:
            places = ", ".join(map(str, _parents(folder)))
            return (
                f"{name} is not on this machine (looked in {places}; `--data FOLDER` says where)."
            )
    dataset = description.get("dataset")
    if dataset is None or _home(dataset, folder) is not None:
        return None
    places = ", ".join(map(str, _places(dataset, folder)))
    return f"{dataset} is not on this machine (looked in {places}; `--data FOLDER` says where)."


def describe(description: Mapping[str, Any]) -> str:
    """Return what is used in place of a data set of the paper, in a few words."""
    given = dict(description)
    source, rows = given["source"], given.get("rows")
    if source == "made":
        return f"made data, {given['classes']} Gaussian classes x {given['per_class']}"
    if source == "texts":
        return f"{Path(given['file']).stem}, embedded texts"
    what = "scikit-learn's digits" if "digit" in source else f"{given['dataset']}, {source}"
    if "labels" in given:
        what += f", labels {given['column']} of {given['labels']}"
    return what if rows is None else f"{what}, the first {rows:,}"


def identity(description: Mapping[str, Any], folder: Path | None) -> list[str]:
    """Return names and sizes of this source's files: other files give other trials."""
    dataset = description.get("dataset")
    home = None if dataset is None else _home(dataset, folder)
    files = [] if home is None else sorted(path for path in home.iterdir() if path.is_file())
    files += [path for name in _single_files(description) if (path := _file(name, folder))]
    # Names and sizes are enough, and hashing gigabytes at every start is not.
    return [f"{path.name} {path.stat().st_size}" for path in files]


def is_stored(description: Mapping[str, Any], folder: Path | None) -> bool:
    """Return whether features are generated or lie in one file: nothing is embedded or parsed."""
    source = description["source"]
    if source in MADE or source == "texts":
        return True
    home = None if source != "features" else _home(description["dataset"], folder)
    return home is not None and (home / "features.npz").is_file()


def open_sample(description: Mapping[str, Any], folder: Path | None) -> Sample:
    """Return the rows that `description` names."""
    # A cache needs arguments that can be hashed.
    return _opened(tuple(sorted(description.items())), folder)


def prepare(description: Mapping[str, Any], folder: Path | None) -> None:
    """Embed images once, if they must be, before trials that run side by side each do it."""
    dataset = description.get("dataset")
    home = None if dataset is None else _home(dataset, folder)
    if home is None or description["source"] != "features":
        return
    if not (home / "features.npz").is_file():
        open_sample(description, folder)


@cache
def _opened(description: tuple[tuple[str, Any], ...], folder: Path | None) -> Sample:
    given = dict(description)
    source, rows = given.pop("source"), given.pop("rows", None)
    if source in MADE:
        return MADE[source](**given).first(rows)
    missing = absent(dict(description), folder)
    if missing is not None:
        raise InputError(missing)
    found = {name: path for name in _single_files(given) if (path := _file(name, folder))}
    if source == "texts":
        return _texts(found[given["file"]], rows)
    dataset = given.pop("dataset")
    home = _home(dataset, folder) or Path()
    if "labels" in given:
        given["labels"] = found[given["labels"]], given.pop("column")
    return _STORED[source](dataset, home, rows, **given)


def _single_files(description: Mapping[str, Any]) -> list[str]:
    """Return the files that a source names beside or instead of a data set."""
    return [description[name] for name in ("file", "labels") if name in description]


def _file(name: str, folder: Path | None) -> Path | None:
    """Return the path of a file such as ``cifar10n/labels.parquet``; None if it is not here."""
    return next((path for parent in _parents(folder) if (path := parent / name).is_file()), None)


def _parents(folder: Path | None) -> list[Path]:
    # `--data` may be the folder of one data set, whose neighbours are the others.
    return data_folders() if folder is None else [folder, folder.parent]


def _places(dataset: str, folder: Path | None) -> list[Path]:
    if folder is None:
        return where(dataset)
    return [folder, *(folder / place.name for place in where(dataset))]


def _home(dataset: str, folder: Path | None) -> Path | None:
    """Return the folder of a data set: its published files, parquet, or features; None without."""
    for place in dict.fromkeys(_places(dataset, folder)):
        # Files of these names say nothing of their data set: only the folder's name does.
        named = place.name == dataset or folder is None
        if named and ((place / "features.npz").is_file() or (place / "train.parquet").is_file()):
            return place
        if place.is_dir() and find_published(dataset).present(place):
            return place
    return None
