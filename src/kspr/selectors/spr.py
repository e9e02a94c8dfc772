"""SPR: keep the share of samples that enter the mean-shift model last."""

from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.arrays import rank_within, to_numpy
from kspr.core.procedure import Procedure, spr_times
from kspr.core.reduction import Solver
from kspr.core.regression import STEPS
from kspr.core.splitting import Pieces
from kspr.selectors._pieces import collect, number_cut_groups
from kspr.selectors._plan import Plan, reduced_batch
from kspr.selectors.base import BaseSelector
from kspr.selectors.cut_groups import CutGroups, uncut
from kspr.selectors.engines import run
from kspr.selectors.options import CutName, EngineName, PenaltyName
from kspr.selectors.selection import Selection

__all__ = ["SPR"]


class SPR(BaseSelector):
    """Keep a fixed share of the samples, ranked by Scalable Penalised Regression.

    Each sample gets a mean shift of its own in a linear regression of the one-hot labels on the
    features. A wrong label needs its mean shift already at a strong penalty. The share
    `clean_ratio` of samples that need it last is kept. SPR estimates no error rate: how large the
    share is, the user must guess.

    Parameters
    ----------
    clean_ratio
        Share of the samples to keep.
    penalty
        ``"group"`` penalises a sample's mean shifts together, ``"lasso"`` one by one.
    reduction
        Number of principal components; ``"classes"`` for as many as a piece has classes; None
        to use the features as they are; or a fitted transformer.
    pca_solver
        ``"auto"``, ``"exact"`` or ``"randomised"``.
    fit_intercept
        Whether the regression has an intercept.
    classes_per_group, samples_per_class
        How the data is split into pieces, most similar classes together. None, for either, does
        not split.
    cut
        Keep the share of each class (``"per_class"``) or of a piece as a whole (``"pooled"``).
    min_class_size
        Smallest class that is accepted.
    random_state
        Seed of the split. The answer depends on it and on nothing else.
    engine, n_jobs
        Where pieces are solved, ``"serial"``, ``"threads"`` or ``"processes"``, and by how many
        workers.
    progress
        Whether to show a progress bar: True, False, or ``"auto"``, on a terminal when it takes more
        than two seconds.

    Attributes
    ----------
    selection_ : Selection
        Which samples are kept, the suspects in order, and a suggested label for each.
    classes_ : numpy.ndarray
        The classes, sorted.
    sample_indices_ : numpy.ndarray
        After `fit_resample`: row numbers of the kept samples.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> y[:5] = 9 - y[:5]
    >>> selection = SPR(clean_ratio=0.9).fit(X, y).selection_
    >>> selection
    SPR: 1,620 of 1,797 labels kept (90.2%)
    10 classes in 10 cut groups: 10 share
    >>> selection.clean_mask[:5].any()
    np.False_
    """

    def __init__(
        self,
        clean_ratio: float = 0.5,
        *,
        penalty: PenaltyName = "group",
        reduction: Any = 128,
        pca_solver: Solver = "auto",
        fit_intercept: bool = True,
        classes_per_group: int | None = None,
        samples_per_class: int | None = None,
        cut: CutName = "per_class",
        min_class_size: int = 2,
        random_state: Any = 0,
        engine: EngineName = "threads",
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.clean_ratio = clean_ratio
        self.penalty = penalty
        self.reduction = reduction
        self.pca_solver = pca_solver
        self.fit_intercept = fit_intercept
        self.classes_per_group = classes_per_group
        self.samples_per_class = samples_per_class
        self.cut = cut
        self.min_class_size = min_class_size
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(self, X: Any, y: Any, scores: Any = None, *, clean_mask: Any = None) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix or torch.Tensor of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong.
        scores
            Not used; `KnockoffsSPR.fit` takes them in the same place.
        clean_mask : array-like of bool of shape (n_samples,), optional
            An earlier selection. Classes are then grouped by the means of these samples.

        Returns
        -------
        self : SPR
            The fitted selector.
        """
        del scores
        self._check_common()
        procedure = self._procedure()
        prepared = next(self._prepared(X, y, procedure, clean_mask))
        labels, plan = prepared.labels, prepared.plan
        single = len(plan.batches) == 1
        with Progress(self.progress, "SPR", STEPS if single else len(plan.batches)) as progress:
            tick = progress.advance if single else None
            results = run(
                partial(_solve, plan=plan, procedure=procedure, tick=tick),
                plan.batches,
                engine=self.engine,
                n_jobs=self.n_jobs,
                progress=progress,
            )
        verdicts = collect(len(labels.codes), results)
        # SPR fits a piece as a whole, so both of its halves are cut together.
        cut_group, table = number_cut_groups(
            verdicts.piece, np.zeros_like(verdicts.half), labels.codes, pooled=self.cut == "pooled"
        )
        Z = verdicts.values["Z"]
        rank, n = rank_within(Z, cut_group, len(table))
        # Rounded up, as `keep_smallest` does in the first step of Knockoffs-SPR.
        keep = rank < np.ceil(n * self.clean_ratio)[cut_group]
        self.classes_ = labels.classes
        self.selection_ = Selection(
            label=labels.values,
            clean_mask=keep,
            q_value=None,
            statistic=Z,
            selection_time=Z,
            knockoff_label=None,
            suggested_label=labels.classes[verdicts.values["suggested"]],
            cut_group=cut_group,
            cut_groups=_cut_groups(table, cut_group, keep, Z),
            classes=labels.classes,
            manifest=self._manifest(prepared),
        )
        return self


def _solve(
    batch: tuple[int, Pieces], *, plan: Plan, procedure: Procedure, tick: Any
) -> tuple[int, Pieces, dict[str, Any]]:
    """Return selection times and best classes of one batch."""
    first, pieces = batch
    n_pieces, _, slots = pieces.index.shape
    flat = (n_pieces, 2 * slots)
    Z, best = spr_times(
        reduced_batch(plan, pieces).reshape(*flat, -1),
        pieces.label.reshape(flat),
        pieces.valid.reshape(flat),
        pieces.classes.shape[1],
        procedure,
        conditioned=plan.projection is not None,
        on_step=tick,
    )
    code = np.take_along_axis(pieces.classes, to_numpy(best), axis=1)
    shape = pieces.index.shape
    return first, pieces, {"Z": Z.reshape(shape), "suggested": code.reshape(shape)}


def _cut_groups(
    table: np.ndarray, cut_group: np.ndarray, keep: np.ndarray, Z: np.ndarray
) -> CutGroups:
    cutoff = np.zeros(len(table))
    np.maximum.at(cutoff, cut_group[keep], Z[keep])
    return replace(
        uncut(table, cut_group),
        n_kept=np.bincount(cut_group[keep], minlength=len(table)),
        cutoff=cutoff,
        status=np.full(len(table), "share"),
    )
