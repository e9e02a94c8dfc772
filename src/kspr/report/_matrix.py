"""Which labels are taken for which."""

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from kspr.report._facts import label_codes
from kspr.report._svg import ACCENT, INK, PAPER, canvas, style, to_svg
from kspr.report._words import shorten
from kspr.selectors.selection import Selection

__all__ = ["count_suggestions", "matrix"]

MAX_CLASSES = 20


def matrix(selection: Selection) -> tuple[Markup, int]:
    """Draw given by suggested label of the suspects, and return how many classes are shown."""
    table, shown = count_suggestions(selection)
    names = [shorten(label, 14) for label in selection.classes[shown]]
    n, top = len(shown), max(1, int(table.max(initial=0)))
    with style():
        figure, axes = canvas(max(300, 110 + 26 * n), max(250, 90 + 24 * n))
        tiles = [Rectangle((x, y), 0.94, 0.94) for y in range(n) for x in range(n)]
        colour = np.tile(to_rgba(ACCENT), (n * n, 1))
        colour[:, 3] = 0.04 + 0.9 * np.sqrt(table.ravel() / top)
        axes.add_collection(PatchCollection(tiles, facecolors=colour, linewidths=0))
        _number_tiles(axes, table, top)
        _name_tiles(axes, names)
        return to_svg(figure, "matrix", "Suspects by given and by suggested label"), n


def _number_tiles(axes: Axes, table: np.ndarray, top: int) -> None:
    for (i, j), found in np.ndenumerate(table):
        if found:
            shade = PAPER if found > 0.6 * top else INK
            tile = axes.text(j + 0.47, i + 0.5, f"{found}", color=shade, size=9)
            tile.set(ha="center", va="center")


def _name_tiles(axes: Axes, names: list[str]) -> None:
    n, middle = len(names), np.arange(len(names)) + 0.47
    turn = max(map(len, names), default=0) > 3
    axes.set(xlim=(0, n), ylim=(n, 0), xlabel="suggested label", ylabel="given label")
    axes.set_xticks(middle, names, rotation=45 if turn else 0)
    axes.set_yticks(middle, names)
    for tick in axes.get_xticklabels() if turn else []:
        tick.set(ha="right", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


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
