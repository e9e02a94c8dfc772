"""A few labels of real data made wrong, for the self-check: which rows, and what they become."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from kspr.selectors.parts import HostFeatures

ESTIMATED = "estimated"
"""More of the noise that is there already, as far as it was estimated."""
HARD = "hard"
_NEAR = 0.2
"""For hard flips: share of the rows that count as near a class border."""
_MOST = 2.5
"""With estimated flips, no class has more than this times the overall share flipped."""


@dataclass(frozen=True)
class FlipData:
    """Data whose labels are to be flipped."""

    features: HostFeatures
    codes: np.ndarray
    transition: np.ndarray
    """Chance of each label (column) given the true class (row), as estimated."""
    least: int
    """Rows that must stay in a class."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.transition)

    @cached_property
    def means(self) -> np.ndarray:
        """Mean features of each class, by the labels as given."""
        total = np.zeros((self.n_classes, self.features.shape[1]))
        for here, block in self.features.chosen_blocks(None):
            # total[codes] += rows would add only one row per class.
            np.add.at(total, self.codes[here], _dense(block))
        return np.asarray(total / self._sizes[:, None])

    @cached_property
    def nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """Nearest class mean but the own one, and how far the row is from the border between."""
        near, margin = [], []
        for here, block in self.features.chosen_blocks(None):
            rows, own = _dense(block), self.codes[here, None]
            distance = np.sqrt(_squared_distances(rows, self.means))
            mine = np.take_along_axis(distance, own, axis=1)[:, 0]
            np.put_along_axis(distance, own, np.inf, axis=1)
            near.append(distance.argmin(axis=1))
            margin.append(np.abs(distance.min(axis=1) - mine))
        return np.concatenate(near), np.concatenate(margin)

    @cached_property
    def _sizes(self) -> np.ndarray:
        return np.bincount(self.codes, minlength=self.n_classes)

    def spared(self, rows: np.ndarray) -> np.ndarray:
        """Return `rows` without those that would leave less than half of a class, or too few."""
        room = np.minimum(self._sizes // 2, self._sizes - self.least)
        own = self.codes[rows]
        order = np.argsort(own, kind="stable")
        rank = np.empty(len(rows), dtype=np.int64)
        # Rank within the class, in the order drawn: the surplus is cut from the end.
        rank[order] = np.arange(len(rows)) - np.searchsorted(own[order], own[order])
        return np.asarray(rows[rank < room[own]])


def flip(
    kind: str, data: FlipData, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Flip the share `share` of the labels; return the flipped rows, and the new codes of all rows.

    Fewer are flipped where a class would lose too many of its labels.
    """
    wanted = round(share * len(data.codes))
    if kind == HARD:
        near, margin = data.nearest
        # Ranks: _NEAR is then a share of the rows, whatever the scale of the features.
        rank = np.argsort(np.argsort(margin, kind="stable"), kind="stable")
        rows = data.spared(draw_rows(np.exp(-rank / (_NEAR * len(rank))), wanted, rng))
        target = near[rows]
    else:
        chance, wanted = _BY_CLASS[kind](data, wanted)
        rows = data.spared(draw_rows(chance.sum(axis=1)[data.codes], wanted, rng))
        target = _drawn_labels(chance[data.codes[rows]], rng)
    flipped = data.codes.copy()
    flipped[rows] = target
    return rows, flipped


def draw_rows(weight: np.ndarray, wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `wanted` rows without replacement, by weight; never one of weight 0.

    The largest of log weight plus Gumbel noise are such a draw.
    """
    with np.errstate(divide="ignore"):
        key = np.log(weight) + rng.gumbel(size=len(weight))
    # Rows of weight 0 have the key -inf: they come last, and in only where others run out.
    drawn = np.argsort(-key, kind="stable")[:wanted]
    return np.asarray(drawn[weight[drawn] > 0])


def _drawn_labels(chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a class for each row of weights ``(rows, classes)``."""
    total = np.cumsum(chance, axis=1)
    # argmax of bools is the first True: the class whose interval holds the draw.
    return np.asarray((total > rng.random((len(total), 1)) * total[:, -1:]).argmax(axis=1))


def _symmetric(data: FlipData, wanted: int) -> tuple[np.ndarray, int]:
    """Return flips to any other class, with equal chance."""
    return 1.0 - np.eye(data.n_classes), wanted


def _pair(data: FlipData, wanted: int) -> tuple[np.ndarray, int]:
    """Return flips to the next class."""
    return np.eye(data.n_classes)[np.roll(np.arange(data.n_classes), -1)], wanted


def _similar(data: FlipData, wanted: int) -> tuple[np.ndarray, int]:
    """Return flips to the class with the nearest mean."""
    distance = _squared_distances(data.means, data.means)
    np.fill_diagonal(distance, np.inf)
    return np.eye(data.n_classes)[distance.argmin(axis=1)], wanted


def _estimated(data: FlipData, wanted: int) -> tuple[np.ndarray, int]:
    """Return flips like the estimated noise; symmetric ones where there is none."""
    flips = data.transition * (1.0 - np.eye(data.n_classes))
    rate = flips.sum(axis=1)
    if rate.max() < 1e-3:
        return _symmetric(data, wanted)
    typical = float(np.mean(rate[data.codes]))
    # The noisiest class flips rate.max() / typical times the overall share; fewer flips limit it.
    return flips, round(wanted * min(1.0, _MOST * typical / float(rate.max())))


def _squared_distances(rows: np.ndarray, means: np.ndarray) -> np.ndarray:
    # Expanded, so that no array of (rows, classes, features) is made; rounding can go below 0.
    cross = rows @ means.T
    squared = np.sum(rows**2, axis=1)[:, None] - 2.0 * cross + np.sum(means**2, axis=1)
    return np.asarray(np.maximum(squared, 0.0))


_BY_CLASS: dict[str, Callable[[FlipData, int], tuple[np.ndarray, int]]] = {
    ESTIMATED: _estimated,
    "symmetric": _symmetric,
    "pair": _pair,
    "similar": _similar,
}
"""Each kind that depends on the class only: weights of the new labels, and how many flips."""

KINDS = {
    ESTIMATED: "more of the noise that was estimated",
    "symmetric": "to any other class",
    "pair": "each class to one other",
    "similar": "each class to the most similar one",
    HARD: "rows near a class border, across it",
}
"""Each kind of flips, and what it does."""


def _dense(block: Any) -> np.ndarray:
    return np.asarray(block.toarray() if issparse(block) else block, dtype=np.float64)
