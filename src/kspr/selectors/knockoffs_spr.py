"""Knockoffs-SPR: keep the samples whose labels can be trusted, at an error rate of choice."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, Self, get_args

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr.core.arrays import like, to_numpy
from kspr.core.coded import changed, coded
from kspr.core.cutoffs import LEVELS
from kspr.core.duplicates import repeated
from kspr.core.knockoffs import STATISTICS, most_confident, random_labels
from kspr.core.labels import Labels, codes_in
from kspr.core.linear_fit import LinearFit
from kspr.core.penalties import PENALTIES
from kspr.core.procedure import FirstStep, Procedure
from kspr.core.reduction import Solver
from kspr.core.refitting import ROUNDS
from kspr.core.regression import STEPS
from kspr.core.votes import WIDTH, count_votes
from kspr.errors import InputError
from kspr.selectors._passes import Predictions, Verdicts, judge_rows
from kspr.selectors._pieces import collect, fit_whole, solve
from kspr.selectors._plan import comparable_rows
from kspr.selectors.base import BaseSelector, Prepared
from kspr.selectors.checkpoint import once, pack_fit, pack_verdicts, unpack_fit, unpack_verdicts
from kspr.selectors.controls.checked import Drawn, Guarantee, read_checked
from kspr.selectors.controls.control import Decision, Question
from kspr.selectors.controls.paper import level_factors
from kspr.selectors.controls.registry import CONTROLS
from kspr.selectors.curve import at_best_f1
from kspr.selectors.cut_groups import uncut, with_fallback
from kspr.selectors.engines import run
from kspr.selectors.engines.cluster import Cluster, is_dask
from kspr.selectors.engines.local import one_level_of_threads
from kspr.selectors.options import (
    COMPARING,
    PAPER,
    ControlName,
    CutName,
    DuplicatesName,
    EngineName,
    KnockoffName,
    LevelName,
    PenaltyName,
    StatisticName,
)
from kspr.selectors.selection import Selection
from kspr.selectors.together import with_copies
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_rate,
    check_scores,
    check_together,
)

__all__ = ["KnockoffsSPR", "held_out_values"]

_STREAM = 0x766F7465
"""Keeps the choice of neighbours apart from the split."""


class KnockoffsSPR(BaseSelector):
    """Keep the samples whose labels can be trusted, at an error rate that you set.

    The data is split into two halves. A regression fitted on one half judges the other: how well
    does each label fit, compared with all others? The cut-off is set where the estimated share of
    wrong labels among the kept ones, the False-Selection-Rate (FSR), meets `q`. `control` chooses
    how that share is estimated, and under which assumption.

    Parameters
    ----------
    q
        The error rate: the largest share of wrong labels among the kept ones. It holds under the
        assumption of `control`, or for any noise where rows are checked: `guarantee`.
    control
        How the error rate is estimated. ``"transition"`` assumes that how a label goes wrong
        depends on the true class only, and learns it from the clearest samples.
        ``"exchangeable"`` assumes that a wrong label is any wrong class with equal chance; it keeps
        less, and nothing below a floor that grows with the noise. ``"paper"`` is the paper's count
        of labels that lose to their knockoff, which exceeds `q` under heavy noise. ``"theorem"`` is
        the same at the smaller level of the paper's Theorem 2.
    level
        What to do where `q` cannot be reached. ``"fixed"`` keeps nothing in such a cut group.
        ``"smallest"``, for the paper's controls, is the paper's rule: take the first of 0.02, 0.04,
        ... 0.5 from `q` on that can be reached, and keep the better half of the cut group where
        none can; `Selection.cut_groups` marks such groups. ``"f1"``, for ``control="transition"``,
        ignores `q` and takes the level with the greatest estimated F1, for users to whom a lost
        right label costs as much as a kept wrong one.
    penalty
        ``"group"`` penalises a sample's mean shifts together, ``"lasso"`` one by one.
    reduction
        ``"auto"`` keeps up to 512 principal components of features that have more than 128 columns
        where the data is not split, and up to 128 elsewhere. Or a number of components;
        ``"classes"`` for as many as a piece has classes; None to use the features as they are; or a
        fitted transformer.
    pca_solver
        ``"auto"``, ``"exact"`` or ``"randomised"``.
    fit_intercept
        Whether the regression has an intercept.
    classes_per_group, samples_per_class
        How the data is split into pieces, most similar classes together. None, for either, does
        not split.
    first_step
        What a half is fitted on. ``"refit"`` fits a ridge regression on all of its samples, and
        four times again on those whose labels are likely right: as many of each class as it
        estimates. ``"spr"``, the paper's way, fits the share `clean_ratio` that SPR keeps.
        ``"least_squares"`` fits all of them.
    clean_ratio
        Share of each class that SPR keeps with ``first_step="spr"``.
    knockoff
        For the paper's controls, the label that a label is compared with: the most confident other
        class (``"most_confident"``) by `scores`, or else by the fit on the other half; a
        ``"random"`` other class; or ``"given"`` labels.
    statistic
        For the paper's controls: ``"asymmetric"``, ``"symmetric_max"`` or ``"symmetric_min"``.
    cut
        ``"pooled"`` holds `q` over all classes together, ``"per_class"`` in every class. The former
        keeps more, mostly of the classes that are easy to tell apart.
    kappa
        For ``control="theorem"``: the least chance that a wrong label loses to a right knockoff.
        None takes the worst case, which needs more than two classes.
    remove_floor
        For ``control="exchangeable"``: subtract from the estimate what wrong labels add to it when
        they are compared with their true class. Assumes that the clearest samples of a class are
        of that class.
    duplicates
        ``"together"`` finds rows that are copies of each other, exactly or nearly, and puts them
        into the same half: a fit that has seen a copy repeats its label, right or wrong. Where
        there are none, nothing changes. ``"ignore"`` does not look for them. `fit` takes rows that
        belong together for other reasons as `groups`.
    fit_rows
        Number of rows that the regression is fitted on, drawn at random from both halves and all
        classes, where the data is not split into pieces; all rows are judged. None fits as many as
        512 MB of components hold, such as 262,144 rows with 512 components: smaller data is fitted
        whole.
    n_splits
        Number of random splits whose fitted values are averaged. With several, more right labels
        are kept in most cases, and the answer depends less on the seed, at that many times the
        cost.
    neighbours
        For ``control="transition"``: also ask this many nearest rows of the other half, such as 50,
        which label they have. More right labels are kept where noise is moderate, fewer under
        Sym. 80 %; 50,000 rows take several times as long. Rows are compared by the distance of
        their features, in 64 principal components where these are reduced.
    guarantee, confidence
        What the error rate promises when `fit` is given checked rows: ``"mean"``, on average over
        draws of such rows; ``"confidence"`` or ``"anytime"``, with the probability `confidence`.
        See `Selection.with_checks`.
    min_class_size
        Smallest class that is accepted. A cut group of m samples cannot reach a level below
        ``1 / m``.
    random_state
        Seed of splits and random knockoffs. The answer depends on it and on nothing else.
    engine, n_jobs
        Where pieces are solved, ``"serial"``, ``"threads"`` or ``"processes"``, and by how many
        workers. ``"dask"`` is for data on many machines: `X` is a Dask array or data frame then,
        and its partitions stay where they are.
    client
        For ``engine="dask"``: the `distributed.Client` to use; None for the current one.
    device
        Where the linear algebra runs, as torch names it, such as ``"cuda"``: blocks of rows are
        moved there as tensors when they are needed. None for where `X` is. For ``"serial"`` and
        ``"threads"``.
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
    >>> y[::10] = 9 - y[::10]
    >>> selection = KnockoffsSPR(q=0.01).fit(X, y).selection_
    >>> bool(selection.clean_mask[::10].mean() < 0.1)
    True
    >>> print(selection)  # doctest: +ELLIPSIS
    KnockoffsSPR: ... of 1,797 labels kept (...) at q = 0.01
    10 classes in 1 cut group: 1 assumed
    """

    _engines = (*BaseSelector._engines, "dask")

    def __init__(
        self,
        q: float = 0.05,
        *,
        control: ControlName = "transition",
        level: LevelName = "fixed",
        penalty: PenaltyName = "group",
        reduction: Any = "auto",
        pca_solver: Solver = "auto",
        fit_intercept: bool = True,
        classes_per_group: int | None = None,
        samples_per_class: int | None = None,
        first_step: FirstStep = "refit",
        clean_ratio: float = 0.5,
        knockoff: KnockoffName = "most_confident",
        statistic: StatisticName = "asymmetric",
        cut: CutName = "pooled",
        kappa: float | None = None,
        remove_floor: bool = False,
        duplicates: DuplicatesName = "together",
        fit_rows: int | None = None,
        n_splits: int = 1,
        neighbours: int | None = None,
        guarantee: Guarantee = "mean",
        confidence: float = 0.95,
        min_class_size: int = 2,
        random_state: Any = 0,
        engine: EngineName = "threads",
        n_jobs: int | None = None,
        client: Any = None,
        device: str | None = None,
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
        self.duplicates = duplicates
        self.fit_rows = fit_rows
        self.n_splits = n_splits
        self.neighbours = neighbours
        self.guarantee = guarantee
        self.confidence = confidence
        self.min_class_size = min_class_size
        self.random_state = random_state
        self.engine = engine
        self.n_jobs = n_jobs
        self.client = client
        self.device = device
        self.progress = progress

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the selector with the paper's own choices, any of them changed.

        Parameters
        ----------
        **changes
            Parameters of `KnockoffsSPR`.

        Returns
        -------
        KnockoffsSPR
            A selector that is not fitted yet.

        Examples
        --------
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
        groups: Any = None,
    ) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix or torch.Tensor of shape (n_samples, n_features)
            Features. With ``engine="dask"``, a Dask array or data frame.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong. With ``engine="dask"`` a Dask array or series
            that is cut at the same rows, or an array of this process.
        scores : array-like of shape (n_samples, n_classes), optional
            Class scores, such as the outputs of a network, one column per class in sorted order.
            They choose the most confident knockoff.
        knockoff_labels : array-like of shape (n_samples,), optional
            The labels to compare with, for ``knockoff="given"``.
        clean_mask : array-like of bool of shape (n_samples,), optional
            An earlier selection. Classes are then grouped by the means of these samples.
        checked : tuple (rows, true labels) or array-like of bool, optional
            Rows that a person has checked. A pair of row numbers, drawn at random from all rows,
            and the true labels of these rows moves the cut-off to where `q` holds for any noise,
            as `Selection.with_checks` does. A mask of rows whose labels are known to be right keeps
            these rows and changes nothing else: it does not show how many of the others are wrong.
        groups : array-like of shape (n_samples,), optional
            Which rows belong together: frames of one film, photos of one patient, sentences of one
            page. Equal entries, of any type, are in the same half, so that a label is never judged
            by a fit that has seen others of its group.

        Returns
        -------
        self : KnockoffsSPR
            The fitted selector.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_digits
        >>> X, y_true = load_digits(return_X_y=True)
        >>> y = np.where(np.arange(len(y_true)) % 5 == 0, 9 - y_true, y_true)
        >>> rows = np.random.default_rng(0).choice(len(y), 200, replace=False)
        >>> model = KnockoffsSPR(q=0.1).fit(X, y, checked=(rows, y_true[rows]))
        >>> bool(model.selection_.clean_mask[rows].sum() == (y == y_true)[rows].sum())
        True
        """
        self._check_parameters()
        if self.engine == "dask" or is_dask(X):
            given = {"scores": scores, "knockoff_labels": knockoff_labels, "clean_mask": clean_mask}
            selection = self._selected_on_cluster(X, y, groups, given)
            answers = None if checked is None else read_checked(checked, selection.label)
            self.selection_ = self._with_answers(selection, answers)
            self.classes_ = selection.classes
            return self
        # A list has no shape, and is no large data.
        with one_level_of_threads(math.prod(getattr(X, "shape", ()) or (0,))):
            selection, answers = self._selected(
                X, y, scores, knockoff_labels, clean_mask, checked, groups
            )
        # Only now: what the fit needed of all rows is no longer held.
        self.selection_ = self._with_answers(selection, answers)
        return self

    def _selected_on_cluster(
        self, X: Any, y: Any, groups: Any, others: dict[str, Any]
    ) -> Selection:
        """Judge the partitions of Dask's arrays or data frames."""
        if self.engine != "dask":
            raise InputError(
                f"X is a Dask {type(X).__name__}, and engine is {self.engine!r}. Pass "
                "engine='dask', or X.compute()."
            )
        for name, value in others.items():
            if value is not None:
                raise InputError(f"{name} does not go with engine='dask'. Leave it out.")
        # Imported here: only those who have Dask need it.
        from kspr.selectors._dask_data import partitions_of
        from kspr.selectors.cluster_selection import select_on_cluster

        cluster = Cluster.current(self.client)
        partitions = partitions_of(cluster, X, y, groups)
        return select_on_cluster(self, cluster, partitions, groups=groups is not None)

    def _selected(
        self,
        X: Any,
        y: Any,
        scores: Any,
        knockoff_labels: Any,
        clean_mask: Any,
        checked: Any,
        groups: Any,
    ) -> tuple[Selection, tuple[Any, Any, Drawn] | None]:
        """Check the data, fit, and cut; return the checked rows too, which are not applied yet."""
        procedure = self._chosen_procedure()
        # A generator: a split is prepared when its turn comes, not all of them at once.
        splits = self._prepared(
            X,
            y,
            procedure,
            clean_mask,
            self.n_splits,
            groups=groups,
            find_copies=self.duplicates == "together",
            fit_rows="auto" if self.fit_rows is None else self.fit_rows,
        )
        # Also checks X and y, which everything below relies on.
        first = next(splits)
        labels = first.labels
        self._check_groups(labels)
        if scores is not None:
            scores = check_scores(scores, len(labels.codes), len(labels.classes))
        given = self._knockoff_codes(labels, knockoff_labels)
        answers = None if checked is None else read_checked(checked, labels.values)
        verdicts = self._judge(first, splits, procedure, scores, given)
        self.classes_ = labels.classes
        return self._select(first, verdicts, self._decide(first, verdicts)), answers

    def _with_answers(self, selection: Selection, answers: Any) -> Selection:
        """Apply checked rows, as `read_checked` returns them; None without any."""
        if answers is None:
            return selection
        rows, truth, drawn = answers
        return selection.with_checks(
            rows,
            truth,
            q=self.q,
            guarantee=self.guarantee,
            confidence=self.confidence,
            drawn=drawn,
        )

    def _chosen_procedure(self) -> Procedure:
        return self._procedure(first_step=self.first_step, statistic=STATISTICS[self.statistic])

    def _check_parameters(self) -> None:
        self._check_common()
        check_rate("q", self.q)
        check_choice("guarantee", self.guarantee, get_args(Guarantee))
        check_rate("confidence", self.confidence)
        check_choice("control", self.control, CONTROLS)
        check_choice("level", self.level, get_args(LevelName))
        check_choice("first_step", self.first_step, get_args(FirstStep))
        check_choice("knockoff", self.knockoff, get_args(KnockoffName))
        check_choice("statistic", self.statistic, STATISTICS)
        check_choice("duplicates", self.duplicates, get_args(DuplicatesName))
        check_count("n_splits", self.n_splits, 1)
        if self.fit_rows is not None:
            # One row in either half.
            check_count("fit_rows", self.fit_rows, 2)
        if self.neighbours is not None:
            check_count("neighbours", self.neighbours, 1)
        if self.kappa is not None:
            check_rate("kappa", self.kappa)
        check_together(self)

    @property
    def _compares(self) -> bool:
        """Whether each label is compared with one knockoff, as in the paper."""
        return self.control in COMPARING

    def _check_groups(self, labels: Labels) -> None:
        # The other controls need the fitted value of every class for every sample.
        size, found = self.classes_per_group, len(labels.classes)
        if not self._compares and size is not None and size < found:
            raise InputError(
                f"control={self.control!r} needs all {found} classes in one group, but "
                f"classes_per_group is {size}. Pass classes_per_group=None, or control='paper'."
            )

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

    def _judge(
        self,
        first: Prepared,
        others: Iterator[Prepared],
        procedure: Procedure,
        scores: Any,
        given: np.ndarray | None,
    ) -> Verdicts:
        """Run Alg. 1 on every piece; several splits are judged by the mean of their fits."""
        codes, n_classes = first.labels.codes, len(first.labels.classes)
        draws = first.rng.random(len(codes)) if self.knockoff == "random" else None
        if self._compares and first.plan.half is None:
            return self._solved(first, procedure, scores=scores, given=given, draws=draws)
        fitted, half = self._fitted(first, procedure)
        parts = [fitted, *(self._fitted(other, procedure)[0] for other in others)]

        def choose(rows: slice, prediction: np.ndarray) -> np.ndarray:
            if given is not None:
                return given[rows]
            if draws is not None:
                return random_labels(codes[rows], n_classes, draws[rows])
            shown = prediction if scores is None else scores[rows]
            return to_numpy(most_confident(shown, like(codes[rows], shown)))

        predictions = Predictions.mean(parts).held_if_few()
        alone = fitted if len(parts) > 1 else None
        counted = self._counted(first)
        return once(
            "judged",
            lambda: judge_rows(predictions, codes, half, procedure, choose, counted, alone),
            pack_verdicts,
            partial(unpack_verdicts, predictions, half),
        )

    def _fitted(self, prepared: Prepared, procedure: Procedure) -> tuple[Predictions, np.ndarray]:
        """Return the fitted values of all classes, and the half that each sample is in."""
        plan = prepared.plan
        if plan.half is not None:
            steps = ROUNDS if self.first_step == "refit" else STEPS

            def work() -> LinearFit:
                with Progress(self.progress, "Knockoffs-SPR", steps) as progress:
                    return fit_whole(plan, procedure, progress.advance)

            fit = once(f"fit-{plan.seed}", work, pack_fit, unpack_fit)
            return Predictions.by(fit, plan.features, plan.half, self.progress), plan.half
        verdicts = self._solved(prepared, procedure, predictions=True)
        return Predictions.held(verdicts.values["prediction"]), verdicts.half

    def _solved(self, prepared: Prepared, procedure: Procedure, **choices: Any) -> Verdicts:
        """Fit and judge pieces in batches; `choices` are those of `solve`."""
        plan = prepared.plan
        with Progress(self.progress, "Knockoffs-SPR", len(plan.batches)) as progress:
            work = partial(solve, plan=plan, procedure=procedure, **choices)
            results = run(
                work, plan.batches, engine=self.engine, n_jobs=self.n_jobs, progress=progress
            )
        return collect(len(prepared.labels.codes), results)

    def _counted(self, prepared: Prepared) -> np.ndarray | None:
        """Return which rows can be anchors; None for controls that need none."""
        if self._compares:
            return None
        codes, copies = prepared.labels.codes, prepared.copies
        # A hundred copies of one label are one observation of how labels go wrong.
        return np.ones(len(codes), bool) if copies is None else ~repeated(copies, codes)

    def _decide(self, prepared: Prepared, verdicts: Verdicts) -> Decision:
        """Return the level of every sample, by the chosen control."""
        return CONTROLS[self.control](
            Question(
                codes=prepared.labels.codes,
                classes=prepared.labels.classes,
                verdicts=verdicts,
                penalty=PENALTIES[self.penalty],
                pooled=self.cut == "pooled",
                factor=level_factors(prepared.plan, self.control, self.kappa),
                remove_floor=self.remove_floor,
                votes=self._votes(prepared, verdicts),
                neighbours=self.neighbours or 0,
                graded=prepared.plan.fits_a_part,
            )
        )

    def _votes(self, prepared: Prepared, verdicts: Verdicts) -> np.ndarray | None:
        """Return which labels the neighbours of every sample have; None if they are not asked."""
        if self.neighbours is None:
            return None
        labels = prepared.labels
        return count_votes(
            comparable_rows(prepared.plan, WIDTH),
            labels.codes,
            verdicts.half,
            len(labels.classes),
            self.neighbours,
            np.random.default_rng([prepared.seed, _STREAM]),
        )

    def _select(self, prepared: Prepared, verdicts: Verdicts, decision: Decision) -> Selection:
        """Cut every cut group at its level."""
        labels, copies = prepared.labels, prepared.copies
        if copies is not None:
            decision = with_copies(
                decision, copies, labels.codes, verdicts.values["Z"], control=self.control
            )
        selection = Selection(
            label=coded(labels.codes, labels.classes, labels.values),
            clean_mask=np.zeros(len(labels.codes), dtype=bool),
            q_value=decision.q_value,
            statistic=decision.statistic,
            selection_time=verdicts.values["Z"],
            knockoff_label=coded(verdicts.values["knockoff"], labels.classes),
            suggested_label=coded(decision.suggested, labels.classes),
            suggestion_probability=decision.suggestion_probability,
            cut_group=decision.cut_group,
            cut_groups=uncut(decision.table, decision.cut_group),
            classes=labels.classes,
            manifest=self._manifest(prepared),
            noise=decision.noise,
            copies=copies,
        )
        if self.level == "fixed":
            return selection.at(self.q)
        if self.level == "f1":
            return at_best_f1(selection, self.q)
        # q comes first even where it is none of the paper's levels.
        levels = np.concatenate([[self.q], LEVELS[self.q < LEVELS]])
        keep, cut_groups = with_fallback(selection, levels)
        return changed(selection, clean_mask=keep, cut_groups=cut_groups)


def held_out_values(
    selector: KnockoffsSPR, X: Any, y: Any, *, groups: Any = None
) -> tuple[Prepared, np.ndarray]:
    """Return the fitted value of every class for each row, from the half that it is not in.

    For what is done with fits besides selecting; the data, checked and split, come first.
    """
    selector._check_parameters()
    procedure = selector._chosen_procedure()
    together = selector.duplicates == "together"
    with one_level_of_threads():
        prepared = next(selector._prepared(X, y, procedure, groups=groups, find_copies=together))
        predictions, _ = selector._fitted(prepared, procedure)
        return prepared, predictions.values(slice(None))
