"""Bring your own model: select by class probabilities that have not seen the labels."""

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.utils import Tags

from kspr.core.arrays import to_numpy
from kspr.core.grading import Grading, Losses
from kspr.core.labels import Labels, as_label_array, name_rows, places_in
from kspr.core.probabilities import fit_probabilities, memorised_share
from kspr.core.regression import closed_form_times
from kspr.errors import InputError
from kspr.selectors._passes import Compare, Grade, describe_noise, shares_of
from kspr.selectors.base import BaseSelector
from kspr.selectors.cut_groups import at_best_f1, cut_apart, cut_by_class
from kspr.selectors.look import look
from kspr.selectors.options import MODELLED, ControlName, CutName
from kspr.selectors.parts import HostFeatures
from kspr.selectors.selection import Selection
from kspr.selectors.validation import check_choice, check_count, check_rate, read_labels

_MEMORISED = 0.98
"""Agreement with the labels, where the model is least sure, from which on there is a warning."""
_FEWEST_TO_WARN = 100
"""With fewer rows, agreement everywhere says little."""


@dataclass(eq=False, repr=False)
class ProbabilitySelector(BaseSelector):
    """Keep the samples whose labels can be trusted, by the class probabilities of your own model.

    The probabilities of a row must come from a model that was not trained on its label:
    `sklearn.model_selection.cross_val_predict` gives such ones. They may be too sure, not sure
    enough, or rounded to 0 and 1: what they are worth is fitted to the given labels, together with
    how labels go wrong.

    Parameters
    ----------
    q
        The error rate: the largest share of wrong labels among the kept ones. It holds under the
        assumption of `control`.
    control
        How the error rate is estimated. ``"people"`` assumes that a label goes wrong by its true
        class, and, unless the labels themselves refute it, more often where a row is unclear,
        towards what it looks like. ``"transition"`` assumes that it depends on the class only.
        ``"exchangeable"`` assumes that a wrong label is any wrong
        class with equal chance; it keeps less.
    cut
        ``"pooled"`` holds `q` over all classes together, ``"per_class"`` in every class.
    level
        ``"fixed"`` keeps nothing where `q` cannot be reached. ``"f1"``, for
        ``control="people"`` and ``"transition"``, ignores `q` and takes the level with the greatest
        estimated F1.
    min_class_size
        Smallest class that is accepted.

    Attributes
    ----------
    selection_, classes_, sample_indices_
        As for `KnockoffsSPR`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import StratifiedKFold, cross_val_predict
    >>> X, y = load_digits(return_X_y=True)
    >>> y[::5] = 9 - y[::5]
    >>> folds = StratifiedKFold(5, shuffle=True, random_state=0)
    >>> model = LogisticRegression(max_iter=200)
    >>> pred_probs = cross_val_predict(model, X / 16, y, cv=folds, method="predict_proba")
    >>> selection = ProbabilitySelector(q=0.05).fit(pred_probs, y).selection_
    >>> y[:5], selection.suggested_label[:5]
    (array([9, 1, 2, 3, 4]), array([0, 1, 2, 3, 4]))
    >>> selection.clean_mask[:5]
    array([False,  True,  True,  True,  True])
    """

    q: float = 0.05
    _: KW_ONLY
    control: ControlName = "people"
    cut: CutName = "pooled"
    level: Literal["fixed", "f1"] = "fixed"
    min_class_size: int = 2

    def fit(self, X: Any, y: Any, *, classes: Any = None) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_classes)
            Class probabilities, called ``pred_probs`` in messages. Rows sum to 1.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong.
        classes : array-like of shape (n_classes,), optional
            The label of each column. Without it, the columns of a data frame are known by their
            names, and those of an array are in the sorted order of the classes of `y`. Columns of
            classes that `y` lacks are left out.

        Returns
        -------
        self : ProbabilitySelector
            The fitted selector.

        Warns
        -----
        UserWarning
            If the labels have the highest probability nearly everywhere, even where the model is
            least sure: then the model was probably trained on them.

        Examples
        --------
        >>> import numpy as np
        >>> y = np.repeat(["cat", "dog"], 50)
        >>> dog = np.where(y == "dog", 0.9, 0.2)
        >>> y[0] = "dog"
        >>> pred_probs = np.column_stack([dog, 1 - dog])
        >>> model = ProbabilitySelector(q=0.1).fit(pred_probs, y, classes=["dog", "cat"])
        >>> int(model.selection_.suspicion.argmax())
        0
        """
        self._check_parameters()
        shown, labels = read_probabilities(X, y, classes, self.min_class_size)
        _warn_if_memorised(shown, labels)
        self.n_features_in_ = shown.shape[1]
        self.classes_ = labels.classes
        selection = self._selection(shown, labels)
        if self.level == "f1":
            self.selection_ = at_best_f1(selection, self.q)
        else:
            self.selection_ = cut_apart(selection, self.q).at(self.q)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.positive_only = True
        return tags

    def _check_parameters(self) -> None:
        check_rate("q", self.q)
        check_choice("control", self.control, get_args(ControlName))
        check_choice("cut", self.cut, get_args(CutName))
        check_choice("level", self.level, ("fixed", "f1"))
        check_count("min_class_size", self.min_class_size, 1)
        if self.level == "f1" and self.control not in MODELLED:
            raise InputError(
                "level='f1' goes with control='people' or 'transition', which estimate how many "
                f"labels are right, not with {self.control!r}. Change either."
            )

    def _selection(self, shown: np.ndarray, labels: Labels) -> Selection:
        """Return the selection before it is cut: every row with its level."""
        codes, classes = labels.codes, labels.classes
        pooled = self.cut == "pooled"
        class_only = self.control != "people"
        logs, chosen, models = fit_probabilities(shown, codes, class_only=class_only)
        noise, ends = shares_of(models, logs[chosen])
        prior = models.chosen.prior(logs)
        halves = np.zeros((len(codes), 1), dtype=np.int8)
        grading = Grading(len(classes), len(codes), None if models.people else noise, pooled=pooled)
        tally, columns = HostFeatures(logs).map(Grade((), models, noise, grading), codes, halves)
        if self.control in MODELLED:
            level = grading.levels(tally).of(columns["grade"], codes)
            doubt = columns["doubt"]
        elif len(classes) < 3:
            raise InputError(
                "control='exchangeable' needs at least three classes, got 2. Use control='people'."
            )
        else:
            losses, best = Losses(len(classes), pooled=pooled), columns["best"]
            tally, columns = HostFeatures(prior).map(Compare((), losses), codes, halves)
            level, doubt = losses.levels(tally).of(columns["grade"], codes), columns["doubt"]
            columns["best"] = best
        cut_group, table = cut_by_class(codes, len(classes), pooled=pooled)
        return Selection.uncut(
            codes,
            classes,
            cut_group=cut_group,
            table=table,
            q_value=level,
            doubt=doubt,
            selection_time=closed_form_times(prior, codes),
            suggested_code=columns["best"],
            suggestion_probability=columns.get("chance"),
            doubt_by_class=columns.get("by_class"),
            doubt_by_people=columns.get("by_people"),
            # Nothing here is drawn at random.
            manifest=self._manifest(
                shown.shape,
                0,
                look(HostFeatures(shown), find_copies=False).content,
                labels.values,
            ),
            noise=describe_noise(noise, ends, classes),
        )


def _warn_if_memorised(shown: np.ndarray, labels: Labels) -> None:
    share = memorised_share(shown, labels.codes)
    if len(labels.codes) >= _FEWEST_TO_WARN and share >= _MEMORISED:
        warnings.warn(
            f"Where the model is least sure, it still agrees with {share:.0%} of the labels. "
            "Either hardly any label is wrong, or the model was trained on these labels: then it "
            "cannot find wrong ones. Use cross-validated probabilities "
            "(sklearn.model_selection.cross_val_predict).",
            stacklevel=3,
        )


_TOLERANCE = 0.01
"""How far the sum of a row may be from 1: half precision rounds, and tables have few digits."""


def read_probabilities(
    pred_probs: Any, y: Any, classes: Any, min_class_size: int
) -> tuple[np.ndarray, Labels]:
    """Return probabilities with one column per class of `y`, in sorted order, and the labels.

    `classes` names the columns; None takes the names of a data frame's columns, or else the sorted
    classes of `y`. Columns of classes that `y` lacks are left out, and the others made to sum to 1.
    """
    names = _names(pred_probs) if classes is None else as_label_array(classes).tolist()
    shown = _as_matrix(to_numpy(pred_probs))
    labels = read_labels(y, len(shown), min_class_size)
    if names is None:
        if shown.shape[1] != len(labels.classes):
            raise InputError(
                f"pred_probs has {shown.shape[1]} columns but y has {len(labels.classes)} classes. "
                "Pass classes=, the label of each column in order."
            )
        order = np.arange(shown.shape[1])
    else:
        if len(names) != shown.shape[1]:
            raise InputError(
                f"classes must name every column of pred_probs: it has {len(names)} labels for "
                f"{shown.shape[1]} columns."
            )
        order = order_columns(names, labels.classes)
    _check_values(shown)
    chosen = shown[:, order] / shown.sum(axis=1, keepdims=True)
    total = chosen.sum(axis=1, keepdims=True)
    # A row whose whole weight is on classes that y lacks doubts all others alike.
    even = np.full_like(chosen, 1.0 / chosen.shape[1])
    return np.divide(chosen, total, out=even, where=total > 0), labels


def _names(pred_probs: Any) -> list[Any] | None:
    columns = getattr(pred_probs, "columns", None)
    return None if columns is None else list(columns)


def order_columns(names: Sequence[Any], classes: np.ndarray) -> np.ndarray:
    """Return the column of each class, by the columns' names.

    Names may share a prefix, as in ``p_cat`` and ``p_dog``. Numbers from 0 that are no classes
    stand for the sorted classes.

    >>> order_columns(["p_dog", "p_cat"], np.array(["cat", "dog"]))
    array([1, 0])
    """
    readings = _readings(names)
    for reading in readings:
        places = _by_name(reading, classes)
        if places is not None:
            return places
    numbers = [str(k) for k in range(len(classes))]
    if any(list(map(str, reading)) == numbers for reading in readings):
        return np.arange(len(classes))
    some = ", ".join(map(repr, list(names)[:4]))
    raise InputError(
        f"The columns of probabilities ({some}{', ...' * (len(names) > 4)}) do not name the class "
        f"{_first_missing(readings, classes)!r}. Name every column like its class, or say with "
        "classes= which column is which."
    )


def _readings(names: Sequence[Any]) -> list[list[Any]]:
    """Return the names as they are, and without each of the prefixes that all of them share."""
    readings = [list(names)]
    if all(isinstance(name, str) for name in names):
        shortest = min(map(len, names))
        for length in range(1, shortest):
            if len({name[:length] for name in names}) > 1:
                break
            readings.append([name[length:] for name in names])
    return readings


def _by_name(names: list[Any], classes: np.ndarray) -> np.ndarray | None:
    """Return the position of each class among `names`; None unless each is there once."""
    place = places_in(classes, np.array(names))
    column = np.full(len(classes), -1)
    column[place[place >= 0]] = np.flatnonzero(place >= 0)
    once = np.bincount(place[place >= 0], minlength=len(classes))
    return column if (once == 1).all() else None


def _first_missing(readings: list[list[Any]], classes: np.ndarray) -> Any:
    """Return the first class without a column, in the reading that leaves out the fewest."""
    places = [places_in(classes, np.array(reading)) for reading in readings]
    best = max(places, key=lambda place: len(np.unique(place[place >= 0])))
    return next(c for k, c in enumerate(classes.tolist()) if (best == k).sum() != 1)


def _as_matrix(values: np.ndarray) -> np.ndarray:
    """Return numbers with two axes, in double precision."""
    if values.ndim != 2:
        raise InputError(
            f"pred_probs must have two dimensions (rows, classes), got shape {values.shape}."
        )
    if values.dtype.kind not in "fiub":
        raise InputError(f"pred_probs must hold numbers, got {values.dtype}.")
    if not len(values):
        raise InputError("pred_probs has no rows.")
    return values.astype(np.float64)


def _check_values(shown: np.ndarray) -> None:
    """Raise with what the numbers are, if they are no probabilities."""
    bad = np.flatnonzero(~np.isfinite(shown).all(axis=1))
    if bad.size:
        raise InputError(f"pred_probs holds NaN or inf in {name_rows(bad)}. Drop these rows.")
    total = shown.sum(axis=1)
    if (shown <= 0).all() and np.allclose(np.exp(shown).sum(axis=1), 1.0, atol=_TOLERANCE):
        raise InputError("pred_probs holds log-probabilities. Pass np.exp(pred_probs).")
    negative = np.flatnonzero((shown < 0).any(axis=1))
    if negative.size:
        raise InputError(
            f"pred_probs must not be negative, got {shown[negative[0]].min():g} in row "
            f"{negative[0]}. Logits become probabilities by scipy.special.softmax(logits, axis=1)."
        )
    off = np.flatnonzero(np.abs(total - 1.0) > _TOLERANCE)
    if off.size:
        if np.allclose(total, 100.0, atol=1.0):
            raise InputError("pred_probs holds percentages. Divide by 100.")
        raise InputError(
            f"Every row of pred_probs must sum to 1; row {off[0]} sums to {total[off[0]]:g}. "
            "Logits become probabilities by scipy.special.softmax(logits, axis=1); outputs of one "
            "sigmoid per class are no probabilities of classes that exclude each other."
        )
