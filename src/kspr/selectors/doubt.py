"""Any score of doubt as a selection: checked rows alone give it an error rate."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from kspr.core.labels import encode_labels, name_rows
from kspr.errors import InputError
from kspr.selectors.base import BaseSelector
from kspr.selectors.cut_groups import cut_by_class
from kspr.selectors.options import RIGHT
from kspr.selectors.selection import Selection
from kspr.selectors.validation import check_choice, check_rate, on_host

__all__ = ["DoubtSelector"]


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
        Which scores are doubtful: ``"high"``, or ``"low"`` for a quality or a confidence.

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

    def fit(self, doubt: Any, y: Any = None) -> Self:
        """Order the rows; the result is in ``selection_``.

        Parameters
        ----------
        doubt : array-like of shape (n_samples,) or (n_samples, n_doubts)
            How doubtful each row is, in any unit: only the order counts. Of several scores the mean
            place in their orders does.
        y : array-like of shape (n_samples,), optional
            The labels, where they are classes. Without them a checked row is right or wrong.
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
        self.selection_ = replace(
            selection, cut_groups=replace(selection.cut_groups, status=status)
        )
        return self


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
