"""Knockoffs-SPR: keep the samples whose labels can be trusted, at an error rate of choice."""

from dataclasses import replace
from functools import partial
from typing import Any, Self, get_args

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.cutoffs import LEVELS
from kspr.core.knockoffs import STATISTICS
from kspr.core.labels import Labels, codes_in
from kspr.core.penalties import PENALTIES
from kspr.core.procedure import FirstStep, Procedure
from kspr.core.reduction import Solver
from kspr.core.regression import STEPS
from kspr.errors import InputError
from kspr.selectors._pieces import Verdicts, collect, solve
from kspr.selectors.base import BaseSelector, Prepared
from kspr.selectors.controls import CONTROLS, Decision, Question, combined
from kspr.selectors.controls.checked import Checked, read_checked
from kspr.selectors.controls.paper import level_factors
from kspr.selectors.cut_groups import uncut, with_fallback
from kspr.selectors.engines import run
from kspr.selectors.options import (
    COMPARING,
    PAPER,
    ControlName,
    CutName,
    EngineName,
    KnockoffName,
    LevelName,
    PenaltyName,
    StatisticName,
)
from kspr.selectors.selection import Selection
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_rate,
    check_scores,
    check_together,
)

__all__ = ["KnockoffsSPR"]

_LEVEL_ENDS = (1e-6, 1 - 1e-6)
"""Levels that a cut can be made at; an estimate may lie on the border."""


class KnockoffsSPR(BaseSelector):
    """Keep the samples whose labels can be trusted, at an error rate that you set.

    The data is cut in two. A regression fitted on one half judges the other: how well does each
    label fit, against all others? The cut is placed where the estimated share of wrong labels
    among the kept ones, the False-Selection-Rate, meets `q`. How that share is estimated, and
    under which assumption, is up to `control`; ``docs/error-rate.md`` shows what each of them
    does on real features.

    Parameters
    ----------
    q
        The error rate: at most this share of the kept labels should be wrong.
    control
        How the error rate is estimated. ``"transition"``: how labels go wrong depends on the true
        class only, and is learned from the clearest samples. ``"exchangeable"``: a wrong label
        is any wrong class with equal chance; keeps less, and nothing below a floor that grows
        with the noise. ``"paper"``: the paper's count of labels that lose to their knockoff, which
        passes `q` under heavy noise. ``"theorem"``: the same at the smaller level of its
        Theorem 2.
    level
        ``"fixed"`` keeps nothing in a cut group that cannot reach `q`. ``"smallest"``, for the
        paper's controls, is the paper's rule: take the first of 0.02, 0.04, ... 0.5 from `q` on
        that can be reached, and keep the better half of a cut group where none can; such groups say
        so. ``"f1"``, for ``control="transition"``, takes the level whose estimated F1 is greatest,
        whatever `q` is: for whoever weighs a lost right label and a kept wrong one alike. It goes
        well with ``cut="pooled"``.
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
    remove_floor
        For ``control="exchangeable"``: take off what wrong labels that meet their true class add
        to the estimate. Needs a noise rate, and so the assumption that the clearest samples of a
        class are of that class.
    n_splits
        Fit this many random splits and combine them through e-values: an answer that hardly
        depends on the seed, at that many times the cost. It keeps less, and near the smallest level
        that can be reached much less: a split that reaches nothing counts too. Levels other than
        `q` are then better fitted than read off.
    confidence
        How sure the error rate shall be when `fit` is given checked rows.
    knockoff
        For the paper's controls, what a label is compared with: the ``"most_confident"`` other
        class by `scores`, or by the fit on the other half; a ``"random"`` other class; or
        ``"given"`` labels.
    statistic
        For the paper's controls: ``"asymmetric"``, ``"symmetric_max"`` or ``"symmetric_min"``.
    cut
        Hold `q` in every class (``"per_class"``), or over all of them (``"pooled"``): that keeps
        more, mostly of the classes that are easy to tell.
    kappa
        For ``control="theorem"``: the least chance that a wrong label loses to a right knockoff;
        None for the worst case, which needs more than two classes.
    min_class_size
        Smallest class that is accepted. A cut group of m samples cannot reach a level below
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
    >>> selection = KnockoffsSPR(q=0.01).fit(X, y).selection_
    >>> selection.clean_mask[:5].any()
    np.False_
    >>> print(selection)  # doctest: +ELLIPSIS
    KnockoffsSPR: ... of 1,797 labels kept (...) at q = 0.01
    10 classes in 10 cut groups: 10 controlled
    """

    def __init__(
        self,
        q: float = 0.05,
        *,
        control: ControlName = "transition",
        level: LevelName = "fixed",
        penalty: PenaltyName = "group",
        reduction: Any = 128,
        pca_solver: Solver = "auto",
        fit_intercept: bool = True,
        classes_per_group: int | None = None,
        samples_per_class: int | None = None,
        first_step: FirstStep = "spr",
        clean_ratio: float = 0.5,
        knockoff: KnockoffName = "most_confident",
        statistic: StatisticName = "asymmetric",
        cut: CutName = "per_class",
        kappa: float | None = None,
        remove_floor: bool = False,
        n_splits: int = 1,
        confidence: float = 0.95,
        min_class_size: int = 2,
        random_state: Any = 0,
        engine: EngineName = "threads",
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.q = q
        self.control = control
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
        self.kappa = kappa
        self.remove_floor = remove_floor
        self.n_splits = n_splits
        self.confidence = confidence
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
        return cls(**{**PAPER, **changes})

    def fit(
        self,
        X: Any,
        y: Any,
        scores: Any = None,
        *,
        knockoff_labels: Any = None,
        clean_mask: Any = None,
        checked: Any = None,
    ) -> Self:
        """Judge every sample; the answer is in ``selection_``.

        `scores`, one column per class in sorted order, choose the most confident knockoff (for
        example a network's outputs). `knockoff_labels` go with ``knockoff="given"``.
        `clean_mask`, an earlier selection, sharpens the prototypes by which classes are grouped.

        `checked` are rows that a person has checked. A pair ``(rows, true labels)``, rows drawn at
        random and right and wrong ones alike, moves the cut to where at most `q` of the kept labels
        are wrong, with `confidence`, whatever the noise is. A mask of rows whose labels are known
        to be right keeps them, and no more: it says nothing of how many others are wrong.
        """
        self._check_parameters()
        procedure = self._procedure(
            first_step=self.first_step, statistic=STATISTICS[self.statistic]
        )
        splits = self._prepared(X, y, procedure, clean_mask, self.n_splits)
        first = next(splits)
        labels = first.labels
        self._check_groups(labels)
        if scores is not None:
            scores = check_scores(scores, len(labels.codes), len(labels.classes))
        given = self._knockoff_codes(labels, knockoff_labels)
        checked = None if checked is None else read_checked(checked, labels, self.confidence)
        verdicts = self._judge(first, procedure, scores, given)
        decisions = [self._decide(first, verdicts)]
        for other in splits:
            decisions.append(self._decide(other, self._judge(other, procedure, scores, given)))
        self.classes_ = labels.classes
        self.selection_ = self._select(first, verdicts, combined(decisions, self.q), checked)
        return self

    def _check_parameters(self) -> None:
        self._check_common()
        check_rate("q", self.q)
        check_rate("confidence", self.confidence)
        check_choice("control", self.control, CONTROLS)
        check_choice("level", self.level, get_args(LevelName))
        check_choice("first_step", self.first_step, get_args(FirstStep))
        check_choice("knockoff", self.knockoff, get_args(KnockoffName))
        check_choice("statistic", self.statistic, STATISTICS)
        check_count("n_splits", self.n_splits, 1)
        if self.kappa is not None:
            check_rate("kappa", self.kappa)
        check_together(self)

    @property
    def _compares(self) -> bool:
        """Whether each label meets one knockoff, as in the paper."""
        return self.control in COMPARING

    def _check_groups(self, labels: Labels) -> None:
        size, found = self.classes_per_group, len(labels.classes)
        if not self._compares and size is not None and size < found:
            raise InputError(
                f"control={self.control!r} must see all {found} classes together, but "
                f"classes_per_group is {size}. Pass classes_per_group=None, or control='paper'."
            )

    def _knockoff_codes(self, labels: Labels, given: Any) -> np.ndarray | None:
        """Return the knockoff labels that the caller brings, as codes."""
        if (self.knockoff == "given") != (given is not None):
            raise InputError(
                "knockoff_labels and knockoff='given' go together: pass both or neither "
                f"(knockoff is {self.knockoff!r})."
            )
        if given is None:
            return None
        codes = codes_in(labels.classes, given, "knockoff_labels")
        if len(codes) != len(labels.codes):
            raise InputError(
                f"knockoff_labels must hold one label per row: X has {len(labels.codes)} rows, "
                f"knockoff_labels has {len(codes)}."
            )
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
                solve,
                plan=plan,
                procedure=procedure,
                scores=scores,
                given=given,
                draws=draws,
                tick=progress.advance if single else None,
                predictions=not self._compares,
            )
            results = run(
                work, plan.batches, engine=self.engine, n_jobs=self.n_jobs, progress=progress
            )
        return collect(len(labels.codes), results)

    def _decide(self, prepared: Prepared, verdicts: Verdicts) -> Decision:
        """Ask the control for the level of every sample."""
        return CONTROLS[self.control](
            Question(
                codes=prepared.labels.codes,
                classes=prepared.labels.classes,
                verdicts=verdicts,
                penalty=PENALTIES[self.penalty],
                pooled=self.cut == "pooled",
                factor=level_factors(prepared.plan, self.control, self.kappa),
                remove_floor=self.remove_floor,
            )
        )

    def _select(
        self, prepared: Prepared, verdicts: Verdicts, decision: Decision, checked: Checked | None
    ) -> Selection:
        """Cut every cut group at its level."""
        labels = prepared.labels
        selection = Selection(
            label=labels.values,
            clean_mask=np.zeros(len(labels.codes), dtype=bool),
            q_value=decision.q_value,
            statistic=decision.statistic,
            selection_time=verdicts.values["Z"],
            knockoff_label=labels.classes[verdicts.values["knockoff"]],
            suggested_label=labels.classes[decision.suggested],
            cut_group=decision.cut_group,
            cut_groups=uncut(decision.table, decision.cut_group),
            classes=labels.classes,
            manifest=self._manifest(prepared),
            noise=decision.noise,
            checked=checked,
        )
        if self.level == "fixed":
            return selection.at(self.q)
        if self.level == "f1":
            return _at_best_f1(selection, self.q)
        levels = np.concatenate([[self.q], LEVELS[self.q < LEVELS]])
        keep, cut_groups = with_fallback(selection, levels)
        return replace(selection, clean_mask=keep, cut_groups=cut_groups)


def _at_best_f1(selection: Selection, q: float) -> Selection:
    """Return the selection at the level of its greatest estimated F1; at `q` if there is none."""
    best = selection.curve().best_f1
    chosen = selection.at(q if best is None else float(np.clip(best, *_LEVEL_ENDS)))
    parameters = {**chosen.manifest.parameters, "level": "f1"}
    return replace(chosen, manifest=replace(chosen.manifest, parameters=parameters))
