"""How labels go wrong: the estimated rate, the flips, and the matrix."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from scipy.special import ndtri

from kspr.core.transition import wilson_interval
from kspr.report._tiles import MAX_CLASSES, draw_tiles
from kspr.report._words import name, shorten
from kspr.selectors.noise import NoiseEstimate

__all__ = ["Flip", "NoiseFacts", "describe", "largest_flips"]

MAX_FLIPS = 6
_LEAST = 0.005
"""A flip that is rarer than this is not listed."""


@dataclass(frozen=True)
class Flip:
    """How often one class is given the label of another."""

    true: str
    label: str
    chance: float
    low: float
    high: float


@dataclass(frozen=True)
class NoiseFacts:
    """The estimated noise, as the page shows it."""

    rate: float
    low: float
    high: float
    flips: tuple[Flip, ...]
    stands_out: bool
    """Whether any flip is surely more frequent than flips are on average."""
    figure: Markup
    n_shown: int
    """Classes in the figure."""


def describe(noise: NoiseEstimate | None) -> NoiseFacts | None:
    """Return what the page shows of `noise`; None where it was not estimated."""
    if noise is None:
        return None
    flips, shown = largest_flips(noise), _most_wrong(noise)
    return NoiseFacts(
        rate=noise.rate,
        low=noise.rate_interval[0],
        high=noise.rate_interval[1],
        flips=flips,
        stands_out=_stands_out(noise),
        figure=_figure(noise, shown),
        n_shown=len(shown),
    )


def largest_flips(noise: NoiseEstimate, n: int = MAX_FLIPS) -> tuple[Flip, ...]:
    """Return the most frequent flips, the largest first."""
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
    """Say whether some flip is more frequent than flips on average, looked for among them all."""
    flips, pairs = _flips_only(noise.transition), len(noise.classes) * (len(noise.classes) - 1)
    anchors = noise.anchors[:, None].astype(float)
    low, _ = wilson_interval(flips * anchors, anchors, z=float(ndtri(1 - 0.05 / pairs)))
    return bool((low > flips.sum() / pairs).any())


def _most_wrong(noise: NoiseEstimate) -> np.ndarray:
    """Return the classes that most flips come from or go to, in their order."""
    flips = _flips_only(noise.transition)
    concerned = flips.sum(axis=0) + flips.sum(axis=1)
    return np.sort(np.argsort(-concerned, kind="stable")[:MAX_CLASSES])


def _figure(noise: NoiseEstimate, shown: np.ndarray) -> Markup:
    values = noise.transition[np.ix_(shown, shown)]
    return draw_tiles(
        values,
        [[_percent(value) for value in row] for row in values.tolist()],
        [shorten(label, 14) for label in noise.classes[shown]],
        along="label given",
        down="true class",
        key="noise",
        description="Chance of each label for each true class, in percent",
    )


def _percent(value: float) -> str:
    """Return a chance as a whole percentage; nothing where there is next to none."""
    return f"{100 * value:.0f}" if value >= _LEAST else ""
