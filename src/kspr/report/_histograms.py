"""The statistic and its cut-offs, over all rows and class by class."""

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kspr._figures import ACCENT, INK, KEPT, MUTED, canvas, style, to_svg
from kspr.report._facts import label_codes
from kspr.report._scale import scale_of
from kspr.report._words import name
from kspr.selectors.selection import Selection

__all__ = ["ClassFigure", "class_histograms", "histogram"]

MAX_CLASSES = 12


@dataclass(frozen=True)
class ClassFigure:
    """The small histogram of one class."""

    label: str
    svg: Markup


def histogram(selection: Selection) -> Markup:
    """Draw the statistic of all rows, with the range of the cut-offs."""
    with style():
        figure, axes = canvas(390, 240)
        cut_groups = np.arange(len(selection.cut_groups))
        _bars(
            axes, selection, np.ones(len(selection), dtype=bool), cut_groups, _edges(selection, 60)
        )
        axes.set_ylabel("rows")
        scale = scale_of(selection)
        axes.set_xlabel(scale.axis)
        if scale.direction < 0:
            axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        return to_svg(figure, "histogram", "Histogram of the statistic, kept rows and suspects")


def class_histograms(selection: Selection) -> list[ClassFigure]:
    """Draw a small histogram for each class; of many, for those with most suspects."""
    codes = label_codes(selection, selection.label)
    n_classes = len(selection.classes)
    suspects = np.bincount(codes[~selection.clean_mask], minlength=n_classes)
    shown = np.sort(np.argsort(-suspects, kind="stable")[:MAX_CLASSES])
    edges = _edges(selection, 30)
    drawn = []
    with style():
        for k in shown.tolist():
            figure, axes = canvas(160, 90)
            rows = codes == k
            _bars(axes, selection, rows, np.unique(selection.cut_group[rows]), edges)
            axes.set_yticks([])
            axes.xaxis.set_major_locator(MaxNLocator(3))
            label = name(selection.classes[k])
            drawn.append(ClassFigure(label, to_svg(figure, f"class{k}", f"Histogram of {label}")))
    return drawn


def _edges(selection: Selection, bins: int) -> np.ndarray:
    """Return bins that hold nearly all rows; the few beyond are counted at the ends."""
    if selection.control == "transition":
        return np.linspace(0.0, 1.0, bins + 1)
    low, high = np.quantile(selection.statistic, [0.001, 0.999])
    # Show the cut-offs too, unless one is so far out that nothing else could be seen.
    far = 0.25 * (high - low)
    ends = np.clip(
        scale_of(selection).direction * selection.cut_groups.cutoff, low - far, high + far
    )
    low, high = min(low, ends.min()), max(high, ends.max())
    return np.linspace(low, max(high, low + 1e-9), bins + 1)


def _bars(
    axes: Axes, selection: Selection, rows: np.ndarray, cut_groups: np.ndarray, edges: np.ndarray
) -> None:
    inside = np.clip(selection.statistic, edges[0], edges[-1])
    kept, _ = np.histogram(inside[rows & selection.clean_mask], edges)
    both, _ = np.histogram(inside[rows], edges)
    axes.stairs(both, edges, baseline=kept, fill=True, color=ACCENT, alpha=0.85, linewidth=0)
    axes.stairs(kept, edges, fill=True, color=KEPT, alpha=0.75, linewidth=0)
    cutoffs = selection.cut_groups.cutoff[cut_groups]
    cutoffs = cutoffs[cutoffs > 0]
    if cutoffs.size:
        ends = scale_of(selection).direction * np.array([cutoffs.min(), cutoffs.max()])
        ends = np.clip(ends, *edges[[0, -1]])
        axes.axvspan(ends.min(), ends.max(), color=INK, alpha=0.1, linewidth=0)
        for end in np.unique(ends):
            axes.axvline(end, color=INK, linewidth=1)
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
