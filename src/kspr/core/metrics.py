"""How good a selection is, when the truth is known."""

from dataclasses import dataclass

import numpy as np

__all__ = ["SelectionQuality", "selection_quality"]


@dataclass(frozen=True)
class SelectionQuality:
    """The paper's three measures of a selection."""

    fsr: float
    """Share of wrong labels among the kept samples; 0 when nothing is kept."""
    recall: float
    """Share of the right labels that are kept."""
    f1: float
    """Harmonic mean of ``1 - fsr`` and `recall`."""


def selection_quality(clean_mask: np.ndarray, truly_clean: np.ndarray) -> SelectionQuality:
    """Compare a clean mask with the truth.

    >>> import numpy as np
    >>> selection_quality(np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool))
    SelectionQuality(fsr=0.5, recall=0.5, f1=0.5)
    """
    kept = int(clean_mask.sum())
    right = int((clean_mask & truly_clean).sum())
    fsr = 1 - right / kept if kept else 0.0
    recall = right / max(1, int(truly_clean.sum()))
    precision = right / kept if kept else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return SelectionQuality(fsr, recall, f1)
