"""The guard: a user of the cycle must not be worse off than without it.

Five rules, explained with measurements in ``docs/training.md``:

1. A selection is used only if it is healthy (`examine`). A class of which hardly anything is kept
   gets its best-ranked samples back; if that is most classes, the labels are used as they are.
2. Beside the cycle, a reference network learns from the labels as they are. Both are compared on
   held-out samples, by their given labels: wrong labels lower every network's score, but they
   rank networks as the right ones would, as long as no class is mostly mislabelled as one other.
3. When the cycle is clearly behind the reference (`is_behind`), it goes on from the reference's
   weights.
4. At the end, the better network is handed over (`kspr.train.cycle.model_choice`).
5. Where the first selection keeps nearly every label (`keeps_nearly_all`), both networks would
   learn the same. There is nothing to guard, and the held-out samples are given back.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kspr.core.labels import codes_in
from kspr.selectors import Selection

__all__ = ["Health", "as_it_is", "examine", "is_behind", "keeps_nearly_all"]

STARVED = 0.25
"""A class is starved if it keeps less than this share of what the median class keeps..."""
LEAST = 5
"""...or fewer samples than this, or than a quarter of a class that is small itself."""
MARGIN = 2.0
"""Standard errors by which the cycle may be behind before it is stopped."""
NEARLY_ALL = 0.99
"""A selection that keeps this share leaves a cycle that hardly differs from plain training."""


@dataclass(frozen=True, eq=False)
class Health:
    """What may be used of a selection, and why."""

    keep: np.ndarray | None
    """The samples whose labels are used; None: all of them, the selection is not healthy."""
    reasons: tuple[str, ...] = ()
    """Sentences on what was wrong; none for a selection that is used as it is."""


def examine(selection: Selection) -> Health:
    """Return what may be used of `selection`.

    An empty selection, and one that starves most classes, is not used at all. Single starved
    classes get their best-ranked samples, as many as the median class keeps.
    """
    codes = codes_in(selection.classes, selection.label, "label")
    n_classes = len(selection.classes)
    size = np.bincount(codes, minlength=n_classes)
    kept = np.bincount(codes[selection.clean_mask], minlength=n_classes)
    share = kept / size
    usual = float(np.median(share))
    starved = (share < STARVED * usual) | (kept < np.minimum(LEAST, size // 4))
    if starved.sum() * 2 > n_classes or usual == 0:
        return Health(None, (_unhealthy(int(starved.sum()), n_classes, kept.sum() / size.sum()),))
    if not starved.any():
        return Health(selection.clean_mask)
    keep = selection.clean_mask.copy()
    for code in np.flatnonzero(starved).tolist():
        wanted = max(int(usual * size[code]), min(LEAST, int(size[code])))
        keep[_best(selection, codes, code, wanted)] = True
    names = ", ".join(map(str, selection.classes[starved][:5].tolist()))
    return Health(
        keep,
        (f"{int(starved.sum())} classes kept hardly any labels ({names}); the best-ranked of them "
         "are used instead.",),
    )  # fmt: skip


def _unhealthy(n_starved: int, n_classes: int, share: float) -> str:
    return (
        f"{n_starved} of {n_classes} classes kept hardly any labels ({share:.1%} of all); the "
        "labels are used as they are."
    )


def _best(selection: Selection, codes: np.ndarray, code: int, n: int) -> np.ndarray:
    """Return the `n` rows of a class that fit best."""
    rows = np.flatnonzero(codes == code)
    return rows[np.argsort(selection.selection_time[rows], kind="stable")[:n]]


def as_it_is(selection: Selection, least: int) -> Health:
    """Use a selection whatever it is, as the paper does; with fewer than `least`, all labels.

    A step needs two samples on each rank.
    """
    if selection.clean_mask.sum() < least:
        return Health(None, ("The selection is empty; the labels are used as they are.",))
    return Health(selection.clean_mask)


def is_behind(own: Tensor, other: Tensor, margin: float = MARGIN) -> bool:
    """Say whether `own` is right less often than `other`, by more than `margin` standard errors.

    Both are masks over the same samples: what counts is where they differ.
    """
    difference = other.double() - own.double()
    if len(difference) < 2:
        return False
    error = float(difference.std()) / len(difference) ** 0.5
    return float(difference.mean()) > margin * error and bool(torch.any(difference != 0))


def keeps_nearly_all(keep: Tensor | None) -> bool:
    """Say whether a selection that is used (None: it is not) leaves nothing to guard against."""
    return keep is not None and float(keep.double().mean()) >= NEARLY_ALL
