"""The methods of others: by probabilities, by neighbours, and by a softmax model in training."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.linear_model import LogisticRegression

from kspr._packages import require
from kspr.errors import InputError
from kspr.experiments.compare.peers.shared import (
    NEIGHBOURS,
    PACKAGE,
    Judged,
    Shared,
    centred,
    nearest_rows,
)

_STREAM = 3471
"""First number of the seed of all draws: a user may seed other draws with the second."""
_ROUNDS = 300
_CONVERGED = 1e-6
_FIRST_RIGHT = 0.7
"""Share of right labels that the search starts from: more than half keeps the classes in place."""


@dataclass(frozen=True)
class Cleanlab:
    """Confident learning (Northcutt, Jiang and Chuang 2021): a filter of the package cleanlab.

    Its input are cross-validated probabilities.
    """

    filter_by: str
    by_probabilities = True
    needs = ("cleanlab.filter", "cleanlab.count", "cleanlab.rank")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the filter does not call an issue; rank by cleanlab's label quality score."""
        del seed
        filters, count, rank = (
            require(name, "The filter of cleanlab", PACKAGE) for name in self.needs
        )
        probabilities = shared.probabilities()
        issues = filters.find_label_issues(
            shared.y, probabilities, filter_by=self.filter_by, n_jobs=1
        )
        quality = rank.get_label_quality_scores(shared.y, probabilities)
        joint = count.estimate_joint(shared.y, probabilities)
        # `joint` is the distribution of given and true label: what is off its diagonal is noise.
        return Judged(~issues, -quality, float(1 - np.trace(joint)))


@dataclass(frozen=True)
class Datalab:
    """The label check of `cleanlab.Datalab.find_issues(features=...)`, with its default `k`."""

    k: int = 10
    needs = ("datasets", "cleanlab.datalab.datalab")

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what Datalab does not call an issue; it finds the neighbours itself."""
        del seed
        module = require("cleanlab.datalab.datalab", "Datalab", PACKAGE)
        lab = module.Datalab({"y": shared.y}, label_name="y", task="classification", verbosity=0)
        # Datalab fails when it is asked for as many neighbours as there are rows.
        k = min(self.k, len(shared.y) - 2)
        lab.find_issues(features=shared.X, issue_types={"label": {"k": k}})
        issues = lab.get_issues("label")
        # Counts, not shares, as opposed to estimate_joint.
        joint = np.asarray(lab.get_info("label")["confident_joint"], dtype=float)
        return Judged(
            ~issues["is_label_issue"].to_numpy(),
            -issues["label_score"].to_numpy(),
            float(1 - np.trace(joint) / joint.sum()),
        )


@dataclass(frozen=True)
class SmallLoss:
    """Keep the share 1 - e with the smallest loss, where e is the noise rate, which must be known.

    The rule of Co-teaching (Han et al. 2018) on cross-validated losses. The share is of all
    samples, not of each class, because Co-teaching ranks a mini-batch as a whole.
    """

    by_probabilities = True

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep the samples with the smallest losses."""
        del seed
        rate = shared.known_rate
        if rate is None:
            raise InputError(
                "small-loss must be told the noise rate: pass Shared(..., known_rate=0.2)."
            )
        # The rule needs the loss of a model that has not seen the row: own rows have small losses.
        own = shared.probabilities()[np.arange(len(shared.y)), shared.y]
        loss = -np.log(np.maximum(own, np.finfo(np.float64).tiny))
        clean = np.zeros(len(loss), dtype=bool)
        clean[np.argsort(loss, kind="stable")[: round((1 - rate) * len(loss))]] = True
        return Judged(clean, loss)


@dataclass(frozen=True)
class Neighbours:
    """Keep a label if no other label is more frequent among the `k` nearest rows.

    A rule that many papers compare with; `k` is chosen here, for data of thousands of rows.
    """

    k: int = NEIGHBOURS

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep labels with most votes; rank by the lead of the most frequent other label."""
        del seed
        votes = votes_of(shared.y[shared.neighbours(self.k)], shared.n_classes)
        rows = np.arange(len(votes))
        own, most = votes[rows, shared.y], votes.max(axis=1)
        # So that the maximum below is over the other labels.
        votes[rows, shared.y] = -1
        return Judged(own == most, (votes.max(axis=1) - own).astype(float))


def votes_of(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Count each label in each row of `labels`: ``(rows, n_classes)``."""
    n = len(labels)
    flat = np.arange(n)[:, None] * n_classes + labels
    return np.bincount(flat.ravel(), minlength=n * n_classes).reshape(n, n_classes)


@dataclass(frozen=True)
class TopoFilter:
    """Keep the largest connected component of every class, without its outliers (Wu et al. 2020).

    The numbers are those of the public code (github.com/pxiangwu/TopoFilter). With `mutual`, two
    rows are linked only if each is among the nearest of the other; in that code one direction is
    enough.
    """

    k: int = 4
    k_outlier: int = 32
    agreement: float = 0.5
    mutual: bool = False

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep rows of the core whose neighbours in the core agree; rank by disagreement."""
        del seed
        y, n_classes = shared.y, shared.n_classes
        # One search serves both numbers of neighbours: the nearest come first.
        index = shared.neighbours(max(self.k, self.k_outlier))
        core = largest_components(index[:, : self.k], y, mutual=self.mutual)
        rows = np.flatnonzero(core)
        # A small core has fewer other rows than neighbours asked for.
        k = min(self.k_outlier, len(rows) - 1)
        clean = core.copy()
        # Rows outside the core are more suspicious than any row inside, whose share is at most 1.
        suspicion = 1.0 + _disagreement(y[index[:, : self.k_outlier]], y, n_classes)[0]
        if k > 0:
            around = y[rows][nearest_rows(shared.X[rows], k)]
            share, ahead = _disagreement(around, y[rows], n_classes)
            clean[rows] = ahead & (1.0 - share >= self.agreement)
            suspicion[rows] = share
        return Judged(clean, suspicion)


def largest_components(index: np.ndarray, y: np.ndarray, *, mutual: bool) -> np.ndarray:
    """Return a mask of the rows in the largest component of their class's part of the graph.

    `index` holds each row's nearest rows, of any class. Of components of equal size, the one with
    the smallest row number is taken.
    """
    n, k = index.shape
    source, target = np.repeat(np.arange(n), k), index.ravel()
    same = y[source] == y[target]
    one_way = csr_array((np.ones(same.sum(), np.int8), (source[same], target[same])), shape=(n, n))
    graph = one_way.multiply(one_way.T) if mutual else one_way
    _, component = connected_components(graph, directed=False)
    size = np.bincount(component)
    # Edges stay inside a class, so a component's class is that of its first row.
    # Ties in size go to the smallest row, so that the answer does not depend on scipy.
    first = np.full(len(size), n)
    np.minimum.at(first, component, np.arange(n))
    # By class, then the largest first: the first of each class leads.
    order = np.lexsort((first, -size, y[first]))
    leads = np.diff(y[first[order]], prepend=-1) != 0
    return np.asarray(np.isin(component, order[leads]))


def _disagreement(
    around: np.ndarray, y: np.ndarray, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of other labels around each row, and whether its own has most votes."""
    votes = votes_of(around, n_classes)
    own = votes[np.arange(len(y)), y]
    return 1.0 - own / around.shape[1], own == votes.max(axis=1)


@dataclass(frozen=True)
class SimiFeat:
    """Keep labels by the votes of the `k` nearest rows, the authors' number (Zhu et al. 2022).

    Both rules suppose that a row and its two nearest rows share their true class. `vote` drops a
    label that another one outnumbers among the nearest rows. `rank` estimates how labels go wrong
    from triples of labels, and drops that share of each class. Written from the paper, and simpler
    than the authors' code in four points: one round on all rows instead of many on random parts;
    features as they are, without augmented images; Euclidean distances instead of cosines; and the
    transition matrix by expectation maximisation on the triples, where the authors descend on the
    frequencies of agreement.
    """

    rule: Literal["vote", "rank"]
    k: int = 10

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep by the rule; rank by how little the votes resemble the label."""
        del seed
        y, n_classes = shared.y, shared.n_classes
        around = shared.neighbours(self.k)
        votes = votes_of(y[around], n_classes)
        own = votes[np.arange(len(y)), y]
        # The cosine of the angle between the votes and the label as an indicator.
        score = own / np.linalg.norm(votes, axis=1)
        share, matrix = fit_triples(np.column_stack([y, y[around[:, :2]]]), n_classes)
        kept = own == votes.max(axis=1)
        if self.rule == "rank":
            kept = _best_of_each(score, y, share, matrix)
        return Judged(kept, -score, float(1.0 - share @ np.diag(matrix)))


def _best_of_each(
    score: np.ndarray, y: np.ndarray, share: np.ndarray, matrix: np.ndarray
) -> np.ndarray:
    """Keep, of each class, as many of the highest scores as labels are estimated to be right."""
    kept = np.zeros(len(y), dtype=bool)
    seen = share @ matrix
    for k in range(len(share)):
        rows = np.flatnonzero(y == k)
        # Bayes: P(class k | label k).
        right = share[k] * matrix[k, k] / max(seen[k], 1e-12)
        kept[rows[np.argsort(-score[rows], kind="stable")[: round(right * len(rows))]]] = True
    return kept


def fit_triples(triples: np.ndarray, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each true class, and the chance of each label given the true class.

    The three labels of a row of `triples` are taken as three draws for one true class. Then the
    frequencies of triples identify the matrix, without a row whose class is known.
    """
    counts = votes_of(triples, n_classes).astype(np.float64)
    # The same counts come again and again where classes are few.
    counts, times = np.unique(counts, axis=0, return_counts=True)
    share = counts.T @ times / triples.size
    matrix = np.full((n_classes, n_classes), (1.0 - _FIRST_RIGHT) / max(1, n_classes - 1))
    np.fill_diagonal(matrix, _FIRST_RIGHT)
    for _ in range(_ROUNDS):
        logs = counts @ np.log(np.maximum(matrix, 1e-12)).T + np.log(np.maximum(share, 1e-12))
        part = np.exp(logs - logs.max(axis=1, keepdims=True))
        part *= times[:, None] / part.sum(axis=1, keepdims=True)
        share = part.sum(axis=0) / times.sum()
        new = part.T @ counts
        new /= np.maximum(new.sum(axis=1, keepdims=True), 1e-12)
        moved = float(np.abs(new - matrix).max())
        matrix = new
        if moved < _CONVERGED:
            break
    return np.asarray(share), np.asarray(matrix)


@dataclass(frozen=True)
class Margins:
    """Drop a sample whose margin, averaged over training, is below that of made-up labels.

    The area under the margin of Pleiss et al. (2020). Threshold samples, one in ``n_classes + 1``,
    get the label of an extra class that means nothing. The `percentile` of their areas, the
    paper's, is the cut-off. As in the paper this is done twice with different threshold samples, so
    that every sample is judged once. How the model is trained was chosen here with the help of the
    true labels, in the method's favour.
    """

    epochs: int = 20
    batch: int = 128
    learning_rate: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    percentile: float = 99.0

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep areas above the cut-off; rank by the distance below it."""
        n, c = len(shared.y), shared.n_classes
        rng = np.random.default_rng([_STREAM, seed])
        order = rng.permutation(n)
        # As many as a class has on average, the made-up class counted in.
        size = max(1, n // (c + 1))
        below = np.empty(n)
        X = centred(shared.X)
        for turn, made_up in enumerate((order[:size], order[size : 2 * size])):
            labels = shared.y.copy()
            labels[made_up] = c
            area = area_under_margin(X, labels, c + 1, self, rng)
            # The second turn judges only what were threshold samples in the first.
            judged = np.ones(n, dtype=bool) if turn == 0 else np.isin(np.arange(n), order[:size])
            judged[made_up] = False
            below[judged] = np.percentile(area[made_up], self.percentile) - area[judged]
        return Judged(below <= 0, below)


@dataclass(frozen=True)
class LogitMargin:
    """Drop a sample whose own logit was, over the epochs of training, mostly not the largest.

    The margin is in-sample: the model is trained on the very labels that it judges, and stops
    before it learns the wrong ones by heart.
    """

    how: Margins = Margins()

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep positive margins; rank by the margin."""
        rng = np.random.default_rng([_STREAM, seed])
        X = centred(shared.X)
        margin = area_under_margin(X, shared.y, shared.n_classes, self.how, rng)
        return Judged(margin > 0, -margin)


@dataclass(frozen=True)
class Logistic:
    """Keep the labels that a logistic regression, trained on all of them, predicts itself."""

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep labels with the largest probability; rank by how far theirs is behind."""
        del seed
        X, own = centred(shared.X), (np.arange(len(shared.y)), shared.y)
        margin = _margin(LogisticRegression(max_iter=200).fit(X, shared.y).predict_proba(X), own)
        return Judged(margin >= 0, -margin)


def area_under_margin(
    X: np.ndarray, y: np.ndarray, n_classes: int, how: Margins, rng: np.random.Generator
) -> np.ndarray:
    """Return each sample's margin, own logit minus the largest other, averaged over epochs.

    The margin of a sample is measured in every epoch just before the step that uses the sample.
    """
    weights = np.zeros((X.shape[1], n_classes))
    bias = np.zeros(n_classes)
    pushes = np.zeros_like(weights), np.zeros_like(bias)
    total = np.zeros(len(y))
    for _ in range(how.epochs):
        order = rng.permutation(len(y))
        for start in range(0, len(y), how.batch):
            rows = order[start : start + how.batch]
            own = np.arange(len(rows)), y[rows]
            logits = X[rows] @ weights + bias
            total[rows] += _margin(logits, own)
            # Softmax without overflow; less one at the own class, the slope of cross-entropy.
            error = np.exp(logits - logits.max(axis=1, keepdims=True))
            error /= error.sum(axis=1, keepdims=True)
            error[own] -= 1.0
            slopes = X[rows].T @ error / len(rows), error.mean(axis=0)
            for value, push, slope in zip((weights, bias), pushes, slopes, strict=True):
                push *= how.momentum
                push += slope + how.weight_decay * value
                value -= how.learning_rate * push
    return total / how.epochs


def _margin(logits: np.ndarray, own: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    others = logits.copy()
    others[own] = -np.inf
    return np.asarray(logits[own] - others.max(axis=1))
