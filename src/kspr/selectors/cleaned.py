"""A classifier that is fitted on the rows whose labels can be trusted."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags, _safe_indexing, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kspr.selectors.knockoffs_spr import KnockoffsSPR

_Method = Callable[..., np.ndarray]


def _has(method: str) -> Callable[[_Method], _Method]:
    """Return whether a method of the classifier is there, as scikit-learn asks for it."""

    def check(self: "CleanedClassifier") -> bool:
        getattr(getattr(self, "estimator_", self._estimator()), method)
        return True

    return cast("Callable[[_Method], _Method]", available_if(check))


@dataclass(eq=False, repr=False)  # scikit-learn is not typed.
class CleanedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier on the kept rows only.

    A step of a scikit-learn `Pipeline` cannot remove rows; this estimator can be its last step, and
    be cross-validated like any classifier: what is selected is then selected anew in each fold, and
    test rows are never removed. Of a class that keeps no row all are used, with a warning.

    Parameters
    ----------
    estimator
        The classifier; None for `LogisticRegression`.
    selector
        The selector; None for `KnockoffsSPR` at the level of its greatest estimated F1.

    Attributes
    ----------
    estimator_
        The fitted classifier.
    selector_
        The fitted selector; ``selector_.selection_`` says which rows were kept.
    classes_ : numpy.ndarray
        All classes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kspr.noise import symmetric
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CleanedClassifier().fit(X[:1000] / 16, symmetric(y[:1000], 0.4, seed=0))
    >>> bool(model.score(X[1000:] / 16, y[1000:]) > 0.85)
    True
    """

    estimator: Any = None
    selector: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Select the rows to trust, and fit the classifier on them."""
        if y is not None:
            check_classification_targets(y)
        selector = KnockoffsSPR(level="f1") if self.selector is None else clone(self.selector)
        selection = selector.fit(X, y).selection_
        code = selection.label_code
        lost = np.bincount(code[selection.clean_mask], minlength=len(selection.classes)) == 0
        if lost.any():
            warnings.warn(
                f"The selector keeps no row of {lost.sum():,} of {len(lost):,} classes, which the "
                "classifier must know: it is fitted on all of theirs. Ask for a larger q.",
                stacklevel=2,
            )
        rows = np.flatnonzero(selection.clean_mask | lost[code])
        kept = (_safe_indexing(values, rows) for values in indexable(X, y))
        self.selector_, self.estimator_ = selector, self._estimator().fit(*kept)
        self.classes_ = self.estimator_.classes_
        self.n_features_in_ = selector.n_features_in_
        if hasattr(selector, "feature_names_in_"):
            self.feature_names_in_ = selector.feature_names_in_
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class of every row; none is left out."""
        return self._asked("predict", X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class of `classes_`, where the classifier has it."""
        return self._asked("predict_proba", X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the classes, as the classifier gives them."""
        return self._asked("decision_function", X)

    def _asked(self, method: str, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return np.asarray(getattr(self.estimator_, method)(X))

    def _estimator(self) -> Any:
        return LogisticRegression() if self.estimator is None else clone(self.estimator)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._estimator()).input_tags.sparse
        return tags
