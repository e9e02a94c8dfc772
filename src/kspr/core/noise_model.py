"""How labels go wrong, by likelihood: by their class, and by what people mistake.

A row's held-out scores say which class it is of, through a link that is fitted; a label of class k
is wrong with a chance of its own, and then goes by a matrix. That is noise that depends on the
class only. People err more where a row is unclear, and towards what it looks like: two numbers
more, a slope in the clarity of rows, and the share of wrong labels that go to look-alikes.

If noise depends on the class only, the labels of the rows that look most like each class, the
anchors, tell all of it. Mistakes of people are rare among such rows and frequent elsewhere. So the
labels of all rows say which it is: are they likelier if errors are what the anchors show, or if
they are the ordinary mistakes of people? Unless the former is clear, the more cautious model stays.
`docs/theory.md` says what is identified, and what is not.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize
from scipy.special import expit, logit, softmax
from scipy.stats import kstest

from kspr.core.arrays import row_blocks, rows_times
from kspr.core.transition import Transition

__all__ = ["NoiseModel", "NoiseModels", "fit_noise", "sample_rows"]

_STREAM = 0x6E6F6973
"""Keeps the sample apart from a user's own `default_rng(0)`, which may have chosen wrong labels."""
_ROWS, _FEWEST, _VALUES = 12_000, 500, 4_000_000
"""Rows that models are fitted to; fewer where these scores would be more in number."""
_COLUMNS = 12
"""Classes of a row that the fit looks at: its likeliest, its label, and the rest as one."""
_FALLING, _RISES_AT = 10.0, (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
"""How firmly the link is held to rise with the score where it is all that there is, and at which
quantiles of all scores. With a falling part, 77 classes were fitted by giving a chance to those
that a row looks least like."""
_DERIVATIVE = np.array([1.0, 2.0, 3.0])
"""Factors of the powers 0, 1 and 2 in the derivative of score, square and cube."""
_QUANTILES = np.linspace(0.0, 1.0, 1001)
_ROUNDS, _STEPS = 8, 8
"""Times that the matrix is estimated anew, and steps of the other parameters in between."""
_LAST, _MORE = 2, 4
"""Rounds on all rows, after those on a part, and where other parameters become free."""
_SETTLED = 1.0
"""Gain of the log-likelihood in a round below which the fit ends."""
_PART = 6_000
"""Rows of which a quarter is fitted first."""
_STARTS = (0.5, 1.0, 2.0, 3.0, 5.0)
_ANY_NOISE = 0.1
"""Noise of the second start, which trusts no anchors: folds of networks and masked classes have
anchors of other classes."""
_CLEAR, _FAR = 15.0, 100.0
"""By how much the log-likelihood must be better to take errors that depend on the class only for
what they are, and to start elsewhere than at the anchors. Of 12,000 rows with noise by class it is
ahead of the mistakes of people by 47 to 250, but of Sym. 80 % by 2 to 21; behind with labels of
people. Errors that are free are ahead of the anchors' by 300 and more where anchors are of other
classes; by up to 90 where a network has learned who is taken for whom, and then they are wrong."""
_SURELY = 3.0
"""How many times as much a part of the rows must show."""
_MASKED = 0.25
"""A class is masked where its score is the largest in less than this share of its labels."""
_SHRUNK = 10.0
"""How firmly scores are held not to count for other classes; less by this factor where a class is
masked. With so little, Sym. 80 % was fitted by its own chance."""
_UNLIKELY = 1e-4
"""Chance of a distance of margins from which on new rows are unlike the old ones."""
_LEAST = 1e-30


@dataclass(frozen=True)
class _Habits:
    """What is known beforehand of people's mistakes."""

    slope: float
    slope_error: float
    lookalike: tuple[float, float]
    """Of a beta distribution: look-alikes, and the matrix."""


_USUAL = _Habits(1.0, 1.0, (2.0, 5.0))
_PINNED = _Habits(1.0, 0.02, (500.0, 500.0))
"""Ordinary mistakes of people, held fast: whether the labels bear them is a test."""


def sample_rows(counted: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the numbers of the rows that models are fitted to, ascending, of those `counted`."""
    # With more classes a row takes longer, and the matrix is known from fewer of its entries.
    most = _ROWS if n_classes <= _COLUMNS else _ROWS // 2
    wanted = min(most, max(_FEWEST, _VALUES // n_classes))
    rows = np.flatnonzero(counted)
    if len(rows) <= wanted:
        return rows
    return np.sort(np.random.default_rng([_STREAM, len(rows)]).choice(rows, wanted, replace=False))


@dataclass(frozen=True)
class NoiseModel:
    """What scores say about the true class, and how labels of it go wrong."""

    scale: float
    link: np.ndarray
    """What the score of a class, its square and its cube count."""
    offset: np.ndarray
    across: np.ndarray | None
    """What the scores of the other classes count: ``(class, score)``; None for nothing."""
    error: np.ndarray
    """Log-odds of a wrong label of each class, where rows are clearest."""
    spread: Transition
    """Where wrong labels go: rows sum to 1, and none stays."""
    margins: np.ndarray
    """Quantiles of the distance of the two largest scores, ascending."""
    slope: float = 0.0
    """How much the log-odds rise from the clearest row to the least clear one."""
    lookalike: float = 0.0
    """Share of the wrong labels that go to a class in proportion to how much a row looks like it,
    instead of by `spread`."""
    log_likelihood: float = 0.0

    def prior(self, scores: np.ndarray) -> np.ndarray:
        """Return the chance of each class, before the label is seen: ``(rows, classes)``."""
        shown = (scores - scores.mean(axis=1, keepdims=True)) / scores.dtype.type(self.scale)
        a, b, c = self.link.astype(shown.dtype)
        z = shown * (a + shown * (b + shown * c)) + self.offset.astype(shown.dtype)
        if self.across is not None:
            z += rows_times(shown, self.across.T.astype(shown.dtype))
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        # A chance that is rounded to 0 would make a label wrong where no label is wrong.
        return np.asarray(np.maximum(z, _LEAST, out=z))

    def right(self, scores: np.ndarray, prior: np.ndarray | None = None) -> np.ndarray:
        """Return the chance that each class, were it the label, would be right."""
        prior = self.prior(scores) if prior is None else prior
        wrong = prior * self.errors(scores)
        stays = prior - wrong
        given = stays + (1.0 - self.lookalike) * self.spread.mix(wrong)
        if self.lookalike:
            # In double precision: the share of the likeliest class is taken off again.
            odds = wrong / _others(prior)
            given += self.lookalike * prior * (odds.sum(axis=1, keepdims=True) - odds)
        return np.asarray(stays / np.maximum(given, _LEAST), dtype=prior.dtype)

    def true_class(
        self, scores: np.ndarray, label: np.ndarray, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the chance of each class to be the true one, the row's label considered."""
        prior = self.prior(scores) if prior is None else prior
        chance = prior * self.chance_of(scores, label, prior)
        chance /= np.maximum(chance.sum(axis=1, keepdims=True, dtype=np.float64), 1e-300)
        return np.asarray(chance)

    def chance_of(self, scores: np.ndarray, label: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Return the chance of the given labels under each true class: ``(rows, classes)``."""
        rows = np.arange(len(label))
        errors = np.broadcast_to(self.errors(scores), prior.shape)
        chance = errors * (1.0 - self.lookalike) * self.spread.columns(label, prior.dtype)
        if self.lookalike:
            alike = self.lookalike * prior[rows, label][:, None]
            chance += (errors * alike / _others(prior)).astype(chance.dtype)
        chance[rows, label] = 1.0 - errors[rows, label]
        return np.asarray(np.maximum(chance, _LEAST, out=chance))

    def errors(self, scores: np.ndarray) -> np.ndarray:
        """Return the chance of a wrong label of each class: one row of them, or one for each."""
        if not self.slope:
            return np.asarray(expit(self.error)[None], dtype=scores.dtype)
        unclear = 1.0 - np.interp(margin_of(scores), self.margins, _QUANTILES)
        errors = expit(self.error + self.slope * unclear[:, None])
        return np.asarray(errors, dtype=scores.dtype)

    def transition(self, scores: np.ndarray) -> Transition:
        """Return the chance of each label given the true class, as a mean over sample rows."""
        size, wrong = np.zeros(len(self.error)), np.zeros(len(self.error))
        # Where wrong labels go depends on the row only for look-alikes.
        to = np.zeros((len(size),) * 2) if self.lookalike and self.spread.written else None
        for rows in row_blocks(len(scores), 4 * len(size)):
            prior = self.prior(scores[rows]).astype(np.float64)
            errors = prior * self.errors(scores[rows])
            size += prior.sum(axis=0)
            wrong += errors.sum(axis=0)
            if to is not None:
                to += (errors / _others(prior)).T @ prior
        share = np.clip(wrong / np.maximum(size, 1e-12), 1e-9, 0.98 * (1.0 - 1.0 / len(size)))
        spread = self.spread
        if to is not None:
            np.fill_diagonal(to, 0.0)
            to /= np.maximum(to.sum(axis=1, keepdims=True), 1e-300)
            own = (1.0 - self.lookalike) * spread.matrix + self.lookalike * to
            spread = replace(spread, even=np.zeros_like(share), own=own)
        noise = spread.with_wrong(share)
        common = float(np.sum(share * size) / size.sum())
        # Clear rows alone tell how many labels are wrong: so many as an eighth of all.
        error = float(np.sqrt(8.0 * common * (1.0 - common) / len(scores)))
        return replace(noise, error=error).counted(size)


@dataclass(frozen=True)
class NoiseModels:
    """The two models of one set of labels, and which of them the labels bear."""

    by_class: NoiseModel
    by_people: NoiseModel
    people: bool
    """Whether people may have made the mistakes: the labels do not say clearly that they depend on
    the class only."""

    def unlike(self, scores: np.ndarray) -> bool:
        """Return whether rows differ from those of the fit in how their margins are distributed."""
        place = np.interp(margin_of(scores), self.chosen.margins, _QUANTILES)
        return bool(kstest(place, "uniform").pvalue < _UNLIKELY)

    @property
    def chosen(self) -> NoiseModel:
        """The model that judges."""
        return self.by_people if self.people else self.by_class


def fit_noise(
    scores: np.ndarray,
    label: np.ndarray,
    anchors: Transition,
    *,
    across: bool,
    class_only: bool = False,
) -> NoiseModels:
    """Return how labels go wrong, fitted to rows with `scores` that have not seen their labels.

    `anchors` is what the surest rows say: the first start of the search. With `across`, scores
    count for other classes, too: those of a linear fit do, because a class between two others
    never has the largest. Log-probabilities of a network would follow differences of its folds.
    With `class_only`, mistakes depend on the class only, whatever the labels say.
    """
    sample = _Sample(scores, label)
    # Most of the way is gone on a part of the rows.
    part = sample if len(label) < 2 * _PART else _Sample(scores[::4], label[::4])
    near = _Fit(part, None, across=across, held=True).started(anchors).run()
    shown = _Fit(sample, None, across=across, held=True).after(near).run(_LAST)
    firsts = [anchors, _evenly(anchors)] if anchors.written else [anchors]
    free = max(
        (_Fit(part, None, across=across).started(first).run() for first in firsts),
        key=lambda fit: fit.log_likelihood,
    )
    # The fit of features leaves out likely wrong labels; a network may have learned them.
    start = free if free.beyond_chance(near) > (_CLEAR if across else _FAR) else shown
    people = False
    if not class_only:
        pinned = _Fit(part, _PINNED, across=across).after(start).run(_MORE)
        # On a part of the rows labels of people were behind by up to 15, and ahead on all.
        people = pinned.beyond_chance(near) > -_CLEAR * (1.0 if part is sample else _SURELY)
        if people and part is not sample:
            pinned = _Fit(sample, _PINNED, across=across).after(pinned).run(_LAST)
            people = pinned.beyond_chance(shown) > -_CLEAR
    by_class = shown
    if people or start is not shown:
        by_class = _Fit(sample, None, across=across).after(start).run(_MORE)
    # Where it does not judge only a mean of it is shown: a part of the rows is enough.
    rows = sample if people else part
    # With many classes look-alikes and the matrix tell the same for long.
    longer = _MORE if sample.all_columns else 4 * _MORE
    by_people = _Fit(rows, _USUAL, across=across and sample.masked()).after(start).run(longer)
    return NoiseModels(by_class.model(), by_people.model(), people)


def _others(prior: np.ndarray) -> np.ndarray:
    """Return the chance of all classes but each, also where that of one is rounded to 1."""
    exact = prior.astype(np.float64)
    return np.asarray(np.maximum(exact.sum(axis=1, keepdims=True) - exact, _LEAST))


def margin_of(scores: np.ndarray) -> np.ndarray:
    """Return how far the largest score of each row is above the second largest."""
    two = np.partition(scores, -2, axis=1)[:, -2:]
    return np.asarray(two[:, 1] - two[:, 0])


def _evenly(noise: Transition) -> Transition:
    """Return the matrix whose wrong labels fall evenly on all other classes."""
    c = len(noise.right)
    wrong = np.full(c, _ANY_NOISE)
    return Transition(1.0 - wrong, wrong / (c - 1), np.zeros((c, c)), 0.0, np.eye(c))


class _Sample:
    """The rows that models are fitted to: classes by rows, of each row the likeliest ones."""

    def __init__(self, scores: np.ndarray, label: np.ndarray) -> None:
        n, c = scores.shape
        shown = scores.astype(np.float64)
        shown -= shown.mean(axis=1, keepdims=True)
        self.scale = max(float(shown.std()), 1e-12)
        shown /= self.scale
        margin = margin_of(scores)
        self.margins = np.quantile(margin, _QUANTILES)
        self.unclear = 1.0 - np.interp(margin, self.margins, _QUANTILES)
        self.n_classes, self.label, self.rows = c, label, np.arange(n)
        self.best, self.all_columns = shown.argmax(axis=1), c <= _COLUMNS
        if self.all_columns:
            self.id = np.broadcast_to(np.arange(c)[:, None], (c, n))
            self.place = label
        else:
            top = np.argpartition(-shown, _COLUMNS - 2, axis=1)[:, : _COLUMNS - 1]
            lacks = np.flatnonzero((top != label[:, None]).all(axis=1))
            values = np.take_along_axis(shown[lacks], top[lacks], axis=1)
            top[lacks, values.argmin(axis=1)] = label[lacks]
            self.place = (top == label[:, None]).argmax(axis=1)
            self.id = np.column_stack([top, np.full(n, c)]).T
        # As large as the score itself, where the score is as large as the largest of a row.
        best = max(float(shown.max(axis=1).mean()), 1e-12)
        self.powers = np.array([1.0, 1.0 / best, 0.576 / best**2])
        self.terms = np.empty((3, *self.id.shape))
        for k in range(3):
            power = shown ** (k + 1) * self.powers[k]
            if self.all_columns:
                self.terms[k] = power.T
                continue
            chosen = np.take_along_axis(power, top, axis=1)
            self.terms[k, :-1] = chosen.T
            # The rest counts as so many classes, each with their mean; its number is that of none.
            # Powers of their mean score would be smaller: labels among them would look likely.
            self.terms[k, -1] = (power.sum(axis=1) - chosen.sum(axis=1)) / (c - _COLUMNS + 1)
        self.rises = _DERIVATIVE * np.quantile(shown, _RISES_AT)[:, None] ** (0, 1, 2)
        self.rises *= self.powers
        self.several = np.zeros((len(self.id), 1))
        if not self.all_columns:
            self.several[-1] = np.log(c - _COLUMNS + 1)

    def masked(self) -> bool:
        """Return whether the score of a class is hardly ever the largest, whatever the row."""
        won = np.bincount(self.best, minlength=self.n_classes)
        return bool(np.any(won < _MASKED * np.bincount(self.label, minlength=self.n_classes)))

    def of_classes(self, values: np.ndarray) -> np.ndarray:
        """Return the value of the class of each column; the rest has the mean."""
        return values[:, None] if self.all_columns else np.append(values, values.mean())[self.id]

    def by_class(self, values: np.ndarray) -> np.ndarray:
        """Return sums of `values`, of columns, by class: what `of_classes` took from each."""
        if self.all_columns:
            return np.asarray(values.sum(axis=1))
        sums = np.bincount(self.id.ravel(), values.ravel(), self.n_classes + 1)
        return np.asarray(sums[:-1] + sums[-1] / self.n_classes)

    def spread_to_label(self, spread: Transition) -> np.ndarray:
        """Return the chance that a wrong label of each column's class is the given one."""
        if self.all_columns:
            return spread.columns(self.label, np.dtype(np.float64)).T
        known = np.minimum(self.id, self.n_classes - 1)
        given = np.broadcast_to(self.label, known.shape)
        chance = np.asarray(spread.own[known.ravel(), given.ravel()]).reshape(known.shape)
        chance = chance + spread.even[known]
        chance[-1] = 1.0 / self.n_classes
        return np.asarray(chance)


@dataclass(frozen=True)
class _Shares:
    """Parts of the chance of the given labels, by columns: what they are likely to have been."""

    prior: np.ndarray
    error: np.ndarray
    right: np.ndarray
    """Right labels, by rows."""
    moved: np.ndarray
    """Wrong ones that went by the matrix."""
    log_likelihood: float
    alike: np.ndarray | None = None
    """Wrong ones that went to a look-alike."""
    others: np.ndarray | None = None
    """One over the chance of all other classes."""


class _Fit:
    """The search for the likeliest model: all parameters by their gradient, the matrix by EM.

    The parameters are the link's three, offsets and errors by class, slope and share of
    look-alikes, and the square of what scores count for other classes. Where errors are `held`,
    they and the matrix stay what they are at the start.
    """

    def __init__(
        self, sample: _Sample, habits: _Habits | None, *, across: bool, held: bool = False
    ) -> None:
        self._sample, self._habits, self._held = sample, habits, held
        c = self._c = sample.n_classes
        # With more classes the square would have more entries than labels tell of.
        self._across = across and sample.all_columns
        # What all other scores together may count is the same for any number of classes.
        self._shrunk = float(c) if sample.masked() else _SHRUNK * c
        self._offset, self._error = slice(3, 3 + c), slice(3 + c, 3 + 2 * c)
        self._slope, self._alike, self._square = 3 + 2 * c, 4 + 2 * c, 5 + 2 * c
        self.x = np.zeros(self._square + (c * c if self._across else 0))
        if habits is not None:
            self.x[self._slope] = habits.slope
            self.x[self._alike] = logit(habits.lookalike[0] / sum(habits.lookalike))
        self.height = -np.inf
        self.log_likelihood = -np.inf

    def started(self, noise: Transition) -> "_Fit":
        """Start at some noise, and at the slope of the link under which labels are likeliest."""
        self.spread = noise.wrong_spread()
        least, most = (1e-9, 0.98) if self._held else (0.01, 0.9)
        wrong = np.clip(1.0 - noise.right, least, most)
        self.x[self._error] = logit(wrong) - self.x[self._slope] / 2
        sample, columns = self._sample, self._sample.spread_to_label(self.spread)
        errors = np.broadcast_to(sample.of_classes(wrong), columns.shape)
        given = errors * columns
        given[sample.place, sample.rows] = 1.0 - errors[sample.place, sample.rows]

        def likelihood(slope: float) -> float:
            prior = softmax(slope * sample.terms[0] + sample.several, axis=0)
            return float(np.log(np.maximum((prior * given).sum(axis=0), 1e-12)).sum())

        self.x[0] = max(_STARTS, key=likelihood)
        return self

    def after(self, other: "_Fit") -> "_Fit":
        """Start where another fit ended, with the same noise on average."""
        self.spread = other.spread
        n = min(len(self.x), len(other.x))
        kept = [*range(self._slope), *range(self._square, n)]
        self.x[kept] = other.x[kept]
        if other._habits is not None:
            self.x[self._slope], self.x[self._alike] = other.x[self._slope], other.x[self._alike]
        else:
            self.x[self._error] -= self.x[self._slope] / 2
        return self

    def beyond_chance(self, held: "_Fit") -> float:
        """Return how much likelier the labels are than where errors and matrix are held."""
        # What is free gains half a unit of the log-likelihood a parameter, whatever the truth. The
        # sample tells of no more of a class than it has wrong labels, nor than a row shows classes.
        size = np.bincount(self._sample.label, minlength=self._c)
        wrong = size * expit(self.x[self._error] + self.x[self._slope] / 2)
        free = float(len(size))
        if self.spread.written:
            free += float(np.minimum(wrong, min(self._c, _COLUMNS) - 1).sum())
        return self.log_likelihood - held.log_likelihood - free / 2

    def run(self, rounds: int = _ROUNDS) -> "_Fit":
        """Search for up to so many rounds."""
        free = self._habits is not None
        bounds = np.full((2, len(self.x)), [[-np.inf], [np.inf]])
        bounds[:, self._error] = self.x[self._error] if self._held else [[-12.0], [8.0]]
        bounds[:, self._slope] = (0.0, 6.0) if free else (0.0, 0.0)
        bounds[:, self._alike] = (-6.0, 6.0) if free else (0.0, 0.0)
        for _ in range(rounds):
            columns = self._sample.spread_to_label(self.spread)
            answer = minimize(
                self._loss,
                self.x,
                (columns,),
                jac=True,
                method="L-BFGS-B",
                # Rows of pairs would be taken apart one by one.
                bounds=Bounds(*bounds),
                options={"maxiter": _STEPS},
            )
            self.x, height = answer.x, -answer.fun
            if self.spread.written and not self._held:
                # What is known of the matrix beforehand: without it, a step of EM may seem a loss.
                height += float(np.log(np.maximum(self.spread.own, 1e-12)).sum()) / self._c
                self._move_spread()
            gained, self.height = height - self.height, height
            if gained < _SETTLED:
                break
        shares = self._shares(self.x, self._sample.spread_to_label(self.spread))
        self.log_likelihood = shares.log_likelihood
        return self

    def model(self) -> NoiseModel:
        """Return what was estimated."""
        sample, c = self._sample, self._c
        free = self._habits is not None
        return NoiseModel(
            scale=sample.scale,
            link=self.x[:3] * sample.powers,
            offset=self.x[self._offset],
            across=self.x[self._square :].reshape(c, c) if self._across else None,
            error=self.x[self._error],
            spread=self.spread,
            margins=sample.margins,
            slope=float(self.x[self._slope]) if free else 0.0,
            lookalike=float(expit(self.x[self._alike])) if free else 0.0,
            log_likelihood=self.log_likelihood,
        )

    def _shares(self, x: np.ndarray, columns: np.ndarray) -> _Shares:
        sample = self._sample
        own = sample.place, sample.rows
        z = np.tensordot(x[:3], sample.terms, 1) + sample.of_classes(x[self._offset])
        z += sample.several
        if self._across:
            z += x[self._square :].reshape(self._c, self._c) @ sample.terms[0]
        z -= z.max(axis=0)
        prior = np.exp(z, out=z)
        prior /= prior.sum(axis=0)
        odds = sample.of_classes(np.exp(x[self._error]))
        if self._habits is not None:
            odds = odds * np.exp(x[self._slope] * sample.unclear)
        error = np.broadcast_to(odds / (1.0 + odds), prior.shape)
        stays = prior[own] * (1.0 - error[own])
        wrong = prior * error
        # No label is wrong that is the true class's.
        wrong[own] = 0.0
        moved = wrong * columns
        if self._habits is None:
            given = np.maximum(stays + moved.sum(axis=0), 1e-300)
            moved /= given
            return _Shares(prior, error, stays / given, moved, float(np.log(given).sum()))
        share = expit(x[self._alike])
        others = 1.0 / np.maximum(1.0 - prior, 1e-9)
        alike, of_label = wrong * others, share * prior[own]
        given = stays + (1.0 - share) * moved.sum(axis=0) + of_label * alike.sum(axis=0)
        given = np.maximum(given, 1e-300)
        moved *= (1.0 - share) / given
        alike *= of_label / given
        height = float(np.log(given).sum())
        return _Shares(prior, error, stays / given, moved, height, alike, others)

    def _loss(self, x: np.ndarray, columns: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log-likelihood with what is known beforehand, and its gradient."""
        sample, shares = self._sample, self._shares(x, columns)
        own = sample.place, sample.rows
        # By the logits of the classes.
        logits = shares.moved.copy()
        logits[own] += shares.right
        logits -= shares.prior * logits.sum(axis=0)
        wrong = shares.moved
        if shares.alike is not None:
            alike, prior = shares.alike, shares.prior
            total = alike.sum(axis=0)
            again = alike * prior
            again *= shares.others
            logits -= prior * (2 * total + again.sum(axis=0))
            logits += alike
            logits += again
            logits[own] += total
            wrong = shares.moved + alike
        # By the log-odds of the errors.
        errors = wrong * (1.0 - shares.error)
        errors[own] -= shares.right * shares.error[own]
        slope = np.zeros_like(x)
        slope[:3] = np.tensordot(sample.terms, logits, 2)
        slope[self._offset] = sample.by_class(logits)
        slope[self._error] = sample.by_class(errors)
        # Each class's own offset, and its own error, count as one observation of the common one.
        offset, error = x[self._offset], x[self._error] - x[self._error].mean()
        slope[self._offset] -= offset
        slope[self._error] -= error
        height = shares.log_likelihood - 0.5 * (offset @ offset + error @ error)
        if self._habits is not None and shares.alike is not None:
            height += self._known(x, shares, errors, slope)
        if not self._across:
            falls = np.minimum(sample.rises @ x[:3], 0.0)
            height -= 0.5 * _FALLING * float(falls @ falls)
            slope[:3] -= _FALLING * (falls @ sample.rises)
        else:
            square = x[self._square :]
            height -= 0.5 * self._shrunk * float(square @ square)
            slope[self._square :] = (logits @ sample.terms[0].T).ravel()
            slope[self._square :] -= self._shrunk * square
        return -height, -slope

    def _known(
        self, x: np.ndarray, shares: _Shares, errors: np.ndarray, slope: np.ndarray
    ) -> float:
        """Return what habits add to the log-likelihood, and set their part of its gradient."""
        habits = self._habits
        assert habits is not None and shares.alike is not None  # noqa: S101, PT018
        off = (x[self._slope] - habits.slope) / habits.slope_error
        slope[self._slope] = errors.sum(axis=0) @ self._sample.unclear - off / habits.slope_error
        share = expit(x[self._alike])
        alike, moved = habits.lookalike
        alike, moved = alike - 1.0, moved - 1.0
        slope[self._alike] = (shares.alike.sum() + alike) * (1.0 - share)
        slope[self._alike] -= (shares.moved.sum() + moved) * share
        return float(alike * np.log(share) + moved * np.log(1.0 - share) - 0.5 * off**2)

    def _move_spread(self) -> None:
        """Estimate where wrong labels go, twice: the likelihood rises with every step."""
        sample, c = self._sample, self._c
        known = slice(None) if sample.all_columns else slice(0, -1)
        place = (sample.id[known].astype(np.int64) * c + sample.label).ravel()
        for _ in range(2):
            shares = self._shares(self.x, sample.spread_to_label(self.spread))
            counts = np.bincount(place, shares.moved[known].ravel(), c * c).reshape(c, c)
            # One observation of each class, spread evenly.
            counts += 1.0 / c
            np.fill_diagonal(counts, 0.0)
            own = counts / counts.sum(axis=1, keepdims=True)
            self.spread = replace(self.spread, even=np.zeros(c), own=own)
