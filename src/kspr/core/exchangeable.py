"""Random knockoff labels, all of them at once: cut-offs for wrong labels that fall evenly.

If a wrong label is any of the wrong classes with equal chance, it could as well have been its
knockoff: swapping the two changes nothing that can be seen. So among pairs whose magnitude,
``min(Z, Z~)``, is the same, a wrong label is ahead as often as behind. Instead of drawing one
knockoff, all ``c - 1`` are compared, each with the weight of its chance: expected counts, and an
answer that does not depend on a draw. `docs/theory.md` has the proof and what it assumes.
Results are on the host by now, so these functions take NumPy arrays only.
"""

import numpy as np

from kspr.core.cutoffs import reachable

__all__ = ["exchangeable_levels", "lead"]


def lead(Z: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each label's own time, and the share of the other classes that it beats."""
    own = Z[np.arange(len(label)), label]
    # Strictly below: a label does not beat itself.
    beaten = np.sum(own[:, None] < Z, axis=1)
    return own, beaten / (Z.shape[1] - 1)


def exchangeable_levels(
    Z: np.ndarray, label: np.ndarray, floor: np.ndarray | None, *, pooled: bool
) -> np.ndarray:
    """Return the smallest level at which each sample is kept; inf for one that never is.

    `Z` ``(rows, classes)`` are the times of all classes as labels. Kept are labels that beat at
    least half of the others, smallest time first. One of the ``c - 1`` alternatives of a wrong
    label is its true class, to which it loses: that is no sign of another wrong label. `floor`, a
    lower bound of the share of wrong labels per class, subtracts these losses.
    """
    own, share = lead(Z, label)
    levels = np.full(len(label), np.inf)
    cut_groups = np.zeros_like(label) if pooled else label
    odds = _odds(floor, Z.shape[1], pooled=pooled)
    for cut_group in np.unique(cut_groups):
        member = np.flatnonzero(cut_groups == cut_group)
        ahead = member[share[member] >= 0.5]
        order = ahead[np.argsort(own[ahead], kind="stable")]
        cuts = own[order]
        # Each counts as the share that it beats: its expected wins over a random knockoff.
        kept = _below(cuts, cuts, share[order])
        behind = _below(cuts, *_losses(Z[member], own[member]))
        off = odds[cut_group] / (Z.shape[1] - 1)
        # Where more are behind than ahead there is nothing to take off.
        wrong = np.clip((behind - off * kept) / (1.0 - off), 0.0, behind)
        # A looser cut cannot hold fewer wrong labels, but what is taken off grows with it.
        levels[order] = reachable((1.0 + np.maximum.accumulate(wrong)) / kept)
    return levels


def _odds(floor: np.ndarray | None, n_classes: int, *, pooled: bool) -> np.ndarray:
    """Return wrong labels per right one, class by class, as far as they are certain."""
    share = np.zeros(n_classes) if floor is None else floor
    if pooled:
        share = np.full(n_classes, share.mean())
    return np.asarray(share / (1.0 - share))


def _losses(Z: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the time of every class that beats a label, and its weight.

    A class that does not itself beat half of the others is left out: as a label it would not
    have been kept either, and a pair counts whichever of the two is the label, or not at all.
    """
    n_classes = Z.shape[1]
    # The class at place p, from 0, beats c - 1 - p others: at least half of them up to this p.
    last = (n_classes + 1) // 2 - 1
    limit = np.partition(Z, last, axis=1)[:, last]
    times = Z[(own[:, None] > Z) & (limit[:, None] >= Z)]
    return times, np.full(len(times), 1.0 / (n_classes - 1))


def _below(cuts: np.ndarray, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the weight of the `values` up to each of the ascending `cuts`."""
    order = np.argsort(values)
    total = np.concatenate([[0.0], np.cumsum(weight[order])])
    return np.asarray(total[np.searchsorted(values[order], cuts, side="right")])
