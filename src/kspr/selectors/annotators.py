"""Several labels a row: their consensus, how good each annotator is, and which rows to trust.

Labels come as users have them: a table with gaps, or one line per label.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, get_args

import numpy as np
from sklearn.utils import _safe_indexing

from kspr._progress import ProgressMode
from kspr._text import text_table
from kspr.core.arrays import reachable, to_numpy
from kspr.core.dawid_skene import Consensus, Votes, dawid_skene, find_consensus
from kspr.core.labels import encode_labels, missing_labels
from kspr.core.regression import closed_form_times
from kspr.core.transition import wilson_interval
from kspr.errors import InputError
from kspr.selectors.base import BaseSelector
from kspr.selectors.cut_groups import cut_apart, cut_by_class
from kspr.selectors.held_out import HeldOut, held_out_values
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.options import CutName
from kspr.selectors.provenance import NoiseEstimate
from kspr.selectors.selection import Selection
from kspr.selectors.validation import check_choice, check_rate

_SHOWN = 10
"""Annotators that a table shows: those with the lowest accuracy."""


@dataclass(frozen=True, eq=False)
class Crowd:
    """Labels of several annotators, as codes, and what the codes stand for."""

    votes: Votes
    annotators: np.ndarray
    """Names of the annotators: of the columns, or as a long table has them."""
    classes: np.ndarray
    """The distinct labels, sorted."""


@dataclass(frozen=True, eq=False, repr=False)
class Annotators:
    """How good each annotator is. Printing it gives a table, the worst first."""

    name: np.ndarray
    n_labels: np.ndarray
    """How many labels each has given."""
    accuracy: np.ndarray
    """Estimated share of these that are right."""
    low: np.ndarray
    """Lower end of an interval of 95 % for `accuracy`."""
    high: np.ndarray
    """Upper end."""

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong labels among all that were given."""
        return 1.0 - float(np.average(self.accuracy, weights=self.n_labels))

    def __len__(self) -> int:
        return len(self.name)

    def __repr__(self) -> str:
        worst = np.argsort(self.accuracy, kind="stable")[:_SHOWN]
        rows = [
            [
                str(self.name[k]),
                f"{self.n_labels[k]:,}",
                f"{self.accuracy[k]:.1%}",
                f"{self.low[k]:.1%} to {self.high[k]:.1%}",
            ]
            for k in worst
        ]
        left = len(self) - len(worst)
        more = f"\nand {left:,} more, with a higher accuracy" if left else ""
        return text_table(["annotator", "labels", "right", "95 %"], rows) + more


@dataclass(eq=False, repr=False)
class AnnotatorSelector(BaseSelector):
    """Find the consensus of several annotators, and keep the rows where it can be trusted.

    What a row looks like, judged by a fit that has seen none of its labels, tells its class and
    where people err; each annotator errs more or less often than others. People also err together
    where no feature shows it. So the chances are made less sure, until the labels of a row predict
    each other as well as they can; and the less their evidence is worth, the more counts what the
    consensus would be worth as the labels of one person. Errors that most annotators share cannot
    be seen so: a hundred checked rows show them (`Selection.with_checks`).

    Parameters
    ----------
    q
        The error rate: the largest share of wrong consensus labels among the kept ones. An
        estimate, which rests on the assumption in ``selection_.assumption``.
    cut
        ``"pooled"`` holds `q` over all classes together, ``"per_class"`` in every class.
    reduction, duplicates
        Of the features, as for `KnockoffsSPR`.
    random_state
        Seed of the split into halves. The answer depends on it and on nothing else.
    n_jobs, progress
        As for `KnockoffsSPR`.

    Attributes
    ----------
    selection_ : Selection
        Which rows are kept, and the others in order. Its labels are the consensus; its doubt
        is the chance that the consensus is wrong.
    annotators_ : Annotators
        Accuracy of each annotator, with an interval.
    classes_ : numpy.ndarray
        All labels that were given, sorted.
    probabilities_ : numpy.ndarray of shape (n_samples, n_classes)
        Chance of each of these to be the true label.
    evidence_weight_ : float
        What the evidence of the model was found to be worth: 1 where annotators err independently,
        less where they err together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from kspr.noise import symmetric
    >>> X, y_true = load_digits(return_X_y=True)
    >>> y = np.column_stack([symmetric(y_true, rate, seed=k) for k, rate in enumerate((0.1, 0.3))])
    >>> y[::2, 1] = -1  # the second annotator has seen half of the rows
    >>> model = AnnotatorSelector(q=0.05).fit(X, y)
    >>> bool((model.selection_.label == y_true).mean() > 0.95)
    True
    >>> model.annotators_.n_labels
    array([1797,  898])
    >>> bool(model.annotators_.accuracy[0] > 0.85 > model.annotators_.accuracy[1])
    True
    """

    q: float = 0.05
    _: KW_ONLY
    cut: CutName = "pooled"
    reduction: Any = "auto"
    duplicates: Any = "together"
    random_state: Any = 0
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Find the consensus of every row; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix or torch.Tensor of shape (n_samples, n_features)
            Features.
        y : array-like or data frame of shape (n_samples, n_annotators), or tuple
            The labels that each annotator gave, of any type. Gaps are None, NaN, an empty text, or
            -1 among whole numbers. Or a long table: a tuple of row numbers, annotators and labels,
            one entry per label. Some rows need two labels.
        groups : array-like of shape (n_samples,), optional
            Which rows belong together, as for `KnockoffsSPR.fit`.

        Returns
        -------
        self : AnnotatorSelector
            The fitted selector.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> X, y_true = load_digits(return_X_y=True)
        >>> rows = np.repeat(np.arange(len(X)), 2)
        >>> who = np.tile(["ann", "bob"], len(X))
        >>> model = AnnotatorSelector(q=0.05).fit(X, (rows, who, y_true[rows]))
        >>> model.annotators_.name
        array(['ann', 'bob'], dtype='<U3')
        """
        check_rate("q", self.q)
        check_choice("cut", self.cut, get_args(CutName))
        crowd = read_votes(y, len(X) if hasattr(X, "__len__") else X.shape[0])
        # Labels alone: what a row looks like must not have a part in what is fitted to its look.
        first = dawid_skene(crowd.votes).chance.argmax(axis=1)
        fit = KnockoffsSPR(
            self.q,
            reduction=self.reduction,
            duplicates=self.duplicates,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            progress=self.progress,
            # A class that wins a single row is no reason to stop.
            min_class_size=1,
        )
        held_out = held_out_values(fit, X, crowd.classes[first], groups=groups)
        # A class that no row has is no class of the consensus.
        place = np.searchsorted(crowd.classes, held_out.classes)
        consensus = find_consensus(crowd.votes, first, held_out.values, place)
        self.n_features_in_ = held_out.shape[1]
        self.classes_ = crowd.classes
        self.probabilities_, independent = np.zeros((2, len(first), len(crowd.classes)))
        self.probabilities_[:, place] = consensus.chance
        independent[:, place] = consensus.independent
        self.evidence_weight_ = consensus.evidence_weight
        # Together, annotators are one person, which says nothing of each.
        self.annotators_ = _annotators(crowd, independent)
        selection = self._select(crowd, consensus, held_out)
        self.selection_ = cut_apart(selection, self.q).at(self.q)
        return self

    def fit_resample(self, X: Any, y: Any, **fit_params: Any) -> tuple[Any, Any]:
        """Fit, and return the kept rows of `X`, and their consensus labels.

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
        selection = self.fit(X, y, **fit_params).selection_
        self.sample_indices_ = selection.clean_indices
        return _safe_indexing(X, self.sample_indices_), selection.label[self.sample_indices_]

    def _select(self, crowd: Crowd, consensus: Consensus, held_out: HeldOut) -> Selection:
        """Return the selection before it is cut: every row with its level."""
        # Nor is a class that wins by labels alone one of the selection.
        won, code = np.unique(consensus.chance.argmax(axis=1), return_inverse=True)
        classes, doubt = held_out.classes[won], 1.0 - consensus.chance.max(axis=1)
        own = np.arange(len(code)), won[code]
        ends = [1.0 - chance[own] for chance in (consensus.independent, consensus.together)]
        cut_group, table = cut_by_class(code, len(classes), pooled=self.cut == "pooled")
        level = np.empty(len(code))
        for k in range(len(table)):
            rows = cut_group == k
            level[rows] = _levels(doubt[rows])
        return Selection.uncut(
            code,
            classes,
            cut_group=cut_group,
            table=table,
            q_value=level,
            doubt=doubt,
            selection_time=closed_form_times(consensus.chance[:, won], code),
            suggested_code=code,
            suggestion_probability=1.0 - doubt,
            doubt_by_class=ends[0].astype(np.float32),
            doubt_by_people=ends[1].astype(np.float32),
            manifest=self._manifest(
                held_out.shape,
                held_out.seed,
                held_out.content,
                _in_texts(crowd),
                control="annotators",
            ),
            noise=_noise(consensus.chance[:, won], code, classes, ends),
        )


def _in_texts(crowd: Crowd) -> np.ndarray:
    """Return all labels with their rows and annotators as texts, for the fingerprint."""
    votes = crowd.votes
    order = np.lexsort((votes.annotator, votes.row))
    given = zip(
        votes.row[order].tolist(),
        crowd.annotators[votes.annotator[order]].tolist(),
        crowd.classes[votes.label[order]].tolist(),
        strict=True,
    )
    return np.array(list(map(str, given)))


def _levels(doubt: np.ndarray) -> np.ndarray:
    """Return the smallest level at which each row is kept, the surest first."""
    ordered = np.sort(doubt)
    # Rows of equal doubt are kept together.
    last = np.searchsorted(ordered, ordered, side="right") - 1
    estimate = ((1.0 + np.cumsum(ordered)) / np.arange(1, len(ordered) + 1))[last]
    return np.asarray(np.minimum(reachable(estimate), 1.0)[np.searchsorted(ordered, doubt)])


def _annotators(crowd: Crowd, chance: np.ndarray) -> Annotators:
    votes, count = crowd.votes, len(crowd.annotators)
    right = chance[votes.row, votes.label]
    n_labels = np.bincount(votes.annotator, minlength=count)
    n_right = np.bincount(votes.annotator, weights=right, minlength=count)
    low, high = wilson_interval(n_right, n_labels)
    return Annotators(crowd.annotators, n_labels, n_right / n_labels, low, high)


def _noise(
    chance: np.ndarray, code: np.ndarray, classes: np.ndarray, ends: list[np.ndarray]
) -> NoiseEstimate:
    """Return how the consensus goes wrong, as far as the chances know it."""
    counts = np.stack([chance[code == k].sum(axis=0) for k in range(len(classes))], axis=1)
    total = np.maximum(counts.sum(axis=1), 1e-9)
    low, high = wilson_interval(counts, total[:, None])
    rates = sorted(float(end.mean()) for end in ends)
    return NoiseEstimate(
        rate=float(np.mean(1.0 - chance[np.arange(len(code)), code])),
        rate_interval=(rates[0], rates[1]),
        transition=counts / total[:, None],
        low=low,
        high=high,
        anchors=np.rint(total).astype(np.int64),
        classes=classes,
    )


def read_votes(y: Any, n_rows: int) -> Crowd:
    """Return the labels `y` of `n_rows` rows; raise `InputError` if the truth cannot be found.

    `y` is a table with one column per annotator, or a tuple (row numbers, annotators, labels).
    Where two labels of a row are nowhere given, nothing tells errors from the truth.
    """
    if isinstance(y, tuple):
        row, annotator, label = _from_lines(y, n_rows)
        given = encode_labels(annotator, "annotators")
        annotators, annotator = given.classes, given.codes
    else:
        row, annotator, label, annotators = _from_table(y, n_rows)
    labels = encode_labels(label, "y")
    _check(row, annotator, annotators, n_rows)
    votes = Votes(row, annotator, labels.codes, n_rows, len(labels.classes))
    return Crowd(votes, annotators, labels.classes)


def _from_table(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    table = to_numpy(y)
    if table.ndim != 2:
        raise InputError(
            f"y must have one column per annotator, got an array of shape {table.shape}. For one "
            "label a row, use KnockoffsSPR."
        )
    if len(table) != n_rows:
        raise InputError(f"X has {n_rows} rows but y has {len(table)}.")
    names = getattr(y, "columns", None)
    annotators = np.arange(table.shape[1]) if names is None else np.array(list(names))
    row, annotator = np.divmod(np.flatnonzero(_given(table.ravel())), table.shape[1])
    return row, annotator, _plain(table[row, annotator]), annotators


def _from_lines(y: tuple[Any, ...], n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if len(y) != 3 or len({len(part) for part in y}) > 1:
        raise InputError(
            "A tuple y must hold three columns of one length: row numbers, annotators and labels."
        )
    row, annotator, label = (to_numpy(part) for part in y)
    if row.dtype.kind not in "iu" or (row < 0).any() or (row >= n_rows).any():
        raise InputError(f"The row numbers in y must be whole numbers from 0 to {n_rows - 1}.")
    given = _given(label)
    return row[given].astype(np.int64), annotator[given], _plain(label[given])


def _given(values: np.ndarray) -> np.ndarray:
    """Return which entries are labels: not None or NaN, no empty text, no -1 among numbers."""
    given = np.ones(len(values), dtype=bool)
    given[missing_labels(values)] = False
    if values.dtype.kind == "i":
        given &= values != -1
    elif values.dtype.kind == "U":
        given &= values != ""
    elif values.dtype.kind == "O":
        given &= np.array([not (isinstance(value, str) and value == "") for value in values])
    return given


def _plain(values: np.ndarray) -> np.ndarray:
    """Return labels in the type that they would have without gaps."""
    if values.dtype.kind == "O":
        return np.array(values.tolist())
    # NaN for a gap turns whole numbers into floats.
    if values.dtype.kind == "f" and (values == np.rint(values)).all():
        return values.astype(np.int64)
    return values


def _check(row: np.ndarray, annotator: np.ndarray, annotators: np.ndarray, n_rows: int) -> None:
    per_row = np.bincount(row, minlength=n_rows)
    if not per_row.all():
        empty = np.flatnonzero(per_row == 0)
        raise InputError(
            f"{len(empty):,} rows have no label of any annotator, the first is row {empty[0]}. "
            "Leave these rows out."
        )
    silent = np.flatnonzero(np.bincount(annotator, minlength=len(annotators)) == 0)
    if silent.size:
        raise InputError(
            f"Annotator {annotators[silent[0]]!s} has given no label. Leave the column out."
        )
    order = np.lexsort((annotator, row))
    twice = (np.diff(row[order]) == 0) & (np.diff(annotator[order]) == 0)
    if twice.any():
        at = order[np.flatnonzero(twice)[0]]
        raise InputError(
            f"Annotator {annotators[annotator[at]]!s} has labelled row {row[at]} twice. Keep one "
            "label."
        )
    if per_row.max() < 2:
        raise InputError(
            "No row has labels of two annotators, so that nothing tells their errors from the "
            "truth. Use KnockoffsSPR on the labels, or have some rows labelled twice."
        )
