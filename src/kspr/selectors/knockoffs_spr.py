"""Knockoffs-SPR: keep the samples whose labels beat a knockoff, at an error rate of choice."""

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core._arrays import like, to_numpy
from kspr.core.cutoffs import LEVELS, best_half, cut_at, cut_smallest, theorem_factor
from kspr.core.knockoffs import STATISTICS, random_labels
from kspr.core.procedure import Procedure, judge
from kspr.core.regression import STEPS
from kspr.core.splitting import Pieces
from kspr.errors import InputError
from kspr.selectors._base import BaseSelector, Prepared
from kspr.selectors._engines import run, side_by_side
from kspr.selectors._pieces import (
    Plan,
    Verdicts,
    collect,
    number_cells,
    reduced_batch,
)
from kspr.selectors._validation import Labels, check_choice, check_rate, check_scores
from kspr.selectors.selection import Cells, Selection, cells_at_fixed_level

__all__ = ["KnockoffsSPR"]


class KnockoffsSPR(BaseSelector):
    """Keep the samples whose labels can be trusted, at an error rate that you set.

    The data is cut in two. A regression fitted on one half judges the other: each label is
    compared with a knockoff label by how well it fits, and the cut is placed where the
    estimated share of wrong labels among the kept ones, the False-Selection-Rate, meets `q`.

    The estimate holds if, for a wrong label, winning or losing that comparison does not depend
    on how well the label fits. On real features this is an approximation; see
    ``docs/defaults.md`` for what was measured.

    Parameters
    ----------
    q
        The error rate: at most this share of the kept labels should be wrong.
    level
        ``"fixed"`` keeps nothing in a cell that cannot reach `q`. ``"smallest"`` is the paper's
        rule: take the first of 0.02, 0.04, ... 0.5 from `q` on that can be reached, and keep the
        better half of a cell where none can; raised and fallen-back cells say so.
    penalty
        ``"group"`` lets a sample's shifts enter together, ``"lasso"`` one by one.
    reduction
        Number of principal components; ``"classes"`` for as many as a piece has classes; None
        to use the features as they are; or a fitted transformer.
    pca_solver
        ``"auto"``, ``"exact"`` or ``"randomised"``.
    fit_intercept
        Whether the regression has an intercept.
    classes_per_group, samples_per_class
        How the data is split into pieces, most similar classes together; None, for either,
        leaves it whole.
    first_step
        How a half is fitted: on what SPR keeps of it (``"spr"``), or as it is
        (``"least_squares"``).
    clean_ratio
        Share of each class that SPR keeps in the first step.
    knockoff
        What a label is compared with: the ``"most_confident"`` other class by `scores`, or by the
        fit on the other half; a ``"random"`` other class; or ``"given"`` labels.
    statistic
        ``"asymmetric"``, ``"symmetric_max"`` or ``"symmetric_min"``.
    cut
        One cut-off per class (``"per_class"``), or one per half (``"pooled"``).
    bound
        ``"plain"`` takes `q` as it is; ``"theorem"`` multiplies it by Theorem 2's factor.
    kappa
        The theorem's least chance that a wrong label loses to a right knockoff; None for its
        worst case, which needs more than two classes.
    min_class_size
        Smallest class that is accepted. Note that a cell of m samples cannot reach a level below
        ``1 / m``.
    random_state
        Seed of splits and random knockoffs. The answer depends on it and on nothing else.
    engine, n_jobs
        Who solves the pieces: ``"serial"``, ``"threads"`` or ``"processes"``, and how many.
    progress
        True, False, or ``"auto"``: a bar on a terminal when it takes more than two seconds.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> y[:5] = 9 - y[:5]
    >>> selection = KnockoffsSPR(q=0.05).fit(X, y).selection_
    >>> selection.clean_mask[:5].any()
    np.False_
    >>> print(selection)  # doctest: +ELLIPSIS
    KnockoffsSPR: ... of 1,797 labels kept (...) at q = 0.05
    10 classes in 20 cells: 20 controlled
    """

    def __init__(
        self,
        q: float = 0.05,
        *,
        level: Literal["fixed", "smallest"] = "fixed",
        penalty: Literal["group", "lasso"] = "group",
        reduction: Any = 128,
        pca_solver: Literal["auto", "exact", "randomised"] = "auto",
        fit_intercept: bool = True,
        classes_per_group: int | None = None,
        samples_per_class: int | None = None,
        first_step: Literal["spr", "least_squares"] = "spr",
        clean_ratio: float = 0.5,
        knockoff: Literal["most_confident", "random", "given"] = "most_confident",
        statistic: Literal["asymmetric", "symmetric_max", "symmetric_min"] = "asymmetric",
        cut: Literal["per_class", "pooled"] = "per_class",
        bound: Literal["plain", "theorem"] = "plain",
        kappa: float | None = None,
        min_class_size: int = 2,
        random_state: Any = 0,
        engine: Literal["serial", "threads", "processes"] = "threads",
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.q = q
        self.level = level
        self.penalty = penalty
        self.reduction = reduction
        self.pca_solver = pca_solver
        self.fit_intercept = fit_intercept
        self.classes_per_group = classes_per_group
        self.samples_per_class = samples_per_class
        self.first_step = first_step
        self.clean_ratio = clean_ratio
        self.knockoff = knockoff
        self.statistic = statistic
        self.cut = cut
        self.bound = bound
        self.kappa = kappa
        self.min_class_size = min_class_size
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.progress = progress

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the method as the paper describes it, with any parameters changed.

        >>> KnockoffsSPR.paper().samples_per_class
        75
        """
        choices = {
            "q": 0.02,
            "level": "smallest",
            "penalty": "group",
            "reduction": "classes",
            "fit_intercept": False,
            "classes_per_group": 10,
            "samples_per_class": 75,
            "first_step": "spr",
            "clean_ratio": 0.5,
            "knockoff": "most_confident",
            "statistic": "asymmetric",
            "cut": "per_class",
            "bound": "plain",
        }
        return cls(**{**choices, **changes})

    def fit(
        self,
        X: Any,
        y: Any,
        scores: Any = None,
        *,
        knockoff_labels: Any = None,
        clean_mask: Any = None,
    ) -> Self:
        """Judge every sample; the answer is in ``selection_``.

        `scores`, one column per class in sorted order, choose the most confident knockoff (for
        example a network's outputs). `knockoff_labels` go with ``knockoff="given"``.
        `clean_mask`, an earlier selection, sharpens the prototypes by which classes are grouped.
        """
        self._check_parameters()
        procedure = self._procedure(
            first_step=self.first_step, statistic=STATISTICS[self.statistic]
        )
        prepared = self._prepare(X, y, procedure, clean_mask)
        labels = prepared.labels
        if scores is not None:
            scores = check_scores(scores, len(labels.codes), len(labels.classes))
        given = self._knockoff_codes(labels, knockoff_labels)
        verdicts = self._judge(prepared, procedure, scores, given)
        self.classes_ = labels.classes
        self.selection_ = self._select(prepared, verdicts)
        return self

    def _check_parameters(self) -> None:
        self._check_common()
        check_rate("q", self.q)
        check_choice("level", self.level, ("fixed", "smallest"))
        check_choice("first_step", self.first_step, ("spr", "least_squares"))
        check_choice("knockoff", self.knockoff, ("most_confident", "random", "given"))
        check_choice("statistic", self.statistic, STATISTICS)
        check_choice("bound", self.bound, ("plain", "theorem"))
        if self.kappa is not None:
            check_rate("kappa", self.kappa)

    def _knockoff_codes(self, labels: Labels, given: Any) -> np.ndarray | None:
        """Return the knockoff labels that the caller brings, as codes."""
        if (self.knockoff == "given") != (given is not None):
            raise InputError(
                "knockoff_labels and knockoff='given' go together: pass both or neither "
                f"(knockoff is {self.knockoff!r})."
            )
        if given is None:
            return None
        codes = labels.encode(given, "knockoff_labels")
        same = np.flatnonzero(codes == labels.codes)
        if same.size:
            raise InputError(
                f"knockoff_labels must differ from y; they agree in {same.size} rows, the first is "
                f"row {same[0]}."
            )
        return codes

    def _judge(
        self, prepared: Prepared, procedure: Procedure, scores: Any, given: np.ndarray | None
    ) -> Verdicts:
        """Run Alg. 1 on every piece."""
        labels, plan = prepared.labels, prepared.plan
        draws = prepared.rng.random(len(labels.codes)) if self.knockoff == "random" else None
        single = len(plan.batches) == 1
        total = STEPS if single else len(plan.batches)
        with Progress(self.progress, "Knockoffs-SPR", total) as progress:
            work = partial(
                _solve,
                plan=plan,
                procedure=procedure,
                scores=scores,
                given=given,
                draws=draws,
                tick=progress.advance if single else None,
            )
            results = run(
                work, plan.batches, engine=self.engine, n_jobs=self.n_jobs, progress=progress
            )
        return collect(len(labels.codes), results)

    def _select(self, prepared: Prepared, verdicts: Verdicts) -> Selection:
        """Cut every cell at its level."""
        labels, found = prepared.labels, verdicts.values
        W = found["W"]
        cell, table = number_cells(
            verdicts.piece, verdicts.half, labels.codes, pooled=self.cut == "pooled"
        )
        cells = _uncut(table, cell, self._factors(prepared.plan)[table[:, 0]])
        if self.level == "fixed":
            cut = cut_at(W, cell, len(cells), self.q * cells.factor)
            keep, cells = cut.keep, cells_at_fixed_level(cells, cell, cut, self.q)
        else:
            keep, cells = _smallest_level(W, cell, cells, self.q)
        return Selection(
            label=labels.values,
            clean_mask=keep,
            statistic=W,
            selection_time=found["Z"],
            knockoff_label=labels.classes[found["knockoff"]],
            suggested_label=labels.classes[found["suggested"]],
            cell=cell,
            cells=cells,
            classes=labels.classes,
            manifest=self._manifest(prepared),
        )

    def _factors(self, plan: Plan) -> np.ndarray:
        """Return what the bound multiplies q by, piece by piece."""
        sizes = [pieces.classes.shape[1] for _, pieces in plan.batches]
        counts = [pieces.n_pieces for _, pieces in plan.batches]
        if self.bound == "plain":
            return np.ones(sum(counts))
        factor = {size: theorem_factor(size, self.kappa) for size in set(sizes)}
        return np.repeat([factor[size] for size in sizes], counts)


def _solve(
    batch: tuple[int, Pieces],
    *,
    plan: Plan,
    procedure: Procedure,
    scores: Any,
    given: np.ndarray | None,
    draws: np.ndarray | None,
    tick: Any,
) -> tuple[int, Pieces, dict[str, Any]]:
    """Judge one batch; labels come back as codes."""
    first, pieces = batch
    n_classes = pieces.classes.shape[1]
    knockoff = None
    if given is not None:
        knockoff = _positions(pieces, given)
    elif draws is not None:
        knockoff = random_labels(pieces.label, n_classes, draws[pieces.index])
    shown = None
    if scores is not None:
        index, columns = like(pieces.index, scores), like(pieces.classes, scores)
        shown = scores[index[..., None], columns[:, None, None, :]]
    result = judge(
        reduced_batch(plan, pieces),
        pieces.label,
        pieces.valid,
        n_classes,
        procedure,
        scores=shown,
        knockoff=knockoff,
        conditioned=plan.projection is not None,
        on_step=tick,
        each=map if tick is None else side_by_side,  # only a lone batch ticks, and has all cores
    )
    answer = {"Z": result.Z, "W": result.W}
    for name in ("knockoff", "suggested"):
        position = to_numpy(getattr(result, name)).reshape(pieces.n_pieces, -1)
        code = np.take_along_axis(pieces.classes, position, axis=1)
        answer[name] = code.reshape(pieces.index.shape)
    return first, pieces, answer


def _positions(pieces: Pieces, codes: np.ndarray) -> np.ndarray:
    """Return where the given knockoff labels stand among the classes of their piece."""
    n_pieces, width = pieces.classes.shape
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
    return position


def _uncut(table: np.ndarray, cell: np.ndarray, factor: np.ndarray) -> Cells:
    """Return the cells before anything is known of them but their size."""
    unknown = np.full(len(table), np.nan)
    n = np.bincount(cell, minlength=len(table))
    return Cells(
        piece=table[:, 0],
        half=table[:, 1],
        class_code=table[:, 2],
        n=n,
        n_kept=np.zeros_like(n),
        q_asked=unknown,
        q_reached=unknown,
        estimated_fsr=unknown,
        smallest_q=unknown,
        cutoff=unknown,
        status=np.full(len(table), "empty"),
        factor=factor,
    )


def _smallest_level(
    W: np.ndarray, cell: np.ndarray, cells: Cells, q: float
) -> tuple[np.ndarray, Cells]:
    """Apply the paper's rule: the first level that can be reached, else the better half."""
    levels = np.concatenate([[q], LEVELS[q < LEVELS]])
    cut = cut_smallest(W, cell, len(cells), cells.factor, levels)
    fallback = np.isnan(cut.level)
    keep = cut.keep | (best_half(W, cell, len(cells)) & fallback[cell])
    status = np.where(fallback, "fallback", np.where(cut.level > q, "raised", "controlled"))
    return keep, replace(
        cells,
        n_kept=np.bincount(cell[keep], minlength=len(cells)),
        q_asked=np.full(len(cells), q),
        q_reached=cut.level,
        estimated_fsr=cut.estimate / cells.factor,
        smallest_q=cut.smallest / cells.factor,
        cutoff=cut.T,
        status=status,
    )
