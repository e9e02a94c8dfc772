"""Knockoffs-SPR: keep the samples whose labels can be trusted, at an error rate of choice."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, Self, get_args

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from kspr._progress import Progress, ProgressMode
from kspr.core.duplicates import conflicting, contradicted, join_sets, repeated
from kspr.core.fitting import ROUNDS, LinearFit
from kspr.core.grading import Grading, Losses
from kspr.core.labels import Labels, codes_in, encode_labels
from kspr.core.noise_model import NoiseModels
from kspr.core.reduction import PCA
from kspr.core.transition import Transition
from kspr.core.votes import WIDTH, count_votes
from kspr.errors import InputError
from kspr.selectors._passes import (
    Compare,
    Grade,
    Judge,
    Judged,
    Reduction,
    Split,
    components_of,
    describe_noise,
    fit_split,
    held_out,
    judge,
    split_rows,
)
from kspr.selectors.base import BaseSelector, split_rng
from kspr.selectors.checked import read_checked
from kspr.selectors.cut_groups import at_best_f1, cut_apart, cut_by_class
from kspr.selectors.look import Census, look
from kspr.selectors.options import MODELLED, ControlName, CutName, DuplicatesName, LevelName
from kspr.selectors.parts import Columns, Features, HostFeatures, is_dask, threads
from kspr.selectors.selection import Selection
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_progress,
    check_rate,
    on_host,
    read_features,
    read_groups,
    read_labels,
    read_reduction,
    refuse_dense,
)

_STREAM = 0x766F7465
"""Keeps the choice of neighbours apart from the split."""
_COMPARED = 2_000
"""New rows whose margins are compared with those of the fit, which are a sample, too."""


@dataclass(eq=False, repr=False)
class KnockoffsSPR(BaseSelector):
    """Keep the samples whose labels can be trusted, at an error rate that you set.

    The data is split into two halves, or into eight folds where classes have few rows. A regression
    on all others judges a fold: how well does each label fit, compared with all others? The cut-off
    is set where the estimated share of wrong labels among the kept ones, the False-Selection-Rate
    (FSR), meets `q`. `control` chooses how that share is estimated, and under which assumption.
    `PaperKnockoffsSPR` is the procedure of the paper.

    Parameters
    ----------
    q
        The error rate: the largest share of wrong labels among the kept ones. It holds under the
        assumption of `control`, or for any noise where rows are checked: `Selection.with_checks`.
    level
        ``"fixed"`` keeps nothing where `q` cannot be reached. ``"f1"``, for
        ``control="people"`` and ``"transition"``, ignores `q` and takes the level with the greatest
        estimated F1, for users to whom a lost right label costs as much as a kept wrong one.
    cut
        ``"pooled"`` holds `q` over all classes together, ``"per_class"`` in every class. The former
        keeps more, mostly of the classes that are easy to tell apart. A rare class of which far
        more than `q` would be wrong is cut by itself in either case.
    control
        How the error rate is estimated. ``"people"`` assumes that a label goes wrong by its true
        class, and, unless the labels themselves refute it, more often where a sample is unclear,
        towards what it looks like. ``"transition"`` assumes that it depends on the class only.
        ``"exchangeable"`` assumes that a wrong label is any wrong class with equal chance; it keeps
        less, and nothing below a floor that grows with the noise.
    reduction
        ``"auto"`` keeps up to 512 principal components of features that have more than 128
        columns, and up to 128 of features that are sparse or have more than 2,560. Or a number of
        components; ``"classes"`` for as many as there are classes; None to use the features as they
        are; or a fitted transformer.
    duplicates
        ``"together"`` finds rows that are copies of each other, exactly or nearly, and puts them
        into the same fold: a fit that has seen a copy repeats its label, right or wrong. Where
        there are none, nothing changes. ``"ignore"`` does not look for them. `fit` takes rows that
        belong together for other reasons as `groups`.
    fit_rows
        Number of rows that the regression is fitted on, drawn at random from all folds and
        classes; all rows are judged. None fits as many as 512 MB of components hold, such as
        262,144 rows with 512 components: smaller data is fitted whole.
    n_splits
        Number of random splits whose fitted values are averaged. With several, more right labels
        are kept in most cases, and the answer depends less on the seed, at that many times the
        cost.
    neighbours
        For ``control="people"`` and ``"transition"``: also ask this many nearest rows of the other
        half, such as 50, which label they have. More right labels are kept where noise is moderate,
        fewer under Sym. 80 %; 50,000 rows take several times as long. Rows are compared by the
        distance of their features, in 64 principal components where these are reduced.
    min_class_size
        Smallest class that is accepted. A cut group of m samples cannot reach a level below
        ``1 / m``.
    random_state
        Seed of splits and neighbours. The answer depends on it and on nothing else.
    n_jobs
        Number of threads, as joblib counts them; None takes as many as linear algebra would, and
        one for small data. The answer does not depend on it.
    client
        For `X` on many machines, a Dask array or data frame: the `distributed.Client` to use; None
        for the current one.
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
    One threshold for all 10 classes; not yet checked by a person
    """

    q: float = 0.05
    _: KW_ONLY
    level: LevelName = "fixed"
    cut: CutName = "pooled"
    control: ControlName = "people"
    reduction: Any = "auto"
    duplicates: DuplicatesName = "together"
    fit_rows: int | None = None
    n_splits: int = 1
    neighbours: int | None = None
    min_class_size: int = 2
    random_state: Any = 0
    n_jobs: int | None = None
    client: Any = None
    progress: ProgressMode = "auto"

    def fit(self, X: Any, y: Any, *, groups: Any = None, checked: Any = None) -> Self:
        """Judge every sample; the result is in ``selection_``.

        Parameters
        ----------
        X : array-like, sparse matrix, torch.Tensor, Dask array or Dask data frame
            Features, of shape (n_samples, n_features). Tensors are moved to the host.
        y : array-like of shape (n_samples,)
            Labels of any type, some of them wrong.
        groups : array-like of shape (n_samples,), optional
            Which rows belong together: frames of one film, photos of one patient, sentences of one
            page. Equal entries, of any type, are in the same fold, so that a label is never judged
            by a fit that has seen others of its group.
        checked : tuple (rows, true labels) or array-like of bool, optional
            Rows that a person has checked. A pair of row numbers, drawn at random from all rows,
            and the true labels of these rows moves the threshold to where `q` holds for any noise,
            as `Selection.with_checks` does. A mask of rows whose labels are known to be right keeps
            these rows and changes nothing else: it does not show how many of the others are wrong.
        """
        self._check_parameters()
        with self._opened(X) as features:
            fitted = self._fitted(features, y, groups)
            answers = None if checked is None else read_checked(checked, fitted.labels.values)
            judged = fitted.judged(class_only=self.control != "people")
            selection = self._select(fitted, judged)
        self.classes_ = fitted.labels.classes
        seen = fitted.census.content, fitted.folds
        self._known = _Known(fitted.fits, judged.models, judged.noise, judged.ends, *seen)
        # What the fit needed of all rows is no longer held while levels move.
        del features, fitted, judged
        if answers is not None:
            rows, true_labels, drawn = answers
            selection = selection.with_checks(rows, true_labels, q=self.q, drawn=drawn)
        self.selection_ = selection
        return self

    def judge(self, X: Any, y: Any) -> Selection:
        """Return the selection of new rows, by the fit and the noise that were estimated in `fit`.

        A new row is judged by the fits of all folds, of which none has seen it; a row of the fit,
        by the one that has not. What the error rate rests on is what it was, and that new labels go
        wrong as the old ones did.

        `X` has the columns that `fit` was given, and `y` classes that it has seen. A warning says
        where the new rows look otherwise than the old ones: where their margins between the two
        best classes are distributed differently.
        """
        check_is_fitted(self, "selection_")
        known = self._known
        if self.neighbours is not None or issparse(X):
            raise InputError(
                "judge() takes dense rows, and neighbours=None. Fit all rows together instead."
            )
        labels = encode_labels(on_host(y))
        codes = codes_in(self.classes_, labels.values, "y")
        rows = np.asarray(on_host(X))
        if rows.shape[1:] != (self.n_features_in_,):
            raise InputError(
                f"X has {rows.shape[-1]} features, but the fit has {self.n_features_in_}. New rows "
                "need the same columns."
            )
        rows = validate_data(self, rows, reset=False, ensure_all_finite=False)
        if len(rows) != len(codes):
            raise InputError(f"X has {len(rows)} rows but y has {len(codes)} labels.")
        labels = replace(labels, classes=self.classes_, codes=codes)
        with threads(math.prod(rows.shape), self.n_jobs) as each:
            features = HostFeatures(rows, each, self.progress)
            census = look(features, find_copies=False)
            transformer = read_reduction(self.reduction, "auto", "classes")[1]
            if transformer is not None:
                features = features.transformed(transformer)
            # Each fit by what all but one of the folds have learned, for every fold.
            counts = [fit.n_folds for fit in known.fits]
            fits = tuple(fit for fit in known.fits for _ in range(fit.n_folds))
            every = np.concatenate([np.arange(n, dtype=np.int8) for n in counts])
            folds = np.tile(every, (len(rows), 1))
            seen, fold = known.folds_of(census.content)
            folds[seen] = np.repeat(fold, counts, axis=1)
            fitted = _Fitted(features, rows.shape, labels, census, self._seed(), folds, fits, None)
            judged = Judged(
                fitted.described(), known.models, known.noise, known.ends, features, fits
            )
            selection = self._select(fitted, judged)
            # As in the fit: by one fit each, and by few rows beside those of the fit.
            some = np.linspace(0, len(rows) - 1, min(len(rows), _COMPARED)).astype(int)
            few = HostFeatures(features.take(some), each, self.progress)
            shown = held_out(few, known.fits, folds[some][:, every == 0])
        if known.models.unlike(shown):
            warnings.warn(
                "The new rows look otherwise than those of fit: the margins between their two best "
                "classes are distributed differently. Their error rate is then not known: have "
                "rows checked, or fit all rows together.",
                stacklevel=2,
            )
        return selection

    def _check_parameters(self) -> None:
        check_rate("q", self.q)
        check_choice("level", self.level, ("fixed", "f1"))
        check_choice("cut", self.cut, get_args(CutName))
        if self.control in ("paper", "theorem"):
            raise InputError(
                f"control={self.control!r} is the paper's count of labels that lose to their "
                "knockoff. Use PaperKnockoffsSPR, or the preset 'paper'."
            )
        check_choice("control", self.control, get_args(ControlName))
        check_choice("duplicates", self.duplicates, get_args(DuplicatesName))
        if self.fit_rows is not None:
            # One row in either half.
            check_count("fit_rows", self.fit_rows, 2)
        check_count("n_splits", self.n_splits, 1, 1000)
        if self.neighbours is not None:
            check_count("neighbours", self.neighbours, 1)
        check_count("min_class_size", self.min_class_size, 1)
        check_progress(self.progress)
        for name, value, neutral in (
            ("level", self.level, "fixed"),
            ("neighbours", self.neighbours, None),
        ):
            # Both need the chance that a label is right.
            if value != neutral and self.control not in MODELLED:
                raise InputError(
                    f"{name}={value!r} goes with control='people' or 'transition', which estimate "
                    f"how many labels are right, not with {self.control!r}. Change either."
                )

    @contextmanager
    def _opened(self, X: Any) -> Iterator[Features]:
        """Yield the features, with the threads or workers that work at them."""
        if is_dask(X) or self.client is not None or hasattr(X, "gathered"):
            # Imported here: only those who have Dask need it.
            from kspr.selectors.cluster import DaskFeatures

            with threads(math.inf, self.n_jobs) as each:
                features = DaskFeatures.of(X, self.client, each, self.progress)
                self.n_features_in_ = features.shape[1]
                yield features
            return
        rows = read_features(self, X)
        with threads(math.prod(rows.shape), self.n_jobs) as each:
            yield HostFeatures(rows, each, self.progress)

    def _fitted(self, features: Features, y: Any, groups: Any) -> "_Fitted":
        """Look at all rows, split them, and fit every fold of every split."""
        n, p = features.shape
        seed = self._seed()
        components, transformer = read_reduction(self.reduction, "auto", "classes")
        reduction = Reduction(components)
        find_copies = self.duplicates == "together"
        labels = read_labels(features.column(y), n, self.min_class_size)
        n_classes = len(labels.classes)
        if self.control == "exchangeable" and n_classes < 3:
            raise InputError(
                "control='exchangeable' needs at least three classes, got 2: of two, the knockoff "
                "of a wrong label is always the right one. Use control='people'."
            )
        together = None
        if groups is not None:
            together = read_groups(features.column(groups), labels)
        n_fitted = reduction.rows_to_fit(self.fit_rows, p, n_classes)
        key_seeds = []
        if find_copies and n_fitted < n and together is None:
            rngs = (split_rng(seed, k) for k in range(self.n_splits))
            key_seeds = [int(rng.integers(2**63)) for rng in rngs]
        census = look(features, find_copies=find_copies, seeds=key_seeds)
        if (census.content == census.content[0]).all():
            raise InputError(
                "All rows of X are the same, so that nothing tells right labels from wrong ones. "
                "Pass other features."
            )
        copies = census.copies
        if copies is not None:
            together = copies if together is None else join_sets(together, copies)
        splits = [
            split_rows(
                labels.codes,
                n_fitted,
                split_rng(seed, k),
                together=together,
                content_keys=None if census.keys is None else census.keys[:, k],
            )
            for k in range(self.n_splits)
        ]
        features, reduction = self._reduced(features, reduction, transformer, splits[0], n_classes)
        fits = []
        for split in splits:
            with Progress(self.progress, "Fitting", len(split.fitted) * ROUNDS) as progress:
                fits.append(fit_split(features, split, n_classes, reduction, progress.advance))
        folds = np.stack([split.fold for split in splits], axis=1)
        linear = tuple(fit for fit, _ in fits)
        return _Fitted(features, (n, p), labels, census, seed, folds, linear, fits[0][1])

    def _reduced(
        self,
        features: Features,
        reduction: Reduction,
        transformer: Any,
        split: Split,
        n_classes: int,
    ) -> tuple[Features, Reduction]:
        """Return features that the fit can read: dense, and transformed if the user asks for it."""
        if transformer is None and not features.sparse:
            return features, reduction
        if not isinstance(features, HostFeatures):
            raise InputError(
                "A fitted transformer as reduction does not go with a Dask collection. Transform X "
                "first, with X.map_blocks, and pass reduction=None."
            )
        if transformer is not None:
            return features.transformed(transformer), Reduction(None)
        d = reduction.usual(n_classes)
        if d is None:
            refuse_dense()
        dense = features.reduced(d, split.sketch_seed)
        width = dense.shape[1]
        # As for dense features, the components keep their sizes.
        return dense, Reduction(width if width < features.shape[1] else None, even_all=True)

    def _select(self, fitted: "_Fitted", judged: Judged) -> Selection:
        """Grade all rows, and cut."""
        labels, copies = fitted.labels, fitted.census.copies
        codes, classes = labels.codes, labels.classes
        pooled = self.cut == "pooled"
        columns = judged.columns | self._graded(fitted, judged, pooled=pooled)
        noise = describe_noise(judged.noise, judged.ends, classes)
        if copies is not None:
            columns["level"], repeats = self._with_copies(columns, copies, codes)
            # The estimate counts copies once, and so leaves out those that repeat a wrong label.
            ends = (repeats + (1 - repeats) * x for x in (noise.rate, *noise.rate_interval))
            rate, low, high = ends
            noise = replace(noise, rate=rate, rate_interval=(low, high))
        cut_group, table = cut_by_class(codes, len(classes), pooled=pooled)
        selection = Selection.uncut(
            codes,
            classes,
            cut_group=cut_group,
            table=table,
            q_value=columns["level"],
            doubt=columns["doubt"],
            selection_time=columns["time"],
            knockoff_code=columns["knockoff"],
            suggested_code=columns["best"],
            suggestion_probability=columns.get("chance"),
            doubt_by_class=columns.get("by_class"),
            doubt_by_people=columns.get("by_people"),
            manifest=self._manifest(
                fitted.shape, fitted.seed, fitted.census.content, labels.values
            ),
            noise=noise,
            duplicate_set=copies,
        )
        if self.level == "f1":
            return at_best_f1(selection, self.q)
        return cut_apart(selection, self.q).at(self.q)

    def _graded(self, fitted: "_Fitted", judged: Judged, *, pooled: bool) -> Columns:
        """Return levels and doubts: by the estimated noise, or by comparing labels with others."""
        codes = fitted.labels.codes
        n_classes = len(fitted.labels.classes)
        votes = []
        grading: Grading | Losses
        task: Grade | Compare
        if self.control in MODELLED:
            matrix = None if judged.models.people else judged.noise
            grading = Grading(n_classes, len(codes), matrix, pooled=pooled)
            task = Grade(judged.fits, judged.models, judged.noise, grading, self.neighbours or 0)
        else:
            grading = Losses(n_classes, pooled=pooled)
            task = Compare(judged.fits, grading)
        if self.neighbours is not None:
            rng = np.random.default_rng([fitted.seed, _STREAM])
            reduced = partial(components_of, pca=fitted.pca, width=WIDTH)
            _, shown = fitted.features.map(reduced, what="Reducing rows")
            half = fitted.folds[:, 0] & 1
            votes = [count_votes(shown["rows"], codes, half, n_classes, self.neighbours, rng)]
        tally, columns = judged.features.map(
            task, codes, fitted.folds, *votes, extra=n_classes, what="Grading rows"
        )
        columns["level"] = grading.levels(tally).of(columns.pop("grade"), codes)
        return columns

    def _with_copies(
        self, columns: Columns, copies: np.ndarray, codes: np.ndarray
    ) -> tuple[np.ndarray, float]:
        """Return levels that know of copies, and the share of rows that repeat a wrong label."""
        level = columns["level"]
        if self.control in MODELLED:
            # Some of these labels are wrong: an average over all rows is not enough for them.
            disagree = conflicting(copies, codes)
            level = np.where(disagree, np.maximum(level, columns["doubt"]), level)
        lost = contradicted(copies, codes, columns["time"])
        return np.where(lost, np.inf, level), float((lost & repeated(copies, codes)).mean())


@dataclass(frozen=True)
class _Known:
    """What a fit says of any row: classes by features, and how labels go wrong."""

    fits: tuple[LinearFit, ...]
    models: NoiseModels
    noise: Transition
    ends: tuple[float, float]
    content: np.ndarray
    """A number for the content of each row of the fit."""
    folds: np.ndarray
    """The fold of each of them in every split, ``(rows, splits)``."""

    def folds_of(self, content: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows the fit has seen, by their content, and their folds."""
        order = np.argsort(self.content)
        place = np.searchsorted(self.content, content, sorter=order)
        place = order[np.minimum(place, len(order) - 1)]
        seen = np.flatnonzero(self.content[place] == content)
        return seen, self.folds[place[seen]]


@dataclass(frozen=True)
class _Fitted:
    """All rows looked at, split and fitted."""

    features: Features
    shape: tuple[int, int]
    """Rows and columns of the features that were given."""
    labels: Labels
    census: Census
    seed: int
    folds: np.ndarray
    """Fold of every row, ``(rows, splits)``."""
    fits: tuple[LinearFit, ...]
    pca: PCA | None

    def judged(self, *, class_only: bool) -> Judged:
        """Judge all rows."""
        codes, copies = self.labels.codes, self.census.copies
        # A hundred copies of one label are one observation of how labels go wrong.
        counted = np.ones(len(codes), bool) if copies is None else ~repeated(copies, codes)
        return judge(self.features, self.fits, self.folds, codes, counted, class_only=class_only)

    def described(self) -> Columns:
        """Return the columns that all controls have, without estimating the noise."""
        codes = self.labels.codes
        sizes = np.zeros((2, len(self.labels.classes)), dtype=np.int64)
        nobody = np.zeros(len(codes), dtype=bool)
        task = Judge(self.fits, sizes, None, hold=False)
        return self.features.map(task, codes, self.folds, nobody, what="Judging rows")[1]
