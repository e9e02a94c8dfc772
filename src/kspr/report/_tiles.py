"""A square of tiles, darker where there is more, with its numbers in it."""

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from kspr.report._svg import ACCENT, INK, PAPER, canvas, style, to_svg

__all__ = ["MAX_CLASSES", "draw_tiles"]

MAX_CLASSES = 20
"""Tiles along a side: beyond it, their numbers could not be read."""


def draw_tiles(
    values: np.ndarray,
    numbers: list[list[str]],
    names: list[str],
    *,
    along: str,
    down: str,
    key: str,
    description: str,
) -> Markup:
    """Draw `values`, shaded by their size, with `numbers` on them; rows go `down`."""
    n, top = len(names), float(max(values.max(initial=0), 1e-12))
    with style():
        figure, axes = canvas(max(300, 110 + 26 * n), max(250, 90 + 24 * n))
        tiles = [Rectangle((x, y), 0.94, 0.94) for y in range(n) for x in range(n)]
        colour = np.tile(to_rgba(ACCENT), (n * n, 1))
        colour[:, 3] = 0.04 + 0.9 * np.sqrt(values.ravel() / top)
        axes.add_collection(PatchCollection(tiles, facecolors=colour, linewidths=0))
        _number_tiles(axes, values, numbers, top)
        axes.set(xlabel=along, ylabel=down)
        _name_tiles(axes, names)
        return to_svg(figure, key, description)


def _number_tiles(axes: Axes, values: np.ndarray, numbers: list[list[str]], top: float) -> None:
    for (i, j), value in np.ndenumerate(values):
        if numbers[i][j]:
            shade = PAPER if value > 0.6 * top else INK
            tile = axes.text(j + 0.47, i + 0.5, numbers[i][j], color=shade, size=9)
            tile.set(ha="center", va="center")


def _name_tiles(axes: Axes, names: list[str]) -> None:
    n, middle = len(names), np.arange(len(names)) + 0.47
    turn = max(map(len, names), default=0) > 3
    axes.set(xlim=(0, n), ylim=(n, 0))
    axes.set_xticks(middle, names, rotation=45 if turn else 0)
    axes.set_yticks(middle, names)
    for tick in axes.get_xticklabels() if turn else []:
        tick.set(ha="right", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
