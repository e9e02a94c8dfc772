"""Class scores of rows by models that have not seen their labels: of any classifier, or our fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr.core.duplicates import join_sets
from kspr.core.labels import Labels
from kspr.errors import InputError
from kspr.selectors._passes import held_out
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.look import look
from kspr.selectors.parts import HostFeatures
from kspr.selectors.validation import check_count, on_host, read_groups, read_labels

_FOLDS_KEY = 0x666F6C64
"""Keeps the choice of folds apart from other uses of a seed."""


def held_out_probabilities(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    n_folds: int = 5,
    random_state: int = 0,
) -> np.ndarray:
    """Return class probabilities of each row, by a model that has not seen its label.

    They are what `ProbabilitySelector` takes: a column for each class, in sorted order. Copies of a
    row, and rows of one group, are held out together.

    Parameters
    ----------
    model
        A classifier with ``fit`` and ``predict_proba``, or the name of one of scikit-learn, such as
        ``"hist-gradient-boosting"``.
    X, y
        Features and given labels.
    groups
        Which rows belong together, such as the patient of each scan.
    n_folds
        Parts into which the rows are cut; each is judged by a model of the others.
    random_state
        Seed of the parts, and of a model that is given by its name.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kspr import ProbabilitySelector, held_out_probabilities
    >>> X, y = load_iris(return_X_y=True)
    >>> probabilities = held_out_probabilities("logistic-regression", X, y)
    >>> probabilities.shape
    (150, 3)
    >>> bool(ProbabilitySelector(q=0.1).fit(probabilities, y).selection_.clean_mask.sum() > 100)
    True
    """
    # Imported here: it takes a second, and a saved selection is read without it.
    from sklearn.utils import check_array

    check_count("n_folds", n_folds, 2, 1000)
    X = check_array(on_host(X), accept_sparse="csr", ensure_all_finite=False)
    labels = read_labels(y, X.shape[0], 1)
    chosen = _by_name(model, random_state) if isinstance(model, str) else model
    if not hasattr(chosen, "predict_proba"):
        raise InputError(f"model must have predict_proba, which {chosen!r} has not.")
    together = None if groups is None else read_groups(groups, labels)
    fold = _folds(labels, _sets(X, together), n_folds, random_state)
    probabilities = np.zeros((len(fold), len(labels.classes)))
    for held, fitted in _fitted(chosen, model, X, labels.codes, fold):
        # A rare class may have no row among those that it was fitted to.
        probabilities[held[:, None], fitted.classes_] = fitted.predict_proba(X[held])
    return probabilities


def held_out_residuals(
    model: str, X: Any, y: np.ndarray, *, groups: Any = None, random_state: int = 0
) -> np.ndarray:
    """Return how far each of the numbers `y` is from what a model of other rows says.

    The other arguments are as for `held_out_probabilities`, with a regressor for the classifier.
    """
    from sklearn.utils import check_array

    X = check_array(on_host(X), accept_sparse="csr", ensure_all_finite=False)
    # Small and large numbers are spread over all folds.
    fifths = read_labels(np.searchsorted(np.quantile(y, [0.2, 0.4, 0.6, 0.8]), y), len(y), 1)
    together = None if groups is None else read_groups(groups, fifths)
    fold = _folds(fifths, _sets(X, together), 5, random_state)
    said = np.zeros(len(y))
    for held, fitted in _fitted(_by_name(model, random_state, "regressor"), model, X, y, fold):
        said[held] = fitted.predict(X[held])
    return np.abs(y - said)


def _fitted(
    chosen: Any, model: Any, X: Any, y: np.ndarray, fold: np.ndarray
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield the rows of each fold, and the model that was fitted to all others."""
    from sklearn.base import clone

    for held in (np.flatnonzero(fold == k) for k in np.unique(fold)):
        rest = np.flatnonzero(fold != fold[held[0]])
        try:
            fitted = clone(chosen).fit(X[rest], y[rest])
        except ValueError as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise InputError(f"model={model!r} cannot be fitted: {reason}") from error
        yield held, fitted


def _by_name(name: str, seed: int, kind: str = "classifier") -> Any:
    """Return a new estimator of scikit-learn by its name in small letters with hyphens."""
    from sklearn.utils import all_estimators

    wanted = name.replace("-", "").replace("_", "").casefold()
    for full, estimator in all_estimators(type_filter=kind):
        if full.casefold() in (wanted, f"{wanted}{kind}"):
            seeded = "random_state" in getattr(estimator, "_parameter_constraints", {})
            return estimator(random_state=seed) if seeded else estimator()
    linear = "logistic-regression" if kind == "classifier" else "ridge"
    raise InputError(
        f"model must be a {kind} of scikit-learn, such as 'hist-gradient-boosting', "
        f"'random-forest' or {linear!r}, got {name!r}."
    )


def _sets(X: Any, together: np.ndarray | None) -> np.ndarray:
    """Return the set of rows that each row is held out with, -1 for a row alone."""
    # Gaps, which a model may take, are compared as zeros.
    plain = np.nan_to_num(X) if isinstance(X, np.ndarray) else X
    census = look(HostFeatures(plain), find_copies=True)
    _, equal, count = np.unique(census.content, return_inverse=True, return_counts=True)
    sets = np.where(count[equal] > 1, equal, -1)
    for others in (together, census.copies):
        sets = sets if others is None else join_sets(sets, others)
    return sets


def _folds(labels: Labels, sets: np.ndarray, n_folds: int, seed: int) -> np.ndarray:
    """Return the fold of each row: the sets of a class are spread over all folds."""
    alone = sets < 0
    unit = np.where(alone, sets.max(initial=-1) + 1 + np.arange(len(sets)), sets)
    _, first, place = np.unique(unit, return_index=True, return_inverse=True)
    rng = np.random.default_rng([seed, _FOLDS_KEY])
    order = np.lexsort([rng.random(len(first)), labels.codes[first]])
    fold = np.empty(len(first), dtype=np.intp)
    fold[order] = np.arange(len(first)) % n_folds
    return np.asarray(fold[place])


@dataclass(frozen=True)
class HeldOut:
    """Fitted values of all rows, each by a fit that has not seen its row."""

    values: np.ndarray
    """``(rows, classes)``."""
    classes: np.ndarray
    """The classes of the columns."""
    shape: tuple[int, int]
    """Rows and columns of the features."""
    content: np.ndarray
    """A number for the content of each row."""
    seed: int


def held_out_values(selector: KnockoffsSPR, X: Any, y: Any, *, groups: Any = None) -> HeldOut:
    """Return the fitted value of every class for each row, by a fit that has not seen it.

    For what is done with fits besides selecting. Only the first split of the selector is fitted.
    """
    selector = type(selector)(**{**selector.get_params(deep=False), "n_splits": 1})
    selector._check_parameters()
    with selector._opened(X) as features:
        fitted = selector._fitted(features, y, groups)
        values = held_out(fitted.features, fitted.fits, fitted.folds)
    return HeldOut(values, fitted.labels.classes, fitted.shape, fitted.census.content, fitted.seed)
