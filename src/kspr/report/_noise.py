"""Noise on the page: the estimated flips, as a figure and as a list."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from scipy.special import ndtri

from kspr._figures import ACCENT, INK, canvas, style, to_svg
from kspr._text import shorten
from kspr.core.intervals import wilson_interval
from kspr.report._words import name
from kspr.selectors.noise_estimate import NoiseEstimate

MAX_CLASSES = 20
"""Largest number of tiles along a side; the numbers in more could not be read."""
MAX_FLIPS = 6
_LEAST = 0.005
"""Smallest chance of a flip that is listed."""


@dataclass(frozen=True)
class Flip:
    """The chance that a row of one class gets the label of another."""

    true: str
    label: str
    chance: float
    low: float
    high: float


@dataclass(frozen=True)
class NoiseFacts:
    """The estimated noise, and what of it is shown."""

    estimate: NoiseEstimate
    flips: tuple[Flip, ...]
    stands_out: bool
    """Whether any flip is significantly more frequent than the average flip."""
    figure: Markup | None
    """None for so many classes that flips are not estimated one by one."""
    n_shown: int
    """Number of classes in the figure."""


def describe(noise: NoiseEstimate | None) -> NoiseFacts | None:
    """Return what the page shows of `noise`; None without an estimate."""
    if noise is None:
        return None
    if not noise.transition.size:
        return NoiseFacts(noise, (), stands_out=False, figure=None, n_shown=0)
    shown = _most_wrong(noise)
    return NoiseFacts(
        noise, largest_flips(noise), _stands_out(noise), _figure(noise, shown), len(shown)
    )


def largest_flips(noise: NoiseEstimate, n: int = MAX_FLIPS) -> tuple[Flip, ...]:
    """Return the most frequent flips, the largest first."""
    # transition[a, k]: the chance that a row of class a has the label k.
    chance = _flips_only(noise.transition)
    order = np.argsort(-chance, axis=None, kind="stable")[:n]
    places = zip(*np.unravel_index(order, chance.shape), strict=True)
    return tuple(
        Flip(
            name(noise.classes[a]),
            name(noise.classes[k]),
            float(chance[a, k]),
            float(noise.low[a, k]),
            float(noise.high[a, k]),
        )
        for a, k in places
        if chance[a, k] >= _LEAST
    )


def _flips_only(transition: np.ndarray) -> np.ndarray:
    return np.asarray(transition * (1.0 - np.eye(len(transition))))


def _stands_out(noise: NoiseEstimate) -> bool:
    """Return whether some flip is more frequent than the average, at 5 % over all pairs."""
    flips, pairs = _flips_only(noise.transition), len(noise.classes) * (len(noise.classes) - 1)
    anchors = noise.anchors[:, None].astype(float)
    # Bonferroni: some of many flips is above the average by chance.
    low, _ = wilson_interval(flips * anchors, anchors, z=float(ndtri(1 - 0.05 / pairs)))
    return bool((low > flips.sum() / pairs).any())


def _most_wrong(noise: NoiseEstimate) -> np.ndarray:
    """Return the classes that most flips come from or go to, in the order of classes."""
    flips = _flips_only(noise.transition)
    # Into the class, and out of it.
    concerned = flips.sum(axis=0) + flips.sum(axis=1)
    return np.sort(np.argsort(-concerned, kind="stable")[:MAX_CLASSES])


def _figure(noise: NoiseEstimate, shown: np.ndarray) -> Markup:
    """Draw a square of tiles, darker for larger chances, with percentages on them."""
    values = noise.transition[np.ix_(shown, shown)]
    names = [shorten(name(label), 14) for label in noise.classes[shown]]
    n, top = len(names), float(max(values.max(initial=0), 1e-12))
    with style():
        figure, axes = canvas(max(300, 110 + 26 * n), max(250, 90 + 24 * n))
        # A tile is 0.94 wide, so that a gap stays; 0.47 below is its middle.
        tiles = [Rectangle((x, y), 0.94, 0.94) for y in range(n) for x in range(n)]
        colour = np.tile(to_rgba(ACCENT), (n * n, 1))
        # The root makes small values visible beside the diagonal. Half of the colour at most, so
        # that the numbers can be read on every tile, on light and on dark pages.
        colour[:, 3] = 0.04 + 0.51 * np.sqrt(values.ravel() / top)
        axes.add_collection(PatchCollection(tiles, facecolors=colour, linewidths=0))
        for (i, j), value in np.ndenumerate(values):
            if value >= _LEAST:
                number = f"{100 * value:.0f}"
                axes.text(j + 0.47, i + 0.5, number, color=INK, size=9, ha="center", va="center")
        axes.set(xlabel="label given", ylabel="true class")
        _name_tiles(axes, names)
        return to_svg(figure, "noise", "Chance of each label for each true class, in percent")


def _name_tiles(axes: Axes, names: list[str]) -> None:
    n, middle = len(names), np.arange(len(names)) + 0.47
    turn = max(map(len, names), default=0) > 3
    # Upside down: the first row of a matrix is at the top.
    axes.set(xlim=(0, n), ylim=(n, 0))
    axes.set_xticks(middle, names, rotation=45 if turn else 0)
    axes.set_yticks(middle, names)
    for tick in axes.get_xticklabels() if turn else []:
        tick.set(ha="right", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
