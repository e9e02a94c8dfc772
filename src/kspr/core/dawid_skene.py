"""Several labels a row: the true class behind them.

Labels alone are judged by the model of Dawid and Skene (1979): annotator a gives a row of class k
the label j with the chance ``T_a[k, j]``, independently of the others, and EM alternates between
the chance of each class and the matrices.

What a row looks like says more: which class is likely, and where people err. The noise model of
one label a row (`noise_model.py`) says how likely each label is for each class and row, and the
matrices of Dawid and Skene how an annotator differs from all. Given all that, labels are taken for
independent. But people also err together where no feature shows it, which makes the model too sure:
its log-odds are scaled down by one factor, the *weight* of the evidence, at which each label is
predicted best from the other labels of its row. The less that is, the more counts the other end:
all annotators are one person, whose only label is the consensus of the labels.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import log_softmax, logit, logsumexp, softmax

from kspr.core.arrays import row_blocks
from kspr.core.noise_model import NoiseModel, NoiseModels, fit_noise, sample_rows
from kspr.core.probabilities import count_anchors_evenly
from kspr.core.transition import estimate_transition

_SHRINK = 10.0
"""Labels per class that the common matrix counts for in that of each annotator, and that one rate
of errors for all classes counts for in the common matrix."""
_ROUNDS = 200
_SETTLED = 1e-5
"""Mean change of a chance from which on EM has ended."""
_SHIFTS, _SHIFT_ROWS = 8, 20_000
"""Rounds in which the rate of errors is estimated anew, and rows that it is from."""
_WORTHS = (0.2, 1.0)
"""Range of the weight: at 1 annotators err independently. Above it, they would have to avoid the
errors of each other."""
_CALIBRATION = 10_000
"""Rows that the weight is fitted to."""


@dataclass(frozen=True, eq=False)
class Votes:
    """Labels of several annotators, one entry per label; all are codes from 0."""

    row: np.ndarray
    annotator: np.ndarray
    label: np.ndarray
    n_rows: int
    n_classes: int


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """The model, fitted. A *pair* is an annotator with one of the labels that they gave."""

    chance: np.ndarray
    """Chance of each class to be the true one, as the model has it: ``(rows, classes)``."""
    log_chance: np.ndarray
    """Log-chance of the label of each pair given the true class: ``(pairs, classes)``."""
    relative: np.ndarray
    """The same, above that of the common annotator."""
    pair: np.ndarray
    """Number of the pair of each vote."""


def dawid_skene(votes: Votes, log_prior: np.ndarray | None = None) -> DawidSkene:
    """Fit the model by EM, from the shares of the votes on.

    `log_prior` ``(rows, classes)`` is what is known of each row without its labels; without it, the
    classes have shares that are estimated too. The matrix of an annotator is shrunken towards the
    common one, all the more the fewer labels there are; and so is the common one of a rare class
    towards errors at one rate, without which a single odd label would be a class of its own.

    >>> row, label = np.repeat(np.arange(4), 3), np.array([0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1, 0])
    >>> fit = dawid_skene(Votes(row, np.tile([0, 1, 2], 4), label, n_rows=4, n_classes=2))
    >>> fit.chance.argmax(axis=1)
    array([0, 0, 1, 1])
    """
    pairs, pair = np.unique(votes.annotator * votes.n_classes + votes.label, return_inverse=True)
    annotator, label = np.divmod(pairs, votes.n_classes)
    size = (votes.n_rows, len(pairs))
    given = csr_array((np.ones(len(pair)), (votes.row, pair)), shape=size)
    # Which annotator, and which label, each pair is of.
    of_annotator, of_label = (
        csr_array((np.ones(len(pairs)), (kind, np.arange(len(pairs)))), shape=(n, len(pairs)))
        # A class may have no label at all.
        for kind, n in ((annotator, annotator.max() + 1), (label, votes.n_classes))
    )
    chance = (given @ np.eye(votes.n_classes)[label]) / given.sum(axis=1)[:, None]
    for _ in range(_ROUNDS):
        counts = given.T @ chance
        common = _common_matrix(of_label @ counts)
        # Pairs that nobody gave have a chance too, but no row asks for it.
        shrunken = counts + _SHRINK * common[label]
        log_chance = np.log(shrunken / (of_annotator @ counts + _SHRINK)[annotator])
        known = np.log(chance.mean(axis=0) + 1e-12) if log_prior is None else log_prior
        before, chance = chance, softmax(known + given @ log_chance, axis=1)
        if np.abs(chance - before).mean() < _SETTLED:
            break
    return DawidSkene(chance, log_chance, log_chance - np.log(common[label]), pair)


def _common_matrix(counts: np.ndarray) -> np.ndarray:
    """Return the chance of each label (row) given the true class (column), over all annotators."""
    c = len(counts)
    # One of each more: with no error at all, a chance of 0 would rule out every class.
    right = (np.trace(counts) + 1.0) / (counts.sum() + 2.0)
    even = np.full((c, c), (1.0 - right) / max(c - 1, 1))
    np.fill_diagonal(even, right)
    return np.asarray((counts + _SHRINK * even) / (counts.sum(axis=0) + _SHRINK))


@dataclass(frozen=True, eq=False)
class Consensus:
    """What the labels and the features of each row say together."""

    chance: np.ndarray
    """Chance of each class to be the true one: ``(rows, classes)``."""
    independent: np.ndarray
    """The same if annotators err independently, up to the weight."""
    together: np.ndarray
    """The same if they err like one person."""
    evidence_weight: float
    """What the log-odds of the model are worth; 1 where annotators err independently."""


def find_consensus(
    votes: Votes, label: np.ndarray, values: np.ndarray, classes: np.ndarray
) -> Consensus:
    """Return the chance of each of the `classes`, for each row, from its labels and its features.

    `label` is the consensus of the labels alone, `classes` those that it has, sorted, and `values`
    ``(rows, classes)`` are fitted values of these that have seen no label of their row.
    """
    label = np.searchsorted(classes, label)
    column = np.full(votes.n_classes, -1)
    column[classes] = np.arange(len(classes))
    order = np.lexsort((votes.annotator, votes.row))
    row, given = votes.row[order], column[votes.label[order]]
    first = np.searchsorted(row, np.arange(votes.n_rows + 1))
    # One label a row, the annotators in turn.
    count = np.diff(first)
    single = given[first[:-1] + np.arange(votes.n_rows) % count]
    model = _noise_of(values, np.where(single < 0, label, single)).chosen
    # A class that wins no row by labels alone cannot win one by both.
    log_prior = np.full((votes.n_rows, votes.n_classes), -np.inf)
    log_prior[:, classes] = np.log(model.prior(values))
    fit = dawid_skene(votes, log_prior)
    crowd = _Crowd(model, values, (first, given, fit.pair[order]), fit.relative[:, classes])
    crowd.fit_shift()
    evidence = np.concatenate(
        [crowd.evidence(slice_)[0] for slice_ in row_blocks(votes.n_rows, 4 * values.shape[1])]
    )
    weight = crowd.weight(evidence, np.flatnonzero(count > 1))
    independent = softmax(weight * evidence, axis=1)
    people = _noise_of(values, label).by_people
    together = people.true_class(values, label)
    if together.max(axis=1).mean() > independent.max(axis=1).mean():
        # The labels of one person would be surer: independent annotators are the cautious end.
        together = independent
    chance = weight * independent + (1.0 - weight) * together
    return Consensus(chance, independent, together, weight)


def _noise_of(values: np.ndarray, label: np.ndarray) -> NoiseModels:
    """Return how one label a row goes wrong."""
    anchors = estimate_transition(count_anchors_evenly(values, label))
    rows = sample_rows(np.ones(len(label), dtype=bool), values.shape[1])
    return fit_noise(values[rows], label[rows], anchors, across=True)


class _Crowd:
    """Annotators who err as a noise model says, with a common shift of its log-odds.

    How much better or worse an annotator is than the others is `relative`, by pairs. `votes` are
    where those of each row begin, and their labels and pairs, row after row.
    """

    def __init__(
        self,
        model: NoiseModel,
        values: np.ndarray,
        votes: tuple[np.ndarray, ...],
        relative: np.ndarray,
    ) -> None:
        self._model, self._values, self._relative = model, values, relative
        self._first, self._label, self._pair = votes

    def evidence(self, rows: slice | np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the log-chance of each class of some rows together with their labels.

        Then, by votes: their labels, their rows among these, and the log-chance of each under each
        class, and the chance of an error by class.
        """
        scores = self._values[rows]
        begin = self._first[:-1][rows]
        count = self._first[1:][rows] - begin
        place = np.repeat(np.arange(len(count)), count)
        vote = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(len(place))
        prior, label = self._model.prior(scores).astype(np.float64), self._label[vote]
        known = np.flatnonzero(label >= 0)
        error = np.broadcast_to(self._model.errors(scores), scores.shape)
        log_chance = self._relative[self._pair[vote]]
        log_chance[known] += np.log(
            self._model.chance_of(scores[place[known]], label[known], prior[place[known]])
        )
        total = np.add.reduceat(log_chance, np.cumsum(count) - count, axis=0)
        return np.log(prior) + total, label, place, log_chance, error

    def fit_shift(self) -> None:
        """Estimate how much more often than one label a row says annotators err."""
        n = len(self._values)
        rows = np.unique(np.linspace(0, n - 1, min(n, _SHIFT_ROWS)).astype(np.int64))
        blocks = [rows[block] for block in row_blocks(len(rows), 4 * self._values.shape[1])]
        for _ in range(_SHIFTS):
            right = wrong = expected = 1.0
            for block in blocks:
                evidence, label, place, _, error = self.evidence(block)
                chance = softmax(evidence, axis=1)
                right += chance[place[label >= 0], label[label >= 0]].sum()
                wrong += len(label)
                expected += np.sum((chance * error).sum(axis=1)[place])
            shift = logit(1 - right / wrong) - logit(expected / wrong)
            self._model = replace(self._model, error=self._model.error + shift)

    def weight(self, evidence: np.ndarray, rows: np.ndarray) -> float:
        """Return the factor at which the other labels of a row predict each label, of `rows`."""
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, _CALIBRATION).astype(np.int64))]
        _, _, place, own, _ = self.evidence(rows)
        others = evidence[rows][place] - own

        def loss(weight: float) -> float:
            return -float(logsumexp(log_softmax(weight * others, axis=1) + own, axis=1).mean())

        return round(float(minimize_scalar(loss, bounds=_WORTHS, options={"xatol": 1e-3}).x), 2)
