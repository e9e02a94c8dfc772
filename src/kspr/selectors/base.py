"""What all selectors share: scikit-learn's interface, seeds, and the manifest of a selection."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, _safe_indexing, check_random_state

from kspr.noise import check_seed
from kspr.selectors.manifest import Manifest, fingerprint, plain, versions
from kspr.selectors.selection import Selection

__all__ = ["BaseSelector", "split_rng"]

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
        # None and a RandomState are scikit-learn's to read.
        if isinstance(self.random_state, int | np.integer):
            check_seed(self.random_state, "random_state")
        return int(check_random_state(self.random_state).randint(2**31 - 1))

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
