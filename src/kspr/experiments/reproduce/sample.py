"""A sample: rows, labels, true labels and test rows; noise on them; small generated samples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.noise import asymmetric, circular, symmetric

__all__ = ["MADE", "Sample", "corrupted"]


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

    def only(self, rows: np.ndarray) -> "Sample":
        """Return the rows that a mask marks."""
        truth = None if self.truth is None else self.truth[rows]
        return replace(self, X=self.X[rows], label=self.label[rows], truth=truth)

    def first(self, rows: int | None) -> "Sample":
        """Return the first rows; all of them for None."""
        if rows is None:
            return self
        truth = None if self.truth is None else self.truth[:rows]
        return replace(self, X=self.X[:rows], label=self.label[:rows], truth=truth)

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
    sample = _digits()
    return replace(
        sample, X=_as_images(sample.X), test=(_as_images(sample.test[0]), sample.test[1])
    )


def _as_images(X: np.ndarray) -> np.ndarray:
    # (rows, 1, 16, 16): every pixel becomes four.
    grey = np.kron(X.reshape(-1, 1, 8, 8), np.ones((2, 2))) * 255
    return np.repeat(grey, 3, axis=1).astype(np.uint8)


def _enlarged(grey: np.ndarray) -> Any:
    from PIL import Image

    return Image.fromarray(np.kron(255 - 255 * grey, np.ones((4, 4))).astype(np.uint8)).convert(
        "RGB"
    )


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


MADE: dict[str, Callable[..., Sample]] = {
    "digits": _digits,
    "digit images": _digit_images,
    "made": _made,
}
