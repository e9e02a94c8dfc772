"""Class scores of rows by models that have not seen their labels: of any classifier, or our fit."""

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

__all__ = ["HeldOut", "held_out_probabilities", "held_out_values"]

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
    from sklearn.base import clone
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
    for held in (np.flatnonzero(fold == k) for k in np.unique(fold)):
        rest = np.flatnonzero(fold != fold[held[0]])
        try:
            fitted = clone(chosen).fit(X[rest], labels.codes[rest])
        except ValueError as error:
            reason = str(error).strip().splitlines()[0][:200]
            raise InputError(f"model={model!r} cannot be fitted: {reason}") from error
        # A rare class may have no row among those that it was fitted to.
        probabilities[held[:, None], fitted.classes_] = fitted.predict_proba(X[held])
    return probabilities


def _by_name(name: str, seed: int) -> Any:
    """Return a new classifier of scikit-learn by its name in small letters with hyphens."""
    from sklearn.utils import all_estimators

    wanted = name.replace("-", "").replace("_", "").casefold()
    for full, classifier in all_estimators(type_filter="classifier"):
        if full.casefold() in (wanted, f"{wanted}classifier"):
            seeded = "random_state" in getattr(classifier, "_parameter_constraints", {})
            return classifier(random_state=seed) if seeded else classifier()
    raise InputError(
        "model must be a classifier of scikit-learn, such as 'hist-gradient-boosting', "
        f"'random-forest' or 'logistic-regression', got {name!r}."
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
