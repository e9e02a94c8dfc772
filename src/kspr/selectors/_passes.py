"""A selection as four maps over parts: look, gather and fit, judge, grade.

    look(part)   -> Census, joined          `look.py`: are rows sound, which are copies
    sample       -> the rows to fit         gathered; `fit_split` fits for every fold
    judge(part)  -> Anchors, joined         `Judge`: the surest rows of each class, selection times
    grade(part)  -> Tally, joined           `Grade` or `Compare`: levels and doubts of all rows

Fitted values are made, used and forgotten block by block, unless they are few: nothing large is
rows times classes. A row's values do not depend on the block that it is in, so neither does the
answer on the parts that rows come in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from kspr.core.fitting import LinearFit, fit_folds, max_directions
from kspr.core.grading import Grading, Losses, Tally
from kspr.core.halves import (
    HalfRows,
    assign_halves,
    n_folds,
    random_folds,
    row_keys,
    rows_by_half,
    thinned,
)
from kspr.core.noise_model import NoiseModels, fit_noise, sample_rows
from kspr.core.reduction import PCA, fit_pca
from kspr.core.regression import Basis, all_times, closed_form_times, most_confident
from kspr.core.transition import (
    Anchors,
    Transition,
    bin_sizes,
    estimate_transition,
    wilson_interval,
)
from kspr.core.votes import with_votes
from kspr.selectors.parts import Columns, Features, HostFeatures
from kspr.selectors.provenance import NoiseEstimate

_SCORE_BLOCK_BYTES = 4 << 20
"""Size of the blocks whose scores are put into one array: several are in work at a time."""
_SCORE_BYTES = 512 << 20
"""Memory that the components of the fitted rows may take: ``"auto"`` fits as many as that holds,
and keeps fewer components where more rows are asked for."""
_ROWS_PER_DIMENSION = 100
"""Rows that are fitted for every dimension, however much memory they take."""
_HELD = 1 << 24
"""Fitted values that are held because they are few; more are computed again for the next pass."""
_USUAL, _MANY, _WIDE = 128, 512, 2560
"""Components that ``"auto"`` keeps of very wide features, and of others, and the number of columns
up to which features are no wider than that."""


@dataclass(frozen=True)
class Reduction:
    """How many principal components are kept: a number, ``"classes"``, ``"auto"``, or None."""

    components: int | str | None
    even_all: bool = False
    """Whether components are taken even where they are as many as the features."""

    def rows_to_fit(self, fit_rows: int | None, n_features: int, n_classes: int) -> int:
        """Return the number of rows that are fitted, at most."""
        if fit_rows is not None:
            return fit_rows
        d = _MANY if self._many(n_features) else self.usual(n_classes) or n_features
        width = min(d, n_features)
        return max(_SCORE_BYTES // (4 * width), _ROWS_PER_DIMENSION * width)

    def dimensions(self, n_rows: int, slots: int, n_features: int, n_classes: int) -> int | None:
        """Return how many components are kept of `n_rows` fitted rows; None for the features.

        `slots` is the number of rows that a fit learns from.
        """
        d = self.usual(n_classes)
        if d is None or (d >= n_features and not self.even_all):
            return None
        if self._many(n_features):
            d = max(d, min(_MANY, _SCORE_BYTES // (4 * n_rows)))
        # With more directions the fit would leave no residuals: see `max_directions`.
        return min(d, max_directions(slots))

    def usual(self, n_classes: int) -> int | None:
        """Return how many components are kept where there is no ridge; None for the features."""
        if self.components == "classes":
            return n_classes
        if self.components == "auto":
            return _USUAL
        return None if self.components is None else int(self.components)

    def _many(self, n_features: int) -> bool:
        # The ridge decides how much each component counts: many do no harm.
        return self.components == "auto" and n_features <= _WIDE


@dataclass(frozen=True)
class Split:
    """One random split of all rows into folds, and which of them are fitted."""

    fold: np.ndarray
    """Fold of every row; those with even and with odd numbers are halves."""
    fitted: Sequence[HalfRows]
    """The rows that are fitted, by folds."""
    sketch_seed: int


def split_rows(
    codes: np.ndarray,
    n_fitted: int,
    rng: np.random.Generator,
    *,
    together: np.ndarray | None = None,
    content_keys: np.ndarray | None = None,
) -> Split:
    """Return a random split; `n_fitted` is the number of rows that are fitted, at most.

    Rows of one of the sets `together` stay in one fold. Where fewer rows are fitted than there are,
    nothing is shuffled: row after row, a key decides by its number, or by its content, which half
    it is in and whether it is fitted.
    """
    n = len(codes)
    fitted: Sequence[HalfRows]
    if n_fitted < n and together is None:
        seed = int(rng.integers(2**63))
        keys = row_keys(0, n, seed)
        contents = keys if content_keys is None else content_keys
        fold, rows = assign_halves(codes, keys, contents, n_fitted)
        fitted = rows_by_half(rows, codes[rows], fold[rows])
    else:
        whole = random_folds(codes, n_folds(n, int(codes.max()) + 1), rng, together)
        fold = np.zeros(n, dtype=np.int8)
        for number, rows_of in enumerate(whole):
            fold[rows_of.index] = number
        fitted = thinned(whole, n_fitted)
    return Split(fold, fitted, int(rng.integers(2**32)))


def fit_split(
    features: Features,
    split: Split,
    n_classes: int,
    reduction: Reduction,
    on_step: Callable[[], None],
) -> tuple[LinearFit, PCA | None]:
    """Fit all folds of a split; the second value is the reduction of the features, if any."""
    index = np.concatenate([fold.index for fold in split.fitted])
    rows = np.sort(index)
    host, numbers = features.gathered(rows)
    index = numbers[np.searchsorted(rows, index)]
    slots = len(index) - min(len(fold.index) for fold in split.fitted)
    d = reduction.dimensions(len(rows), slots, features.shape[1], n_classes)
    label = [fold.label for fold in split.fitted]
    if d is None:
        fit = fit_folds(host.take(index), label, n_classes, on_step=on_step, each=host.each)
        return fit, None
    chosen = None if len(rows) == host.shape[0] else numbers
    pca = components(host, chosen, d, split.sketch_seed)
    basis = Basis(pca.mean, pca.components, intercept=True)
    scores = _scores(host, pca, index)
    fit = fit_folds(scores, label, n_classes, basis=basis, on_step=on_step, each=host.each)
    return fit, pca


def components(host: HostFeatures, rows: np.ndarray | None, d: int, seed: int) -> PCA:
    """Return the first `d` principal components of some rows, which ascend; None for all rows."""
    rng = np.random.default_rng(seed)
    # A ridge needs the sizes of the components: the small ones are mostly noise.
    return fit_pca(
        lambda: (block[None] for _, block in host.chosen_blocks(rows)), d, rng=rng, each=host.each
    ).scaled()


def _scores(host: HostFeatures, pca: PCA, index: np.ndarray) -> np.ndarray:
    """Return the components of the rows at `index`, behind a column of ones for the intercept.

    Rows are walked in the order of the features and put where they belong, so that neither the
    features nor their scores are ever held twice.
    """
    slot = np.argsort(index, kind="stable")
    scores = np.ones((len(index), 1 + pca.components.shape[2]), dtype=pca.components.dtype)

    def put(part: tuple[slice, np.ndarray]) -> None:
        # Put by the thread that has them: scores that wait would take as much memory as all blocks
        # in work. No two blocks have a row in common.
        scores[slot[part[0]], 1:] = pca.transform(part[1][None])[0]

    for _ in host.each(put, host.chosen_blocks(index[slot], _SCORE_BLOCK_BYTES)):
        pass
    return scores


@dataclass(frozen=True)
class Judged:
    """All rows, judged: what a control needs, and the columns that all controls have."""

    columns: Columns
    models: NoiseModels
    noise: Transition
    """How labels go wrong by the model that judges, on average over rows."""
    ends: tuple[float, float]
    """Share of wrong labels by the model that knows classes only, and by that of people."""
    features: Features
    """The rows for the pass that grades: their features, or fitted values where these are few."""
    fits: tuple[LinearFit, ...]
    """The fits that judge these rows; none where they are fitted values."""


def judge(
    features: Features,
    fits: tuple[LinearFit, ...],
    folds: np.ndarray,
    codes: np.ndarray,
    counted: np.ndarray,
    *,
    class_only: bool,
) -> Judged:
    """Judge all rows, and estimate how labels go wrong; `class_only` if by their class, for sure.

    `counted` says which rows can be anchors, and in the sample that models are fitted to. Where
    there are several splits, anchors are those of the first: by the mean of the fits, noise of
    Sym. 80 % looks larger than it is, and q is passed (measured on CIFAR-10).
    """
    n_classes = fits[0].n_classes
    sizes = bin_sizes(codes[counted], folds[counted, 0] & 1, n_classes)
    hold = len(codes) * n_classes <= _HELD
    chosen = sample_rows(counted, n_classes)
    sample = _values(fits, features.take(chosen), folds[chosen])
    least = Anchors(sizes).guess(sample[0], folds[chosen, 0] & 1)
    for guess in (least, None):
        anchors, columns = features.map(
            Judge(fits, sizes, guess, hold),
            codes,
            folds,
            counted,
            extra=n_classes,
            what="Judging rows",
        )
        if anchors.complete:
            break
    noise = estimate_transition(anchors.counts())
    models = fit_noise(sample[1], codes[chosen], noise, across=True, class_only=class_only)
    if hold:
        features, fits = features.beside(columns.pop("values")), ()
    return Judged(columns, models, *shares_of(models, sample[1]), features, fits)


def shares_of(models: NoiseModels, scores: np.ndarray) -> tuple[Transition, tuple[float, float]]:
    """Return the transition matrix of the model that judges, and the noise rates of both."""
    by_class, by_people = (
        model.transition(scores) for model in (models.by_class, models.by_people)
    )
    ends = by_class.wrong_share, by_people.wrong_share
    return by_people if models.people else by_class, ends


def describe_noise(
    transition: Transition, ends: tuple[float, float], classes: np.ndarray
) -> NoiseEstimate:
    """Return a transition matrix with its intervals and the overall rate, which has two `ends`."""
    counts, matrix = transition.counts, transition.matrix
    size = counts.sum(axis=1)
    low = high = matrix
    if transition.written:
        intervals = wilson_interval(csr_array(counts).toarray(), np.maximum(size, 1e-9)[:, None])
        low, high = np.minimum(intervals[0], matrix), np.maximum(intervals[1], matrix)
    return NoiseEstimate(
        rate=transition.wrong_share,
        rate_interval=(min(ends), max(ends)),
        transition=matrix,
        low=low,
        high=high,
        anchors=np.rint(size).astype(np.int64),
        classes=classes,
    )


def _values(
    fits: tuple[LinearFit, ...], X: np.ndarray, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the fitted values of every class by the first of the fits, and by their mean.

    No fit that judges a row has seen its label, so their mean has not either. Without fits, `X` are
    the fitted values.
    """
    if not fits:
        return X, X
    values = [fit.predict(X, fold) for fit, fold in zip(fits, folds.T, strict=True)]
    return values[0], values[0] if len(values) == 1 else np.asarray(sum(values) / len(values))


@dataclass(frozen=True)
class Judge:
    """The task that judges a block: anchors, selection times, and the classes that fit best."""

    fits: tuple[LinearFit, ...]
    sizes: np.ndarray
    least: np.ndarray | None
    hold: bool
    """Whether fitted values are a column, too."""

    def __call__(
        self, X: np.ndarray, codes: np.ndarray, folds: np.ndarray, counted: np.ndarray
    ) -> tuple[Anchors, Columns]:
        first, mean = _values(self.fits, X, folds)
        anchors = Anchors(self.sizes, self.least)
        anchors.add(first[counted], codes[counted], folds[counted, 0] & 1)
        held = {"values": mean} if self.hold else {}
        return anchors, held | {
            "time": closed_form_times(mean, codes),
            "knockoff": small_codes(most_confident(mean, codes), mean.shape[1]),
            "best": small_codes(np.argmax(mean, axis=1), mean.shape[1]),
        }


@dataclass(frozen=True)
class Grade:
    """The task that grades a block by the chances that labels are right."""

    fits: tuple[LinearFit, ...]
    models: NoiseModels
    noise: Transition
    grading: Grading
    neighbours: int = 0

    def __call__(
        self, X: np.ndarray, codes: np.ndarray, folds: np.ndarray, *votes: np.ndarray
    ) -> tuple[Tally, Columns]:
        _, mean = _values(self.fits, X, folds)
        own, chosen, people = (np.arange(len(codes)), codes), self.models.chosen, self.models.people
        prior = chosen.prior(mean)
        truth = chosen.true_class(mean, codes, prior)
        other = (self.models.by_class if people else self.models.by_people).true_class(mean, codes)
        by_class, by_people = (other, truth) if people else (truth, other)
        # Chances that are added up are those of the labels alone.
        right = chosen.right(mean, prior) if votes or not people else truth
        if votes:
            right = with_votes(right, votes[0], self.noise, self.neighbours)
        tally, grade = self.grading.count(right, codes)
        best = np.argmax(truth, axis=1)
        chance = truth[own[0], best]
        if people:
            # The labels do not say which model is right: by one alone, suggestions are too sure.
            chance = 0.5 * (chance + other[own[0], best])
        return tally, {
            # In single precision: of these only sums are of use.
            "by_class": (1.0 - by_class[own]).astype(np.float32),
            "by_people": (1.0 - by_people[own]).astype(np.float32),
            "grade": grade,
            # In double precision: the most suspicious rows would all have the doubt 1.
            "doubt": 1.0 - right[own].astype(np.float64),
            "best": small_codes(best, mean.shape[1]),
            "chance": chance,
        }


@dataclass(frozen=True)
class Compare:
    """The task that compares the labels of a block with all other classes."""

    fits: tuple[LinearFit, ...]
    losses: Losses

    def __call__(
        self, X: np.ndarray, codes: np.ndarray, folds: np.ndarray
    ) -> tuple[Tally, Columns]:
        _, mean = _values(self.fits, X, folds)
        tally, grade, doubt = self.losses.count(all_times(mean), codes)
        return tally, {"grade": grade, "doubt": doubt}


def small_codes(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return codes in few bytes: columns of all rows are what is left to fill the memory."""
    return codes.astype(np.min_scalar_type(n_classes - 1), copy=False)


def components_of(X: np.ndarray, pca: PCA | None, width: int) -> tuple[None, Columns]:
    """Return rows in at most `width` principal components, or as they are: a task by `partial`."""
    return None, {"rows": X if pca is None else pca.transform(X[None])[0][:, :width]}


def held_out(features: Features, fits: tuple[LinearFit, ...], folds: np.ndarray) -> np.ndarray:
    """Return the fitted values of every class for all rows: ``(rows, classes)``."""
    task = partial(_held_out, fits)
    return features.map(task, folds, extra=fits[0].n_classes)[1]["values"]


def _held_out(
    fits: tuple[LinearFit, ...], X: np.ndarray, folds: np.ndarray
) -> tuple[None, Columns]:
    return None, {"values": _values(fits, X, folds)[1]}
