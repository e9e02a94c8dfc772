"""How good a selection is, where the truth is known."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SelectionQuality:
    """How good a selection is: the paper's three measures, each from 0 to 1."""

    fsr: float
    """Share of wrong labels among the kept samples; 0 when nothing is kept."""
    recall: float
    """Share of the right labels that are kept."""
    f1: float
    """Harmonic mean of ``1 - fsr`` and `recall`."""


def selection_quality(clean_mask: np.ndarray, truly_clean: np.ndarray) -> SelectionQuality:
    """Return how good a selection is, where the truth is known.

    Parameters
    ----------
    clean_mask
        Which samples the selection keeps, one bool per sample: `Selection.clean_mask`.
    truly_clean
        Which samples have a right label, one bool per sample: ``y == y_true``.

    Returns
    -------
    SelectionQuality
        FSR, recall and F1.

    Examples
    --------
    >>> import numpy as np
    >>> selection_quality(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool))
    SelectionQuality(fsr=0.5, recall=0.5, f1=0.5)
    """
    kept = int(clean_mask.sum())
    right = int((clean_mask & truly_clean).sum())
    # Eq. FSR divides by max(1, kept): an empty selection has no wrong labels.
    fsr = 1 - right / kept if kept else 0.0
    recall = right / max(1, int(truly_clean.sum()))
    precision = right / kept if kept else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return SelectionQuality(fsr, recall, f1)
