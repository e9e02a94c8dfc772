"""A cut-off from checked samples that holds an error rate for any noise."""

from dataclasses import dataclass

import numpy as np

from kspr.core.intervals import clopper_pearson_bounds

__all__ = ["CheckedCut", "checked_cut"]

_STEPS = 200
"""Number of cut-offs that are tried from each start on."""


@dataclass(frozen=True)
class CheckedCut:
    """The loosest cut-off for which the checked samples show that the error rate holds."""

    cut: float
    """Keep samples up to this doubt; ``-inf`` keeps none."""
    n_kept: int
    """Checked samples that are kept."""
    n_wrong: int
    """Wrong ones among them."""
    upper: float
    """Upper bound of the share of wrong labels among the kept, with the confidence asked for."""


def checked_cut(
    doubt: np.ndarray, right: np.ndarray, q: float, confidence: float, starts: np.ndarray
) -> CheckedCut:
    """Return the loosest cut-off on `doubt` below which at most `q` of the labels are wrong.

    `doubt` and `right` describe the checked samples. From each of `starts` on, looser cut-offs are
    tried in turn until one fails: a fixed sequence of exact binomial tests, and the sequences share
    the error. Over draws of the checked samples, the probability that the result is too loose is
    then at most ``1 - confidence``. `starts` may depend on the doubt of samples, never on which of
    them are right.
    """
    order = np.argsort(doubt, kind="stable")
    ordered = doubt[order]
    sizes = np.unique(np.searchsorted(ordered, ordered, side="right"))  # ties enter together
    # wrong[k] counts the wrong labels among the k checked rows of least doubt.
    wrong = np.concatenate([[0], np.cumsum(~right[order])])
    # Bonferroni over the sequences; the tests within one sequence need no correction.
    sure = 1.0 - (1.0 - confidence) / max(1, len(starts))
    best = CheckedCut(-np.inf, 0, 0, 1.0)
    for start in starts:
        later = sizes[sizes >= max(1, np.searchsorted(ordered, start, side="right"))]
        # Sizes may be skipped: which ones depends on the doubts alone, never on `right`.
        for size in later[:: max(1, len(later) // _STEPS)]:
            upper = clopper_pearson_bounds(int(wrong[size]), int(size), sure)[1]
            if upper > q:
                # A fixed sequence ends at its first failure: a later pass could be luck.
                break
            if size > best.n_kept:
                best = CheckedCut(float(ordered[size - 1]), int(size), int(wrong[size]), upper)
    return best
