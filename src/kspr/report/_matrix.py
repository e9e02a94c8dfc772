"""Which labels are taken for which."""

import numpy as np
from markupsafe import Markup

from kspr.report._facts import label_codes
from kspr.report._tiles import MAX_CLASSES, draw_tiles
from kspr.report._words import shorten
from kspr.selectors.selection import Selection

__all__ = ["count_suggestions", "matrix"]


def matrix(selection: Selection) -> tuple[Markup, int]:
    """Draw given by suggested label of the suspects, and return how many classes are shown."""
    table, shown = count_suggestions(selection)
    drawn = draw_tiles(
        table,
        [[str(found) if found else "" for found in row] for row in table.tolist()],
        [shorten(label, 14) for label in selection.classes[shown]],
        along="suggested label",
        down="given label",
        key="matrix",
        description="Suspects by given and by suggested label",
    )
    return drawn, len(shown)


def count_suggestions(selection: Selection) -> tuple[np.ndarray, np.ndarray]:
    """Count the suspects by given and suggested label, for the classes they concern most."""
    suspects = np.flatnonzero(~selection.clean_mask)
    given = label_codes(selection, selection.label[suspects])
    suggested = label_codes(selection, selection.suggested_label[suspects])
    n_classes = len(selection.classes)
    moved = np.concatenate([codes[given != suggested] for codes in (given, suggested)])
    order = np.lexsort([-np.bincount(codes, minlength=n_classes) for codes in (given, moved)])
    shown = np.sort(order[:MAX_CLASSES])
    position = np.full(n_classes, -1)
    position[shown] = np.arange(len(shown))
    inside = (position[given] >= 0) & (position[suggested] >= 0)
    flat = position[given[inside]] * len(shown) + position[suggested[inside]]
    table = np.bincount(flat, minlength=len(shown) ** 2)
    return table.reshape(len(shown), len(shown)), shown
