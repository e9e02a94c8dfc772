"""Made data: Gaussian classes with wrong labels, and selections made from numbers alone."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr import KnockoffsSPR, PaperKnockoffsSPR, Selection, selection_quality
from kspr.core.paper.knockoffs import q_values
from kspr.selectors.provenance import Manifest
from tests.conftest import Noisy

__all__ = [
    "DRAWS",
    "KINDS",
    "LEVELS",
    "Kind",
    "as_selection",
    "assert_within",
    "by_control",
    "draw_labels",
    "gaussian",
    "pairs",
    "realised",
    "symmetric",
]


@dataclass(frozen=True)
class Kind:
    """Class shares, how labels go wrong, and whether they do so alike in every class."""

    shares: np.ndarray
    matrix: np.ndarray
    alike: bool = True


def symmetric(c: int, e: float) -> np.ndarray:
    """Return a matrix that sends a share `e` of every class evenly to all others."""
    return (1 - e) * np.eye(c) + e / (c - 1) * (1 - np.eye(c))


def pairs(c: int, e: float) -> np.ndarray:
    """Return a matrix that sends a share `e` of every class to the next one."""
    return (1 - e) * np.eye(c) + e * np.roll(np.eye(c), 1, axis=1)


def draw_labels(rng: np.random.Generator, true: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return a label for each true class."""
    passed = rng.random(len(true))[:, None] > np.cumsum(matrix, axis=1)[true]
    return np.minimum(passed.sum(axis=1), len(matrix) - 1)


def gaussian(seed: int, kind: Kind, n: int = 1500, gap: float = 3.0) -> Noisy:
    """Return features of unit spread around centres `gap` sqrt(2) apart, and noisy labels."""
    rng, c = np.random.default_rng([0x73696D, seed]), len(kind.shares)
    true = rng.choice(c, n, p=kind.shares)
    X = gap * np.eye(c, 8)[true] + rng.standard_normal((n, 8))
    return Noisy(X, draw_labels(rng, true, kind.matrix), true)


_EVEN, _UNEVEN = np.full(5, 0.2), np.array([0.4, 0.25, 0.2, 0.1, 0.05])
_VARIED = np.array([0.05, 0.15, 0.25, 0.35, 0.45])[:, None]
KINDS = {
    "sym 20": Kind(_EVEN, symmetric(5, 0.2)),
    "sym 40": Kind(_EVEN, symmetric(5, 0.4)),
    "pairs 20": Kind(_EVEN, pairs(5, 0.2)),
    "pairs 40": Kind(_EVEN, pairs(5, 0.4)),
    "uneven, sym 30": Kind(_UNEVEN, symmetric(5, 0.3)),
    "uneven, pairs 30": Kind(_UNEVEN, pairs(5, 0.3)),
    "varied": Kind(_EVEN, (1 - _VARIED) * np.eye(5) + _VARIED / 4 * (1 - np.eye(5)), False),
    "two, sym 25": Kind(np.array([0.5, 0.5]), symmetric(2, 0.25)),
    "two, one way": Kind(np.array([0.6, 0.4]), np.array([[0.9, 0.1], [0.35, 0.65]]), False),
}


LEVELS = np.array([0.05, 0.1, 0.2])

DRAWS = 24


def realised(kind: Kind, **choice: object) -> tuple[np.ndarray, np.ndarray]:
    """Return FSR and recall, ``(draws, levels)``."""
    answers = []
    for seed in range(DRAWS):
        data = gaussian(seed, kind)
        selection = KnockoffsSPR(**choice).fit(data.X, data.y).selection_
        found = [selection_quality(selection.at(q).clean_mask, data.right) for q in LEVELS]
        answers.append([(quality.fsr, quality.recall) for quality in found])
    return tuple(np.moveaxis(np.array(answers), 2, 0))


def assert_within(fsr: np.ndarray) -> None:
    """Assert that the mean FSR is at most q + 2 standard errors at every level."""
    error = fsr.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    assert (fsr.mean(axis=0) <= LEVELS + 2 * error).all(), (fsr.mean(axis=0), error)


def by_control(
    q: float = 0.05, *, control: str = "transition", **choices: Any
) -> KnockoffsSPR | PaperKnockoffsSPR:
    """Return the selector that has a control; the paper's without pieces, pooled and fixed."""
    if control not in ("paper", "theorem"):
        return KnockoffsSPR(q, control=control, **choices)
    whole = {"classes_per_group": None, "samples_per_class": None, "reduction": 128}
    usual = {"level": "fixed", "cut": "pooled", "fit_intercept": True, "progress": False}
    return PaperKnockoffsSPR(q, control=control, **{**whole, **usual, **choices})


def as_selection(
    W: np.ndarray, cut_group: np.ndarray, n_cut_groups: int, factor: float = 1.0
) -> Selection:
    """Return what the paper's controls make of W, before any cut."""
    table = np.zeros((n_cut_groups, 3), dtype=np.int64)
    table[:, 2] = np.arange(n_cut_groups)
    return Selection.uncut(
        cut_group,
        np.arange(n_cut_groups),
        cut_group=cut_group,
        table=table,
        q_value=q_values(W, cut_group) / factor,
        doubt=np.where(W < 0, -W, np.inf),
        selection_time=np.abs(W),
        suggested_code=cut_group,
        manifest=Manifest("PaperKnockoffsSPR", {"control": "paper"}, 0, len(W), 1, "", {}),
    )
