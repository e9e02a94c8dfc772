"""Several labels a row: the true class behind them, by the model of Dawid and Skene (1979).

Annotator a gives a row of class k the label j with the chance ``T_a[k, j]``, independently of the
other annotators. EM alternates between the chance of each class and the matrices. Two things are
added. What a row looks like is a prior of its class. And people err together on rows that are hard,
which makes the model too sure: its log-odds are scaled down by one factor, the *weight* of the
evidence, at which each label is predicted best from the other labels of its row.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import log_softmax, logsumexp, softmax

from kspr.core.chances import TEMPERATURES

__all__ = ["Consensus", "DawidSkene", "Votes", "dawid_skene", "find_consensus"]

_SHRINK = 10.0
"""Labels per class that the common matrix counts for in that of each annotator, and that one rate
of errors for all classes counts for in the common matrix."""
_ROUNDS = 200
_SETTLED = 1e-5
"""Mean change of a chance from which on EM has ended."""
_WORTHS = (0.2, 1.0)
"""Range of the weight: at 1 annotators err independently. Above it, they would have to avoid the
errors of each other."""
_CALIBRATION = 10_000
"""Rows, or labels, that one number is fitted to."""


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

    evidence: np.ndarray
    """Log-chance of each class of each row together with its labels: ``(rows, classes)``."""
    log_chance: np.ndarray
    """Log-chance of the label of each pair given the true class: ``(pairs, classes)``."""
    pair: np.ndarray
    """Number of the pair of each vote."""

    @property
    def chance(self) -> np.ndarray:
        """Chance of each class to be the true one, as the model has it."""
        return np.asarray(softmax(self.evidence, axis=1))


@dataclass(frozen=True, eq=False)
class Consensus:
    """What the labels and the features of each row say together."""

    chance: np.ndarray
    """Chance of each class to be the true one: ``(rows, classes)``."""
    evidence_weight: float
    """What the log-odds of the model are worth; 1 where annotators err independently."""


def find_consensus(votes: Votes, prediction: np.ndarray) -> Consensus:
    """Return the chance of each class of each row, from its labels and its features.

    `prediction` ``(rows, classes)`` are fitted values that have seen no label of their row; minus
    infinity for a class that no row can have.
    """
    fit = dawid_skene(votes, log_softmax(prediction / _temperature(votes, prediction), axis=1))
    weight = _evidence_weight(votes, fit)
    return Consensus(np.asarray(softmax(weight * fit.evidence, axis=1)), weight)


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
        evidence = known + given @ log_chance
        before, chance = chance, softmax(evidence, axis=1)
        if np.abs(chance - before).mean() < _SETTLED:
            break
    return DawidSkene(evidence, log_chance, pair)


def _common_matrix(counts: np.ndarray) -> np.ndarray:
    """Return the chance of each label (row) given the true class (column), over all annotators."""
    c = len(counts)
    # One of each more: with no error at all, a chance of 0 would rule out every class.
    right = (np.trace(counts) + 1.0) / (counts.sum() + 2.0)
    even = np.full((c, c), (1.0 - right) / max(c - 1, 1))
    np.fill_diagonal(even, right)
    return np.asarray((counts + _SHRINK * even) / (counts.sum(axis=0) + _SHRINK))


def _temperature(votes: Votes, prediction: np.ndarray) -> float:
    """Return the temperature of the fitted values under which all labels are most likely."""
    fit = dawid_skene(votes)
    # Without the shares of the classes, which the fitted values contain.
    labels = fit.evidence - logsumexp(fit.evidence, axis=1, keepdims=True)
    labels = labels - np.log(fit.chance.mean(axis=0) + 1e-12)
    some = _spread(votes.n_rows)

    def log_likelihood(temperature: float) -> float:
        prior = log_softmax(prediction[some] / temperature, axis=1)
        return float(logsumexp(prior + labels[some], axis=1).mean())

    return max(TEMPERATURES, key=log_likelihood)


def _evidence_weight(votes: Votes, fit: DawidSkene) -> float:
    """Return the factor on the evidence at which the other labels of a row predict each label."""
    several = np.flatnonzero(np.bincount(votes.row, minlength=votes.n_rows)[votes.row] > 1)
    some = several[_spread(len(several))]
    own = fit.log_chance[fit.pair[some]]
    others = fit.evidence[votes.row[some]] - own

    def loss(weight: float) -> float:
        return -float(logsumexp(log_softmax(weight * others, axis=1) + own, axis=1).mean())

    return round(float(minimize_scalar(loss, bounds=_WORTHS, options={"xatol": 1e-3}).x), 2)


def _spread(count: int) -> np.ndarray:
    """Return positions, evenly spread, that are enough to fit one number."""
    return np.unique(np.linspace(0, count - 1, min(count, _CALIBRATION)).astype(np.int64))
