"""Methods side by side, as JSON and as a figure."""

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._files import staged
from kspr.errors import MissingExtraError
from kspr.experiments.compare.comparison import REFERENCES, Cell, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_figure", "write_comparison"]

_OURS = "kspr"
_FASTEST = 1e-3
"""Seconds that the axis begins at, at the least."""
_GAP = 0.065
"""Smallest distance between two names, as a share of the figure's height."""
_ROOT = '<svg xmlns="http://www.w3.org/2000/svg"'
_STYLE = """<style>
:root { --paper: #fdfdfc; --ink: #1d2125; --muted: #646b72; --line: #dedfdb;
  --accent: #b8430e; --kept: #7c8fa3; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e8e9e6; --muted: #9ba2a8;
  --line: #343a40; --accent: #f08a4b; --kept: #71859b; } }
svg { background: var(--paper); font-family: system-ui, "Segoe UI", Roboto, sans-serif; }
</style>"""


def write_comparison(found: Comparison, folder: Path, command: Sequence[str]) -> tuple[Path, ...]:
    """Write ``comparison.json`` to `folder` and, where Matplotlib is, ``comparison.svg``."""
    path = folder / "comparison.json"
    when = datetime.now(UTC).isoformat(timespec="seconds")
    about = {"command": shlex.join(command), "date": when, **found.to_dict()}
    with staged(path) as staging:
        staging.write_text(json.dumps(about, indent=1) + "\n")
    if find_spec("matplotlib") is None:
        return (path,)
    picture = folder / "comparison.svg"
    with staged(picture) as staging:
        staging.write_text(comparison_figure(found))
    return path, picture


def comparison_figure(found: Comparison) -> str:
    """Return a standalone SVG: F1 against seconds, and what is kept of wrong and right labels."""
    try:
        from matplotlib.figure import Figure

        from kspr._figures import style, to_svg
    except ImportError as error:
        raise MissingExtraError("The figure", "'knockoffs-spr[report]'") from error
    cells = [cell for cell in found.cells if cell.method not in REFERENCES]
    with style():
        height = 90 + 22 * max(len(cells), 6)
        figure = Figure(figsize=(860 / 72, height / 72), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_cost(left, cells)
        _draw_rates(right, cells, found.q)
        drawn = str(to_svg(figure, "comparison", "Methods compared: F1, seconds, FSR and recall"))
    head, body = drawn.split(">", 1)
    return f"{head.replace('<svg', '<svg xmlns=' + chr(34) + _NAMESPACE + chr(34))}>{_STYLE}{body}"


_NAMESPACE = "http://www.w3.org/2000/svg"


def _colours(cells: list[Cell]) -> list[str]:
    from kspr._figures import ACCENT, KEPT

    return [ACCENT if cell.method.startswith(_OURS) else KEPT for cell in cells]


def _draw_cost(axes: "Axes", cells: list[Cell]) -> None:
    from matplotlib.ticker import LogLocator

    from kspr._figures import LINE

    seconds = np.maximum([cell.seconds for cell in cells], _FASTEST)
    f1 = np.array([cell.f1 for cell in cells])
    colours = _colours(cells)
    low, high = f1.min() - 0.02, f1.max() + 0.02
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_ylim(low, high)
    axes.set_xlim(seconds.min() / 2, seconds.max() * 2)
    axes.scatter(seconds, f1, c=colours, s=34, zorder=3, linewidths=0)
    # Names stand beside the panel, in the order of F1: points of one cost lie on each other.
    heights = spread((f1 - low) / (high - low), _GAP)
    for cell, x, y, height, colour in zip(cells, seconds, f1, heights, colours, strict=True):
        axes.annotate(
            f"{cell.method}{'*' * cell.told}  {cell.f1:.3f}",
            (x, y),
            (1.05, height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=9.5,
            arrowprops={"arrowstyle": "-", "color": LINE, "linewidth": 0.7, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
    axes.set(xlabel="seconds, all that it needs included", ylabel="F1")


def spread(wanted: Any, gap: float) -> np.ndarray:
    """Return heights from 0 to 1, close to the wanted ones, in their order, `gap` apart."""
    gap = min(gap, 1.0 / max(len(wanted), 1))
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    # Least squares under an order: pool neighbours that would overlap.
    blocks: list[list[float]] = []
    for value in (np.asarray(wanted, dtype=float)[order] - steps).tolist():
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    heights = np.empty(len(order))
    pooled = np.concatenate([[np.mean(block)] * len(block) for block in blocks])
    heights[order] = np.clip(pooled, 0.0, 1.0 - steps[-1]) + steps
    return heights


def _draw_rates(axes: "Axes", cells: list[Cell], q: float) -> None:
    from kspr._figures import ACCENT, INK, KEPT, MUTED

    rows = np.arange(len(cells))
    axes.barh(rows - 0.19, [cell.recall for cell in cells], 0.36, color=KEPT, label="recall")
    axes.barh(rows + 0.19, [cell.fsr for cell in cells], 0.36, color=ACCENT, label="FSR")
    axes.axvline(q, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.annotate(f"q = {q:g}", (q, -0.75), ha="center", va="bottom", color=MUTED, fontsize=9.5)
    axes.set_yticks(rows, [cell.method for cell in cells])
    axes.set_ylim(len(cells) - 0.4, -0.9)
    axes.set_xlim(0, 1)
    axes.set_xlabel("FSR and recall")
    axes.legend(frameon=False, fontsize=9.5, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
