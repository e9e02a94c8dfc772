"""The procedures of the paper: SPR, and knockoff labels with the count of labels that lose."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np

from kspr.core.arrays import rank_within
from kspr.core.labels import Labels, codes_in, name_rows
from kspr.core.paper.knockoffs import (
    LEVELS,
    STATISTICS,
    best_half,
    first_level,
    q_values,
    random_labels,
    theorem_factor,
)
from kspr.core.paper.pieces import Pieces
from kspr.core.paper.procedure import Procedure, judge, spr_times
from kspr.errors import InputError
from kspr.selectors.cut_groups import recut
from kspr.selectors.options import CutName, KnockoffName, StatisticName
from kspr.selectors.pieces import Answer, PieceSelector, SplitData, cut_by_piece
from kspr.selectors.selection import Selection
from kspr.selectors.validation import check_choice, check_rate, on_host


@dataclass(eq=False, repr=False)
class PaperKnockoffsSPR(PieceSelector):
    """Keep the samples whose labels beat their knockoff, as the paper does.

    The data is split into pieces of ten similar classes with 75 samples each, and each piece into
    two halves. What SPR keeps of one half is fitted by least squares, and compares each label of
    the other half with its knockoff label. The cut-off is set where the count of labels that lose
    to their knockoff, beyond it, is at most the share `q` of those that win. On real features and
    under heavy noise that count is too low: see ``docs/error-rate.md``, and use `KnockoffsSPR`.

    Parameters
    ----------
    q
        The error rate: the largest share of wrong labels among the kept ones, as the paper's
        estimate counts them.
    control
        ``"paper"`` cuts at Eq. T. ``"theorem"`` is the same at the smaller level of Theorem 2.
    level
        What to do where `q` cannot be reached. ``"smallest"`` is the paper's rule: take the first
        of 0.02, 0.04, ... 0.5 from `q` on that can be reached, and keep the better half of the cut
        group where none can; `Selection.cut_groups` marks such groups. ``"fixed"`` keeps nothing in
        such a group.
    penalty
        ``"group"`` penalises a sample's mean shifts together, ``"lasso"`` one by one.
    reduction
        Principal components of a piece: ``"classes"`` for as many as it has classes, a number, None
        for all columns as they are, or a fitted transformer. With None, a half that has no more
        rows than columns tells nothing about its labels: no mean shift ever enters, all rows of
        the half tie, and the fit is that of least norm to a random share of them.
    fit_intercept
        Whether the regression has an intercept.
    classes_per_group, samples_per_class
        How the data is split into pieces, most similar classes together. None, for either, does
        not split.
    first_step
        What a half is fitted on: ``"spr"``, the share `clean_ratio` that SPR keeps, or
        ``"least_squares"``, all of it.
    clean_ratio
        Share of a half, whatever the classes, that SPR keeps: "50% of the data" in the paper.
    knockoff
        The label that a label is compared with: the most confident other class
        (``"most_confident"``) by `scores`, or else by the fit on the other half; a ``"random"``
        other class; or ``"given"`` labels.
    statistic
        ``"asymmetric"``, ``"symmetric_max"`` or ``"symmetric_min"``.
    cut
        ``"per_class"`` cuts every class of a half by itself, ``"pooled"`` all of them together.
    kappa
        For ``control="theorem"``: the least chance that a wrong label loses to a right knockoff.
        None takes the worst case, which needs more than two classes.
    min_class_size
        Smallest class that is accepted. A cut group of m samples cannot reach a level below
        ``1 / m``.
    random_state
        Seed of the split and of random knockoffs. The answer depends on it and on nothing else.
    n_jobs
        Number of workers that solve pieces, as joblib counts them; `joblib.parallel_config` chooses
        what they are.
    progress
        Whether to show a progress bar: True, False, or ``"auto"``, on a terminal when it takes more
        than two seconds.

    Attributes
    ----------
    selection_, classes_, sample_indices_
        As for `KnockoffsSPR`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> y[::10] = 9 - y[::10]
    >>> selection = PaperKnockoffsSPR().fit(X, y).selection_
    >>> bool(selection.clean_mask[::10].mean() < 0.1)
    True
    """

    # The first of the paper's levels, from which "smallest" goes up.
    q: float = 0.02
    _: KW_ONLY
    control: Literal["paper", "theorem"] = "paper"
    level: Literal["smallest", "fixed"] = "smallest"
    reduction: Any = "classes"
    fit_intercept: bool = False
    # Both sizes are from the paper's section "Scalable to Large Dataset".
    classes_per_group: int | None = 10
    samples_per_class: int | None = 75
    first_step: Literal["spr", "least_squares"] = "spr"
    clean_ratio: float = 0.5
    knockoff: KnockoffName = "most_confident"
    statistic: StatisticName = "asymmetric"
    cut: CutName = "per_class"
    kappa: float | None = None

    def fit(
        self,
        X: Any,
        y: Any,
        scores: Any = None,
        *,
        knockoff_labels: Any = None,
        clean_mask: Any = None,
    ) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix or torch.Tensor of shape (n_samples, n_features)
            Features. Tensors are moved to the host.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong.
        scores : array-like of shape (n_samples, n_classes), optional
            Class scores, such as the outputs of a network, one column per class in sorted order.
            They choose the most confident knockoff.
        knockoff_labels : array-like of shape (n_samples,), optional
            The labels to compare with, for ``knockoff="given"``.
        clean_mask : array-like of bool of shape (n_samples,), optional
            An earlier selection. Classes are then grouped by the means of these samples.
        """
        self._check_parameters()
        data = self._split(X, y, clean_mask)
        labels = data.labels
        solve = _Solve(
            data,
            self._procedure(
                fine=True, first_step=self.first_step, statistic=STATISTICS[self.statistic]
            ),
            scores=None if scores is None else _read_scores(scores, labels),
            given=self._knockoff_codes(labels, knockoff_labels),
            draws=data.rng.random(len(labels.codes)) if self.knockoff == "random" else None,
        )
        columns, piece, half = self._solved(data, solve, 1)
        cut_group, table = cut_by_piece(piece, half, labels.codes, pooled=self.cut == "pooled")
        W = columns["W"]
        # Theorem 2 wants an estimate of at most factor * q, so it holds from q = estimate / factor.
        level = q_values(W, cut_group) / self._factors(data)[piece]
        self.classes_ = labels.classes
        selection = Selection.uncut(
            labels.codes,
            labels.classes,
            cut_group=cut_group,
            table=table,
            q_value=level,
            # Labels that lost come after all that won.
            doubt=np.where(W < 0, -W, np.inf),
            selection_time=columns["Z"],
            knockoff_code=columns["knockoff"],
            suggested_code=columns["suggested"],
            manifest=self._manifest(data.features.shape, data.seed, data.content, labels.values),
        )
        self.selection_ = (
            selection.at(self.q) if self.level == "fixed" else _smallest(selection, W, self.q)
        )
        return self

    def _check_parameters(self) -> None:
        self._check_pieces()
        check_rate("q", self.q)
        check_choice("control", self.control, ("paper", "theorem"))
        check_choice("level", self.level, ("smallest", "fixed"))
        check_choice("first_step", self.first_step, ("spr", "least_squares"))
        check_choice("knockoff", self.knockoff, get_args(KnockoffName))
        check_choice("statistic", self.statistic, STATISTICS)
        if self.kappa is not None:
            check_rate("kappa", self.kappa)
            if self.control != "theorem":
                raise InputError(
                    f"kappa={self.kappa} goes with control='theorem', not with {self.control!r}. "
                    "Change either."
                )

    def _factors(self, data: SplitData) -> np.ndarray:
        """Return the factor that Theorem 2 puts on q, one per piece; ones without it."""
        sizes = np.repeat(
            [pieces.classes.shape[1] for pieces in data.batches],
            [pieces.n_pieces for pieces in data.batches],
        )
        if self.control == "paper":
            return np.ones(len(sizes))
        return np.array([theorem_factor(int(size), self.kappa) for size in sizes])

    def _knockoff_codes(self, labels: Labels, given: Any) -> np.ndarray | None:
        """Return the given knockoff labels as codes; None without any."""
        if (self.knockoff == "given") != (given is not None):
            raise InputError(
                "knockoff_labels goes with knockoff='given': pass both or neither, got "
                f"knockoff={self.knockoff!r}."
            )
        if given is None:
            return None
        codes = codes_in(labels.classes, given, "knockoff_labels")
        if len(codes) != len(labels.codes):
            raise InputError(
                f"knockoff_labels must hold one label per row: X has {len(labels.codes)} rows, "
                f"knockoff_labels has {len(codes)}."
            )
        # Z and Z~ would be equal there, W would be 0, and no level could keep the row.
        same = np.flatnonzero(codes == labels.codes)
        if same.size:
            raise InputError(
                f"knockoff_labels must differ from y; they agree in {same.size} rows, the first is "
                f"row {same[0]}."
            )
        return codes


@dataclass(frozen=True)
class _Solve:
    """Judge a batch of pieces; labels are returned as codes."""

    data: SplitData
    procedure: Procedure
    scores: np.ndarray | None
    given: np.ndarray | None
    draws: np.ndarray | None

    def __call__(self, pieces: Pieces, on_step: Callable[[], None] | None) -> Answer:
        del on_step  # A batch of pieces is one step.
        n_classes = pieces.classes.shape[1]
        knockoff = shown = None
        if self.given is not None:
            knockoff = _positions(pieces, self.given)
        elif self.draws is not None:
            # Draws belong to samples: a knockoff does not depend on its batch.
            knockoff = random_labels(pieces.label, n_classes, self.draws[pieces.index])
        if self.scores is not None:
            # (pieces, 2, slots, classes of the piece)
            shown = self.scores[pieces.index[..., None], pieces.classes[:, None, None, :]]
        result = judge(
            self.data.reduced(pieces),
            pieces.label,
            pieces.valid,
            n_classes,
            self.procedure,
            scores=shown,
            knockoff=knockoff,
        )
        answer = {"Z": result.Z, "W": result.W}
        for name, position in (("knockoff", result.knockoff), ("suggested", result.suggested)):
            # From positions in the piece's classes to codes that hold across pieces.
            flat = position.reshape(pieces.n_pieces, -1)
            code = np.take_along_axis(pieces.classes, flat, axis=1)
            answer[name] = code.reshape(pieces.index.shape)
        return answer


def _smallest(selection: Selection, W: np.ndarray, q: float) -> Selection:
    """Apply the paper's rule: the first level that can be reached, else the better half."""
    # q comes first even where it is none of the paper's levels.
    levels = np.concatenate([[q], LEVELS[q < LEVELS]])
    cut_group, q_value = selection.cut_group, selection.q_value
    assert q_value is not None  # noqa: S101 - every sample has a level
    smallest = np.full(len(selection.cut_groups), np.inf)
    np.minimum.at(smallest, cut_group, q_value)
    level = first_level(smallest, levels)
    fallback = np.isnan(level)
    # No q-value is below 0: a group that falls back keeps nothing by its level.
    keep = q_value <= np.where(fallback, -1.0, level)[cut_group]
    keep |= best_half(W, cut_group, len(level)) & fallback[cut_group]
    status = np.where(fallback, "fallback", np.where(level > q, "raised", "assumed"))
    cut_groups = recut(selection, keep, asked=q, level=level, status=status)
    return replace(selection, clean_mask=keep, cut_groups=cut_groups)


def _read_scores(scores: Any, labels: Labels) -> np.ndarray:
    """Return class scores of shape ``(rows, classes)``, columns in the order of the classes."""
    scores = np.asarray(on_host(scores))
    n_rows, n_classes = len(labels.codes), len(labels.classes)
    if scores.shape != (n_rows, n_classes):
        raise InputError(
            f"scores must have one row per sample and one column per class, in sorted class order: "
            f"expected shape ({n_rows}, {n_classes}), got {scores.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if bad.size:
        raise InputError(f"scores hold NaN or inf in {name_rows(bad)}.")
    return np.asarray(scores)


def _positions(pieces: Pieces, codes: np.ndarray) -> np.ndarray:
    """Return the position of each given knockoff label among the classes of its piece."""
    n_pieces, width = pieces.classes.shape
    # (pieces, codes): the position of a class in its piece, -1 where it is not in it.
    lookup = np.full((n_pieces, 1 + max(codes.max(), pieces.classes.max())), -1)
    np.put_along_axis(lookup, pieces.classes, np.arange(width)[None], axis=1)
    wanted = codes[pieces.index].reshape(n_pieces, -1)
    position = np.take_along_axis(lookup, wanted, axis=1).reshape(pieces.index.shape)
    outside = position < 0
    if outside.any():
        raise InputError(
            "knockoff_labels must be in the same group of classes as y, and are not in row "
            f"{pieces.index[outside][0]}. Pass classes_per_group=None."
        )
    return np.asarray(position)


@dataclass(eq=False, repr=False)
class SPR(PieceSelector):
    """Keep a fixed share of the samples, ranked by Scalable Penalised Regression.

    Each sample gets a mean shift of its own in a linear regression of the one-hot labels on the
    features. A wrong label needs its mean shift already at a strong penalty. The share
    `clean_ratio` of samples that need it last is kept. SPR estimates no error rate: how large the
    share is, the user must guess.

    Parameters
    ----------
    clean_ratio
        Share of the samples to keep.
    reduction
        Number of principal components; ``"classes"`` for as many as a piece has classes; None
        for all columns as they are; or a fitted transformer. With None, a piece with no more rows
        than columns tells nothing: all of its rows tie.
    cut
        Keep the share of a piece as a whole (``"pooled"``), as the paper's "50% of the data", or of
        each of its classes (``"per_class"``).
    penalty, fit_intercept, classes_per_group, samples_per_class, ...
        As for `PaperKnockoffsSPR`.

    Attributes
    ----------
    selection_, classes_, sample_indices_
        As for `KnockoffsSPR`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> y[:5] = 9 - y[:5]
    >>> selection = SPR(clean_ratio=0.9).fit(X, y).selection_
    >>> selection
    SPR: 1,6... of 1,797 labels kept (90...%)
    One threshold for all 10 classes; a fixed share is kept, without an error rate
    >>> selection.clean_mask[:5].any()
    np.False_
    """

    clean_ratio: float = 0.5
    _: KW_ONLY
    reduction: Any = 128
    fit_intercept: bool = True
    classes_per_group: int | None = None
    samples_per_class: int | None = None
    cut: CutName = "pooled"

    def fit(self, X: Any, y: Any, *, clean_mask: Any = None) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix or torch.Tensor of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong.
        clean_mask : array-like of bool of shape (n_samples,), optional
            An earlier selection. Classes are then grouped by the means of these samples.
        """
        self._check_pieces()
        data = self._split(X, y, clean_mask)
        codes = data.labels.codes
        # Unsplit data is solved on the coarse grid, which is made for the order of the rows.
        procedure = self._procedure(fine=self.samples_per_class is not None)
        solve = _SolveSPR(data, procedure)
        columns, piece, half = self._solved(data, solve, procedure.steps)
        # SPR fits a piece as a whole, so both of its halves are cut together.
        cut_group, table = cut_by_piece(
            piece, np.zeros_like(half), codes, pooled=self.cut == "pooled"
        )
        Z = columns["Z"]
        rank, n = rank_within(Z, cut_group, len(table))
        # Rounded up, as `keep_smallest` does in the first step of Knockoffs-SPR.
        keep = rank < np.ceil(n * self.clean_ratio)[cut_group]
        selection = Selection.uncut(
            codes,
            data.labels.classes,
            cut_group=cut_group,
            table=table,
            q_value=None,
            doubt=Z,
            selection_time=Z,
            suggested_code=columns["suggested"],
            manifest=self._manifest(
                data.features.shape, data.seed, data.content, data.labels.values
            ),
        )
        cutoff = np.zeros(len(table))
        np.maximum.at(cutoff, cut_group[keep], Z[keep])
        cut_groups = replace(
            selection.cut_groups,
            n_kept=np.bincount(cut_group[keep], minlength=len(table)),
            cutoff=cutoff,
            status=np.full(len(table), "share"),
        )
        self.classes_ = data.labels.classes
        self.selection_ = replace(selection, clean_mask=keep, cut_groups=cut_groups)
        return self


@dataclass(frozen=True)
class _SolveSPR:
    """Return selection times and best classes of a batch of pieces."""

    data: SplitData
    procedure: Procedure

    def __call__(self, pieces: Pieces, on_step: Callable[[], None] | None) -> Answer:
        n_pieces, _, slots = pieces.index.shape
        flat = (n_pieces, 2 * slots)
        Z, best = spr_times(
            self.data.reduced(pieces).reshape(*flat, -1),
            pieces.label.reshape(flat),
            pieces.valid.reshape(flat),
            pieces.classes.shape[1],
            self.procedure,
            on_step=on_step,
        )
        code = np.take_along_axis(pieces.classes, best, axis=1)
        shape = pieces.index.shape
        return {"Z": Z.reshape(shape), "suggested": code.reshape(shape)}
