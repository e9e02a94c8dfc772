"""Any score of doubt as a selection: checked rows alone give it an error rate."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from scipy import stats
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_array

from kspr.core.labels import encode_labels, name_rows
from kspr.errors import InputError
from kspr.selectors.base import BaseSelector
from kspr.selectors.checked import read_checked
from kspr.selectors.cut_groups import cut_by_class
from kspr.selectors.options import RIGHT
from kspr.selectors.selection import Selection
from kspr.selectors.validation import check_choice, check_rate, on_host

_COMPONENTS = 16
"""Components of features that are joined with a doubt."""


@dataclass(eq=False, repr=False)
class DoubtSelector(BaseSelector):
    """Order rows by any score of doubt; checked rows then say which of them can be kept.

    The score may come from anybody: a tool's quality of a box, a span, a mask or a number, the
    confidence of a language model, a distance. A doubt alone has no error rate, so nothing is kept
    before rows are checked: `Selection.draw_checks` draws them, and `Selection.with_checks` keeps
    what can be kept at `q`, whatever kind of label it is and whoever gave it.

    Parameters
    ----------
    q
        The error rate: the largest share of wrong labels among the kept ones. It holds once rows
        have been checked.
    doubtful
        Which scores are doubtful: ``"high"``, or ``"low"`` for a quality or a confidence. The
        answers of `fit` say it by themselves.

    Attributes
    ----------
    selection_ : Selection
        The rows in their order of doubt. Without `y` all labels are ``"right"``, as a claim: the
        answer about a checked row is ``"right"``, or else ``"wrong"``, or None where nobody can
        tell.
    classes_ : numpy.ndarray
        The classes, sorted; ``["right"]`` without `y`.

    Examples
    --------
    >>> import numpy as np
    >>> quality = np.linspace(0, 1, 2000)  # say, of the boxes that were drawn on some images
    >>> wrong = np.random.default_rng(0).random(2000) > quality + 0.2
    >>> selection = DoubtSelector(q=0.1, doubtful="low").fit(quality).selection_
    >>> rows = selection.draw_checks(100)
    >>> answers = np.where(wrong[rows], "wrong", "right")  # a person looks at these boxes
    >>> checked = selection.with_checks(rows, answers)
    >>> checked
    DoubtSelector: 821 of 2,000 labels kept (41.0%) at q = 0.1
    One threshold for 1 class; set by rows that a person has checked
    >>> bool(wrong[checked.clean_indices].mean() < 0.1)
    True
    """

    q: float = 0.05
    _: KW_ONLY
    doubtful: Literal["high", "low"] = "high"

    def fit(self, doubt: Any, y: Any = None, *, features: Any = None, checked: Any = None) -> Self:
        """Order the rows; the result is in ``selection_``.

        Parameters
        ----------
        doubt : array-like of shape (n_samples,) or (n_samples, n_doubts)
            How doubtful each row is, in any unit: only the order counts. Of several scores the mean
            place in their orders does, unless rows are `checked`.
        y : array-like of shape (n_samples,), optional
            The labels, where they are classes. Without them a checked row is right or wrong.
        features : array-like of shape (n_samples, n_features), optional
            Numbers that may tell wrong rows from right ones besides, with `checked`.
        checked : tuple (rows, true labels), optional
            First answers, about rows of any choice, at least 50 if possible. A logistic regression
            of these answers joins the scores, and the features. These rows are kept or not by their
            answers, and never drawn again: what `Selection.draw_checks` draws afterwards gives the
            error rate, since the order has not seen those answers.
        """
        check_rate("q", self.q)
        check_choice("doubtful", self.doubtful, ("high", "low"))
        scores = _read_doubt(doubt)
        labels = encode_labels(np.full(len(scores), RIGHT) if y is None else on_host(y))
        if len(labels.values) != len(scores):
            raise InputError(f"doubt has {len(scores)} rows but y has {len(labels.values)} labels.")
        cut_group, table = cut_by_class(labels.codes, len(labels.classes), pooled=True)
        # Places in the order, from 0 to 1: the unit of a score says nothing.
        places = _places(scores if self.doubtful == "high" else -scores)
        place = _places(places.mean(axis=1, keepdims=True))[:, 0]
        self.n_features_in_ = scores.shape[1]
        self.classes_ = labels.classes
        selection = Selection.uncut(
            labels.codes,
            labels.classes,
            cut_group=cut_group,
            table=table,
            q_value=None,
            doubt=place,
            selection_time=place,
            suggested_code=labels.codes,
            manifest=self._manifest(scores.shape, 0, scores, labels.values),
        )
        status = np.full(len(table), "unchecked")
        selection = replace(selection, cut_groups=replace(selection.cut_groups, status=status))
        if checked is not None:
            rows, true_labels, _ = read_checked(checked, labels.values)
            first = selection.with_checks(rows, true_labels, drawn="chosen").checked
            assert first is not None  # noqa: S101 - answers have been given
            shown = [stats.zscore(scores), stats.zscore(places)]
            if features is not None:
                shown.append(_components(features, len(scores)))
            order = _joined(np.nan_to_num(np.hstack(shown)), first.rows, ~first.right)
            place = place if order is None else _places(order[:, None])[:, 0]
            # No threshold decides on rows that were looked at, and no draw has them.
            doubt = place.copy()
            doubt[first.rows] = np.inf
            selection = replace(selection, doubt=doubt, selection_time=place)
            selection = selection.with_checks(rows, true_labels, drawn="chosen")
        elif features is not None:
            raise InputError(
                "features are joined with the doubt by first answers: pass checked=(rows, true "
                "labels) too, or leave them out."
            )
        self.selection_ = selection
        return self


def _joined(shown: np.ndarray, rows: np.ndarray, wrong: np.ndarray) -> np.ndarray | None:
    """Return log-odds of all rows to be wrong, by the answers about some; None if all are alike."""
    if wrong.all() or not wrong.any():
        return None
    # On five made sets, .03 to 1 and cross-validation kept the same within 2 points.
    model = LogisticRegression(C=0.1, max_iter=1000).fit(shown[rows], wrong)
    return np.asarray(model.decision_function(shown))


def _components(features: Any, n_rows: int) -> np.ndarray:
    """Return features in a few components of equal spread: answers are too few for more."""
    X = check_array(on_host(features))
    if len(X) != n_rows:
        raise InputError(f"doubt has {n_rows} rows but features has {len(X)}.")
    count = min(_COMPONENTS, *X.shape)
    scaled = np.nan_to_num(stats.zscore(X.astype(np.float64)))
    return np.asarray(PCA(count, whiten=True, random_state=0).fit_transform(scaled))


def _read_doubt(doubt: Any) -> np.ndarray:
    """Return the scores, one column each; refuse gaps, which have no place in an order."""
    scores = np.asarray(on_host(doubt))
    scores = scores[:, None] if scores.ndim == 1 else scores
    if scores.ndim != 2 or scores.dtype.kind not in "biuf" or not scores.size:
        raise InputError(
            f"doubt must hold one number per row, got {scores.dtype} of shape {scores.shape}."
        )
    scores = scores.astype(np.float64)
    gaps = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if gaps.size:
        raise InputError(
            f"doubt has no finite number in {name_rows(gaps)}. Give rows without a score the most "
            "doubtful one, or leave them out."
        )
    return scores


def _places(scores: np.ndarray) -> np.ndarray:
    """Return the place of each score in the order of its column, from 0 to 1."""
    columns = [np.searchsorted(np.sort(s), s, side="right") for s in scores.T]
    return np.stack(columns, axis=1) / len(scores)
