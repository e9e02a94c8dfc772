"""What all selectors share: scikit-learn's interface, seeds, and the manifest of a selection."""

import hashlib
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, _safe_indexing, check_random_state

from kspr import _packages
from kspr.errors import check_seed
from kspr.selectors.provenance import Manifest
from kspr.selectors.selection import Selection

_STREAM = 0x6B737072
"""Makes these random numbers differ from those of a caller who uses the same seed."""


def split_rng(seed: int, split: int = 0) -> np.random.Generator:
    """Return the random numbers of one of several splits."""
    # The first split has no number: n_splits=1 answers as before the option came.
    return np.random.default_rng([_STREAM, seed, *([split] if split else [])])


class BaseSelector(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is not typed
    """A scikit-learn estimator that keeps the samples whose labels can be trusted."""

    selection_: Selection

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Judge every sample of `X` and `y`."""

    def fit_predict(self, X: Any, y: Any, **fit_params: Any) -> np.ndarray:
        """Fit, and return 1 for every kept sample and -1 for every suspect.

        `fit_params` are further arguments of `fit`.
        """
        return np.where(self.fit(X, y, **fit_params).selection_.clean_mask, 1, -1)

    def fit_resample(self, X: Any, y: Any, **fit_params: Any) -> tuple[Any, Any]:
        """Fit, and return the kept rows of `X` and `y`, in containers of the same type.

        imbalanced-learn's pipelines call this method, so a selector can be a step of them.
        `fit_params` are further arguments of `fit`.
        """
        clean = self.fit(X, y, **fit_params).selection_.clean_indices
        # The name that imbalanced-learn's samplers use.
        self.sample_indices_ = clean
        return _safe_indexing(X, clean), _safe_indexing(y, clean)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def _seed(self) -> int:
        """Return the seed that the manifest records; a RandomState gives a number too."""
        try:
            generator = check_random_state(self.random_state)
        except ValueError:
            check_seed(self.random_state, "random_state")
            raise
        return int(generator.randint(2**31 - 1))

    def _manifest(
        self,
        shape: tuple[int, int],
        seed: int,
        content: np.ndarray,
        labels: np.ndarray,
        **more: Any,
    ) -> Manifest:
        """Return the manifest of a selection; `content` has a number for the content of each row.

        `more` are parameters to record besides those of the selector.
        """
        # deep=True would add the parameters of a transformer that is passed as `reduction`.
        parameters = {**self.get_params(deep=False), **more}
        # Where the work was done says nothing about the answer.
        parameters.pop("client", None)
        return Manifest(
            method=type(self).__name__,
            parameters={name: plain(value) for name, value in parameters.items()},
            seed=seed,
            n_samples=shape[0],
            n_features=shape[1],
            fingerprint=fingerprint(content, shape, labels),
            versions=versions(),
        )


def versions() -> dict[str, str]:
    """Return the versions that a result can depend on."""
    installed = _packages.versions("knockoffs-spr", "numpy", "scikit-learn")
    names = {"knockoffs-spr": "kspr"}
    return {names.get(package, package): str(number) for package, number in installed.items()}


def fingerprint(content: np.ndarray, shape: tuple[int, int], labels: np.ndarray) -> str:
    """Return a digest of features and labels: equal for equal data, however it is stored.

    `content` has a number for the content of each row.
    """
    # The shape too: rows of zeros have one content, however long they are.
    digest = hashlib.sha256(repr(shape).encode())
    digest.update(np.ascontiguousarray(content).data)
    # Labels of any type have a text; their storage (fixed width, object) must not matter.
    for start in range(0, len(labels), 1 << 16):
        texts = map(str, labels[start : start + (1 << 16)].tolist())
        digest.update(("\x1f".join(texts) + "\x1f").encode())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: numbers and text as they are, objects by their repr."""
    if isinstance(value, np.generic):
        # JSON knows Python's numbers only.
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
