"""A cut that checked samples vouch for, whatever the noise is."""

from dataclasses import dataclass

import numpy as np

from kspr.core.intervals import clopper_pearson_bounds

__all__ = ["CheckedCut", "checked_cut"]

_STEPS = 200
"""Cuts that are tried from each start on."""


@dataclass(frozen=True)
class CheckedCut:
    """The loosest cut that the checked samples vouch for; ``-inf`` if they do for none."""

    cut: float
    n_kept: int
    """Checked samples that it keeps."""
    n_wrong: int
    """Wrong ones among them."""
    upper: float
    """The share of wrong labels among the kept is below this, with the confidence asked for."""


def checked_cut(
    doubt: np.ndarray, right: np.ndarray, q: float, confidence: float, starts: np.ndarray
) -> CheckedCut:
    """Return the loosest cut on `doubt` below which at most `q` of the labels are wrong.

    `doubt` and `right`, whether the label is, are of checked samples. From each of `starts` on,
    looser cuts are tried in turn until one fails: a fixed sequence of exact binomial tests, each
    sequence with its part of the error. The chance that the answer is too loose is then at most
    ``1 - confidence`` over the draw of the checked samples. Starts may depend on the doubt of
    samples, never on which of them are right.
    """
    order = np.argsort(doubt, kind="stable")
    ordered = doubt[order]
    sizes = np.unique(np.searchsorted(ordered, ordered, side="right"))  # ties enter together
    wrong = np.concatenate([[0], np.cumsum(~right[order])])
    sure = 1.0 - (1.0 - confidence) / max(1, len(starts))
    best = CheckedCut(-np.inf, 0, 0, 1.0)
    for start in starts:
        later = sizes[sizes >= max(1, np.searchsorted(ordered, start, side="right"))]
        for size in later[:: max(1, len(later) // _STEPS)]:
            upper = clopper_pearson_bounds(int(wrong[size]), int(size), sure)[1]
            if upper > q:
                break
            if size > best.n_kept:
                best = CheckedCut(float(ordered[size - 1]), int(size), int(wrong[size]), upper)
    return best
