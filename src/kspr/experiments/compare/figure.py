"""A comparison as files: JSON, and a figure of cost, F1, FSR and recall."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._files import write_json, write_text
from kspr.errors import MissingExtraError
from kspr.experiments.compare.comparison import REFERENCES, Comparison, Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_figure", "write_comparison"]

_OURS = "kspr"
_FASTEST = 1e-3
"""Smallest number of seconds on the axis."""
_GAP = 0.065
"""Smallest distance between two names, as a share of the figure's height."""


def write_comparison(found: Comparison, folder: Path, command: Sequence[str]) -> tuple[Path, ...]:
    """Write ``comparison.json`` to `folder` and, with Matplotlib, ``comparison.svg``."""
    path = folder / "comparison.json"
    when = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"command": shlex.join(command), "date": when, **found.to_dict()}
    write_json(path, about)
    # An optional package; the numbers are there without it.
    if find_spec("matplotlib") is None:
        return (path,)
    picture = folder / "comparison.svg"
    write_text(picture, comparison_figure(found))
    return path, picture


def comparison_figure(found: Comparison) -> str:
    """Return an SVG file's text: F1 against seconds, and FSR and recall of each method."""
    try:
        from matplotlib.figure import Figure

        from kspr._figures import standalone, style, to_svg
    except ImportError as error:
        raise MissingExtraError("The figure", "'knockoffs-spr[report]'") from error
    trials = [trial for trial in found.trials if trial.method not in REFERENCES]
    with style():
        height = 90 + 22 * max(len(trials), 6)
        figure = Figure(figsize=(860 / 72, height / 72), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_cost(left, trials)
        _draw_rates(right, trials, found.q)
        description = "Methods compared: F1, seconds, FSR and recall"
        return standalone(to_svg(figure, "comparison", description))


def _colours(trials: list[Trial]) -> list[str]:
    from kspr._figures import ACCENT, KEPT

    return [ACCENT if trial.method.startswith(_OURS) else KEPT for trial in trials]


def _draw_cost(axes: "Axes", trials: list[Trial]) -> None:
    from matplotlib.ticker import LogLocator

    from kspr._figures import LINE

    # A logarithmic axis has no place for zero.
    seconds = np.maximum([trial.seconds for trial in trials], _FASTEST)
    f1 = np.array([trial.f1 for trial in trials])
    colours = _colours(trials)
    low, high = f1.min() - 0.02, f1.max() + 0.02
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_ylim(low, high)
    axes.set_xlim(seconds.min() / 2, seconds.max() * 2)
    axes.scatter(seconds, f1, c=colours, s=34, zorder=3, linewidths=0)
    # Names stand beside the panel, in the order of F1: beside their points they would overlap.
    heights = spread((f1 - low) / (high - low), _GAP)
    for trial, x, y, height, colour in zip(trials, seconds, f1, heights, colours, strict=True):
        axes.annotate(
            f"{trial.method}{'*' * trial.told}  {trial.f1:.3f}",
            (x, y),
            (1.05, height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=9.5,
            arrowprops={"arrowstyle": "-", "color": LINE, "linewidth": 0.7, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
    axes.set(xlabel="seconds, cross-validation and neighbours included", ylabel="F1")


def spread(wanted: Any, gap: float) -> np.ndarray:
    """Return heights in [0, 1], near the wanted ones, in their order and at least `gap` apart."""
    # More names than fit are set as far apart as the height allows.
    gap = min(gap, 1.0 / max(len(wanted), 1))
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    # Isotonic regression: heights that would overlap get the mean of their group.
    blocks: list[list[float]] = []
    # Less its step, "at least a gap apart" becomes "not falling", which isotonic regression gives.
    for value in (np.asarray(wanted, dtype=float)[order] - steps).tolist():
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    heights = np.empty(len(order))
    pooled = np.concatenate([[np.mean(block)] * len(block) for block in blocks])
    heights[order] = np.clip(pooled, 0.0, 1.0 - steps[-1]) + steps
    return heights


def _draw_rates(axes: "Axes", trials: list[Trial], q: float) -> None:
    from kspr._figures import ACCENT, INK, KEPT, MUTED

    rows = np.arange(len(trials))
    axes.barh(rows - 0.19, [trial.recall for trial in trials], 0.36, color=KEPT, label="recall")
    axes.barh(rows + 0.19, [trial.fsr for trial in trials], 0.36, color=ACCENT, label="FSR")
    axes.axvline(q, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.annotate(f"q = {q:g}", (q, -0.75), ha="center", va="bottom", color=MUTED, fontsize=9.5)
    axes.set_yticks(rows, [trial.method for trial in trials])
    # Upside down: the first method comes first, and q has room above it.
    axes.set_ylim(len(trials) - 0.4, -0.9)
    axes.set_xlim(0, 1)
    axes.set_xlabel("FSR and recall")
    axes.legend(frameon=False, fontsize=9.5, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
