"""The data of a recipe: a sample that is read from files on this machine, or generated.

A source is described by a table such as ``{source = "features", dataset = "cifar10"}``. `absent`
says why it is not available here; `open_sample` returns it; `corrupted` puts noise on its labels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from kspr.errors import InputError
from kspr.features.loading import cache_folder, embed_records
from kspr.noise import CIFAR10, asymmetric, circular, symmetric
from kspr.sources.opening import data_folders, find_published, open_source, where
from kspr.sources.options import EmbedSettings, ReadOptions
from kspr.sources.records import Records


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows, their given and true labels, and rows to test on."""

    X: Any
    label: np.ndarray
    truth: np.ndarray | None
    """The true labels; None where they are not known."""
    test: tuple[Any, np.ndarray]
    about: str
    """Name of the data for captions and messages."""
    transfer: tuple[Any, np.ndarray] | None = None
    """A second test set, from another source."""
    picture: Callable[[int], Any] | None = None
    """From a row to a PIL image; None where there are no images."""
    similar: Callable[[Any, float, int], np.ndarray] = asymmetric
    """Noise between similar classes."""
    names: tuple[str, ...] = ()
    """Class names, where labels are numbers."""

    def only(self, rows: np.ndarray | slice) -> "Sample":
        """Return the rows that a mask or a slice names."""
        truth = None if self.truth is None else self.truth[rows]
        return replace(self, X=self.X[rows], label=self.label[rows], truth=truth)

    def name(self, label: Any) -> str:
        """Return the name of a class."""
        return self.names[int(label)] if self.names else str(label)


def corrupted(sample: Sample, noise: str, seed: int) -> Sample:
    """Return the sample with noise such as ``Sym. 40 %``; ``as found`` leaves it as it is."""
    if noise == "as found":
        return sample
    # "Sym. 40 %" and "Asy. 40 %", as in the paper's tables.
    kind, rate = noise[:4], float(noise[4:].rstrip(" %")) / 100
    if sample.truth is None:
        raise InputError(f"{sample.about} has no true labels, so {noise} cannot be put on them.")
    make = symmetric if kind == "Sym." else sample.similar
    return replace(sample, label=make(sample.truth, rate, seed))


def _digits() -> Sample:
    """Return the handwritten digits of scikit-learn; a quarter of them is the test set."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    # A fixed pattern: the test set is the same for every seed.
    held = np.arange(len(y)) % 4 == 3
    return Sample(
        X[~held],
        y[~held],
        y[~held],
        (X[held], y[held]),
        "scikit-learn's digits (8 x 8 pixels, 10 classes)",
        picture=lambda row: _enlarged(X[~held][row].reshape(8, 8)),
    )


def _digit_images() -> Sample:
    """Return the digits as colour images of 16 x 16 pixels."""

    def images(X: np.ndarray) -> np.ndarray:
        # (rows, 1, 16, 16): every pixel becomes four.
        grey = np.kron(X.reshape(-1, 1, 8, 8), np.ones((2, 2))) * 255
        return np.repeat(grey, 3, axis=1).astype(np.uint8)

    sample = _digits()
    return replace(sample, X=images(sample.X), test=(images(sample.test[0]), sample.test[1]))


def _enlarged(grey: np.ndarray) -> Any:
    from PIL import Image

    large = np.kron(255 - 255 * grey, np.ones((4, 4))).astype(np.uint8)
    return Image.fromarray(large).convert("RGB")


def _made(classes: int, per_class: int, dimensions: int = 32, wrong: float = 0.0) -> Sample:
    """Return Gaussian classes; a share `wrong` of the labels is the next class."""
    # Always the same data: the seed of a trial is for its noise and splits.
    rng = np.random.default_rng(0)
    means = 2.5 * rng.standard_normal((classes, dimensions)) / np.sqrt(dimensions) * 2
    # A quarter more than asked for: the rest is the test set.
    y = rng.permutation(np.repeat(np.arange(classes), per_class + per_class // 4))
    X = (means[y] + rng.standard_normal((len(y), dimensions))).astype(np.float32)
    n = classes * per_class
    test = (X[n:], y[n:])
    return Sample(
        X[:n],
        circular(y[:n], wrong, 0) if wrong else y[:n],
        y[:n],
        test,
        f"made data: {classes} Gaussian classes in {dimensions} dimensions"
        + (f", {wrong:.0%} of the labels wrong" if wrong else ""),
        transfer=test,
        similar=circular,
    )


GENERATED: dict[str, Callable[..., Sample]] = {
    "digits": _digits,
    "digit images": _digit_images,
    "made": _made,
}


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
    return replace(sample.only(slice(rows)), picture=_pictures(dataset, home))


def _texts(file: Path, rows: int | None) -> Sample:
    """Return an npz of embedded texts: ``X``, ``y`` and ``split``, which is train, val or test."""
    with np.load(file) as stored:
        X, y, split = stored["X"].astype(np.float32), stored["y"], stored["split"]
    train, test = split == "train", split == "test"
    about = f"{file.stem}: embedded texts ({X.shape[1]})"
    # Noise between similar classes: the next one in the alphabet, for want of a list of pairs.
    sample = Sample(X[train], y[train], y[train], (X[test], y[test]), about, similar=circular)
    return sample.only(slice(rows))


def _from_npz(dataset: str, path: Path) -> Sample:
    with np.load(path) as stored:
        X, y = stored["X_train"].astype(np.float32), stored["y_train"].astype(np.int64)
        test = stored["X_test"].astype(np.float32), stored["y_test"].astype(np.int64)
    names = CIFAR10 if dataset == "cifar10" else ()
    return Sample(X, y, y, test, f"{dataset}: features of {path.name} ({X.shape[1]})", names=names)


def _embedded(dataset: str, home: Path, test: str, transfer: str | None) -> Sample:
    """Embed with the default embedder of `kspr embed`; features go to the user's cache."""

    def embedded(records: Records, split: str | None) -> tuple[Any, Any]:
        settings = EmbedSettings()
        folder = cache_folder(home, settings, split)
        # A cache of older files is replaced: it can be computed again at any time.
        found = embed_records(records, folder, settings, overwrite=True)
        return found.features, np.asarray(found.kept)

    about = f"{dataset}: features of the shipped embedder"
    return replace(_of_splits(dataset, home, embedded, test, transfer), about=about)


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

    def decoded(records: Records, split: str | None) -> tuple[Any, Any]:
        # Imported here: only trials on images need torch.
        from kspr.train.inputs import image_inputs

        items, n = records.items, rows if split is None else test_rows
        if items is None:
            raise TypeError(f"{home} holds no images")
        if n is None:
            return image_inputs(items, side)[:2]
        # Only these are decoded: `image_inputs` is for the whole set.
        return np.stack([np.asarray(items[i]) for i in range(n)]), slice(n)

    sample = _of_splits(dataset, home, decoded, test, transfer)
    return replace(sample, about=f"{dataset}: {len(sample.label):,} images")


def _of_splits(
    dataset: str,
    home: Path,
    read: Callable[[Records, str | None], tuple[Any, Any]],
    test: str,
    transfer: str | None,
) -> Sample:
    """Return the training rows, the test rows and those of the second test set, if any.

    `read` returns what is learned from, and the rows that could be decoded.
    """

    def rows(split: str | None) -> tuple[Any, np.ndarray, np.ndarray | None]:
        records = _records(dataset, home, split)
        X, kept = read(records, split)
        truth = None if records.truth is None else records.truth[kept]
        return X, np.asarray(records.label)[kept], truth

    X, label, truth = rows(None)
    # CIFAR is published with right labels; noise is put on them later.
    truth = label if dataset.startswith("cifar") else truth
    other = None if transfer is None else rows(transfer)[:2]
    return Sample(X, label, truth, rows(test)[:2], dataset, other)


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
    # Opened on first use: most trials never show an image.
    items = cache(lambda: _records(dataset, home, None).items)
    return lambda row: None if (found := items()) is None else found[row]


_STORED: Mapping[str, Callable[..., Sample]] = {"features": _features, "images": _images}


def absent(description: Mapping[str, Any], folder: Path | None) -> str | None:
    """Return a sentence that says which file or data set this source lacks; None if none."""
    dataset = description.get("dataset")
    wanted = {name: (_parents(folder), p) for name, p in _files(description, folder).items()}
    if dataset is not None:
        wanted[dataset] = _places(dataset, folder), _home(description, folder)
    for name, (places, path) in wanted.items():
        if path is None:
            looked = ", ".join(map(str, places))
            return (
                f"{name} is not on this machine (looked in {looked}; `--data FOLDER` says where)."
            )
    return None


def describe(description: Mapping[str, Any]) -> str:
    """Return the name of the data that a source stands for on a page: a few words."""
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
    home = _home(description, folder)
    files = [] if home is None else sorted(path for path in home.iterdir() if path.is_file())
    files += filter(None, _files(description, folder).values())
    # Names and sizes are enough, and hashing gigabytes at every start is not.
    return [f"{path.name} {path.stat().st_size}" for path in files]


def open_sample(description: Mapping[str, Any], folder: Path | None) -> Sample:
    """Return the rows that `description` names."""
    # A cache needs arguments that can be hashed.
    return _opened(tuple(sorted(description.items())), folder)


def prepare(description: Mapping[str, Any], folder: Path | None) -> None:
    """Embed images once, if they must be, before trials that run side by side each do it."""
    home = _home(description, folder)
    if home is None or description["source"] != "features":
        return
    if not (home / "features.npz").is_file():
        open_sample(description, folder)


@cache
def _opened(description: tuple[tuple[str, Any], ...], folder: Path | None) -> Sample:
    given = dict(description)
    source, rows = given.pop("source"), given.pop("rows", None)
    if source in GENERATED:
        return GENERATED[source](**given).only(slice(rows))
    missing = absent(dict(description), folder)
    if missing is not None:
        raise InputError(missing)
    paths = _files(given, folder)
    if source == "texts":
        return _texts(paths[given["file"]] or Path(), rows)
    home = _home(given, folder) or Path()
    dataset = given.pop("dataset")
    if "labels" in given:
        given["labels"] = paths[given["labels"]], given.pop("column")
    return _STORED[source](dataset, home, rows, **given)


def _files(description: Mapping[str, Any], folder: Path | None) -> dict[str, Path | None]:
    """Return the paths of files that a source names beside a data set; None for those not here."""
    names = [description[name] for name in ("file", "labels") if name in description]
    return {
        name: next((p for parent in _parents(folder) if (p := parent / name).is_file()), None)
        for name in names
    }


def _parents(folder: Path | None) -> list[Path]:
    # `--data` may be the folder of one data set, whose neighbours are the others.
    return data_folders() if folder is None else [folder, folder.parent]


def _places(dataset: str, folder: Path | None) -> list[Path]:
    if folder is None:
        return where(dataset)
    return [folder, *(folder / place.name for place in where(dataset))]


def _home(description: Mapping[str, Any], folder: Path | None) -> Path | None:
    """Return the folder of the source's data set, with published files, parquet or features.

    None if the source names no data set, or one that is not on this machine.
    """
    dataset = description.get("dataset")
    if dataset is None:
        return None
    for place in dict.fromkeys(_places(dataset, folder)):
        # Files of these names say nothing of their data set: only the folder's name does.
        named = place.name == dataset or folder is None
        if named and ((place / "features.npz").is_file() or (place / "train.parquet").is_file()):
            return place
        if place.is_dir() and find_published(dataset).present(place):
            return place
    return None
