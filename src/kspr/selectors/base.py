"""What SPR and Knockoffs-SPR share: scikit-learn's interface, checks of the data, the pieces."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, _safe_indexing, check_random_state

from kspr.core.duplicates import join_sets
from kspr.core.labels import Labels
from kspr.core.penalties import PENALTIES
from kspr.core.procedure import Procedure
from kspr.core.reduction import Solver
from kspr.errors import InputError
from kspr.noise import check_seed
from kspr.selectors._plan import Plan, Reduction, plan_pieces
from kspr.selectors.engines import ENGINES
from kspr.selectors.feature_rows import DenseFeatures, Features, MovedFeatures
from kspr.selectors.manifest import Manifest, fingerprint, plain, versions
from kspr.selectors.options import CutName
from kspr.selectors.selection import Selection
from kspr.selectors.together import copies_in, read_groups
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_features,
    check_rate,
    read_labels,
)

__all__ = ["BaseSelector", "Prepared", "split_rng"]

_STREAM = 0x6B737072
"""Makes these random numbers differ from those of a caller who uses the same seed."""


@dataclass(frozen=True)
class Prepared:
    """Input that passed the checks, split into batches of pieces."""

    features: Features
    labels: Labels
    plan: Plan
    seed: int
    rng: np.random.Generator
    copies: np.ndarray | None = None


def split_rng(seed: int, split: int) -> np.random.Generator:
    """Return the random numbers of one of several splits."""
    # The first split has no number: n_splits=1 answers as before the option came.
    return np.random.default_rng([_STREAM, seed, *([split] if split else [])])


class BaseSelector(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is not typed
    """A scikit-learn estimator that keeps the samples whose labels can be trusted."""

    selection_: Selection
    _engines: tuple[str, ...] = tuple(ENGINES)

    @abstractmethod
    def fit(self, X: Any, y: Any) -> Self:
        """Judge every sample of `X` and `y`."""

    def fit_predict(self, X: Any, y: Any, **fit_params: Any) -> np.ndarray:
        """Fit, and return 1 for every kept sample and -1 for every suspect.

        Parameters
        ----------
        X, y
            Features and labels, as for `fit`.
        **fit_params
            Further arguments of `fit`.

        Returns
        -------
        numpy.ndarray of shape (n_samples,)
            1 or -1.
        """
        return np.where(self.fit(X, y, **fit_params).selection_.clean_mask, 1, -1)

    def fit_resample(self, X: Any, y: Any, **fit_params: Any) -> tuple[Any, Any]:
        """Fit, and return the kept rows of `X` and `y`, in containers of the same type.

        imbalanced-learn's pipelines call this method, so a selector can be a step of them.

        Parameters
        ----------
        X, y
            Features and labels, as for `fit`.
        **fit_params
            Further arguments of `fit`.

        Returns
        -------
        tuple
            The kept rows of `X`, and their labels.
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

    def _check_common(self) -> None:
        """Check the parameters that all selectors have."""
        check_choice("penalty", self.penalty, PENALTIES)
        check_choice("engine", self.engine, self._engines)
        check_choice("cut", self.cut, get_args(CutName))
        check_choice("pca_solver", self.pca_solver, get_args(Solver))
        check_rate("clean_ratio", self.clean_ratio)
        check_count("min_class_size", self.min_class_size, 1)
        if self.classes_per_group is not None:
            # In a group of one class there is nothing to compare.
            check_count("classes_per_group", self.classes_per_group, 2)
        if self.samples_per_class is not None:
            # Two samples of each class in either half.
            check_count("samples_per_class", self.samples_per_class, 4)
        # None and a RandomState are scikit-learn's to read.
        if isinstance(self.random_state, int | np.integer):
            check_seed(self.random_state, "random_state")
        if self.progress not in (True, False, "auto"):
            raise InputError(f"progress must be True, False or 'auto', got {self.progress!r}.")

    def _prepared(
        self,
        X: Any,
        y: Any,
        procedure: Procedure,
        clean_mask: Any = None,
        n_splits: int = 1,
        *,
        groups: Any = None,
        find_copies: bool = False,
        fit_rows: int | Literal["auto", "all"] = "all",
    ) -> Iterator[Prepared]:
        """Check the data, and yield `n_splits` random splits of it.

        Rows of one of the `groups` stay in one half, and so do copies if they are to be found.
        """
        features = self._placed(check_features(self, X))
        labels = read_labels(y, features.shape[0], self.min_class_size)
        reduction, transformer = self._reduction()
        seed = self._seed()
        clean = None if clean_mask is None else np.asarray(clean_mask, dtype=bool)
        if clean is not None and clean.shape != labels.codes.shape:
            raise InputError(
                f"clean_mask must hold one entry per row: X has {features.shape[0]} rows, "
                f"clean_mask has shape {clean.shape}."
            )
        together = None if groups is None else read_groups(groups, labels)
        copies = copies_in(features) if find_copies else None
        if copies is not None:
            together = copies if together is None else join_sets(together, copies)
        for split in range(n_splits):
            rng = split_rng(seed, split)
            plan = plan_pieces(
                features,
                labels,
                reduction=reduction,
                transformer=transformer,
                classes_per_group=self.classes_per_group,
                samples_per_class=self.samples_per_class,
                clean=clean,
                procedure=procedure,
                rng=rng,
                together=together,
                fit_rows=fit_rows,
                keep_copies=find_copies,
            )
            yield Prepared(features, labels, plan, seed, rng, copies)

    def _placed(self, features: Features) -> Features:
        """Return the features where the linear algebra is to run."""
        device = getattr(self, "device", None)
        if device is None:
            return features
        if not isinstance(features, DenseFeatures):
            raise InputError(
                f"device={device!r} needs a dense X, got a sparse matrix. Reduce it first, for "
                "example with sklearn.decomposition.TruncatedSVD."
            )
        return MovedFeatures(features, device)

    def _seed(self) -> int:
        """Return the seed that the manifest records; a RandomState gives a number too."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _reduction(self) -> tuple[Reduction, Any]:
        """Return the principal components to keep, or the user's own transformer."""
        chosen = self.reduction
        if hasattr(chosen, "transform"):
            return Reduction(None, self.pca_solver), chosen
        if chosen is None or chosen in ("auto", "classes"):
            return Reduction(chosen, self.pca_solver), None
        if isinstance(chosen, str):
            raise InputError(
                "reduction must be 'auto', a number of components, 'classes', None or a fitted "
                f"transformer, got {chosen!r}."
            )
        return Reduction(check_count("reduction", chosen, 1), self.pca_solver), None

    def _procedure(self, **choices: Any) -> Procedure:
        return Procedure(
            penalty=PENALTIES[self.penalty],
            intercept=bool(self.fit_intercept),
            clean_ratio=self.clean_ratio,
            **choices,
        )

    def _manifest(self, prepared: Prepared) -> Manifest:
        found = fingerprint(prepared.features, prepared.labels.values)
        return self._manifest_for(prepared.features.shape, prepared.seed, found)

    def _manifest_for(self, shape: tuple[int, int], seed: int, found: str) -> Manifest:
        """Return the manifest for data of that shape and fingerprint."""
        # deep=True would add the parameters of a transformer that is passed as `reduction`.
        parameters = self.get_params(deep=False)
        # A connection says nothing about the answer.
        parameters.pop("client", None)
        return Manifest(
            method=type(self).__name__,
            parameters={name: plain(value) for name, value in parameters.items()},
            seed=seed,
            n_samples=shape[0],
            n_features=shape[1],
            fingerprint=found,
            versions=versions(),
        )
