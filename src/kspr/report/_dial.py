"""The dial: what other levels of q would keep, as a table and as a curve."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kspr._figures import ACCENT, KEPT, LINE, MUTED, PAPER, canvas, style, to_svg
from kspr.core.labels import truly_clean
from kspr.report._facts import pooled_estimate
from kspr.report._words import level
from kspr.selectors.selection import Selection

__all__ = ["DialStep", "dial", "dial_figure"]

_POINTS = 200
"""Largest number of points of the curve."""
LEVELS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class DialStep:
    """What one fixed level of q would keep."""

    q: float
    n_kept: int
    share: float
    estimate: float
    n_empty: int
    """Cut groups that keep nothing at this level."""
    measured: float | None
    """Share of wrong labels among the kept ones, by the given true labels."""


def dial(selection: Selection, truth: np.ndarray | None) -> list[DialStep]:
    """Return what each level of a grid, and the level asked for, would keep."""
    asked = selection.cut_groups.q_asked[np.isfinite(selection.cut_groups.q_asked)]
    levels = sorted({*LEVELS, *asked[:1].tolist()})
    right = None if truth is None else truly_clean(selection.label, truth)
    steps = []
    for q in levels:
        other = selection.at(q)
        n_kept = int(other.clean_mask.sum())
        wrong = None
        if right is not None and n_kept:
            wrong = float((~right[other.clean_mask]).mean())
        steps.append(
            DialStep(
                q=q,
                n_kept=n_kept,
                share=n_kept / len(other),
                estimate=pooled_estimate(other),
                n_empty=int((other.cut_groups.status == "empty").sum()),
                measured=wrong,
            )
        )
    return steps


def dial_figure(selection: Selection, truth: np.ndarray | None) -> Markup:
    """Draw the estimated FSR against the share kept at all levels; mark this selection."""
    curve = selection.curve()
    # Beyond half of the labels wrong, a level is of no use and would squeeze the rest.
    n = int(np.searchsorted(curve.q, LEVELS[-1], side="right"))
    point = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(int))
    share = curve.share_kept[point]
    with style():
        figure, axes = canvas(390, 240)
        # One level alone has no line; without a marker its point would be invisible.
        dot = "o" if len(point) == 1 else ""
        axes.plot(share, curve.estimated_fsr[point], color=KEPT, linewidth=2, marker=dot, ms=3)
        if truth is not None:
            # A level keeps the first `n_kept` rows by rising q, and entry n - 1 is for n rows.
            measured = _measured(selection, truth)[curve.n_kept[point] - 1]
            axes.plot(
                share, measured, color=MUTED, linewidth=1.4, linestyle=(0, (4, 3)), clip_on=False
            )
        _mark(axes, selection, share.tolist())
        axes.set_xlabel("share of rows kept")
        axes.set_ylabel("wrong among them")
        axes.grid(axis="y", color=LINE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: level(value))
            axis.set_major_locator(MaxNLocator(5))
        return to_svg(figure, "dial", "Estimated error rate against the share of rows kept")


def _measured(selection: Selection, truth: np.ndarray) -> np.ndarray:
    """Return the share of wrong labels among the first 1, 2, ... rows, by rising q."""
    assert selection.q_value is not None  # noqa: S101 - only selections with levels have a curve
    order = np.argsort(selection.q_value, kind="stable")
    wrong = ~truly_clean(selection.label, truth)[order]
    return np.asarray(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


def _mark(axes: Axes, selection: Selection, shares: list[float]) -> None:
    """Mark the selection on the curve, if it has an estimate."""
    now = (float(selection.clean_mask.mean()), pooled_estimate(selection))
    if not np.isfinite(now[1]):
        return
    # The name goes to the side with more room.
    right = now[0] > np.mean([min(shares, default=0), max(shares, default=1)])
    axes.plot(*now, "o", color=ACCENT, ms=8, markeredgecolor=PAPER, zorder=5, clip_on=False)
    axes.annotate(
        "this selection",
        now,
        (-8, 8) if right else (8, -14),
        textcoords="offset points",
        color=ACCENT,
        ha="right" if right else "left",
        weight="bold",
    )
