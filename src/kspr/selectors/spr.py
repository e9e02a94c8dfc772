"""SPR: keep the share of samples that enter the mean-shift model last."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from kspr.core.arrays import rank_within
from kspr.core.paper.pieces import Pieces
from kspr.core.paper.procedure import Procedure, spr_times
from kspr.selectors.options import CutName
from kspr.selectors.pieces import Answer, PieceSelector, SplitData, cut_by_piece
from kspr.selectors.selection import Selection

__all__ = ["SPR"]


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
        solve = _Solve(data, procedure)
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
class _Solve:
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
