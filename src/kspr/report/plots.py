"""Figures of a selection: each is drawn on given axes, for a notebook or as SVG for the page.

Colours are those of the style that is in force: C0 for kept rows, C1 for suspects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from kspr._text import shorten
from kspr.core.labels import truly_clean
from kspr.errors import InputError
from kspr.report.contents import Contents, as_items, level, name, pixels_of, scale_of, statistic_of
from kspr.selectors import Selection
from kspr.selectors.provenance import NoiseEstimate
from kspr.selectors.validation import check_count
from kspr.selectors.verdict import doubted_rows, estimated_share

LEVELS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Error rates that the page compares."""
_POINTS = 200
"""Largest number of points of the curve."""
_LONGEST_TEXT = 160
"""Longest text among thumbnails, in characters."""
MAX_TILES = 20
"""Largest number of tiles along a side; the numbers in more could not be read."""
MAX_FLIPS = 6
_LEAST = 0.005
"""Smallest chance of a flip that is shown."""


class Plots:
    """The figures of a selection, as `Selection.plot` gives them.

    Each method draws on `ax`, or on axes of its own, and returns the axes.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def __repr__(self) -> str:
        return "Figures of a selection: .suspects(images), .curve(), .confusion(), .doubt()"

    def doubt(self, ax: Axes | None = None) -> Axes:
        """Draw how doubtful all labels are: kept ones, suspects, and the threshold."""
        return _on(ax, draw_doubt, self._selection)

    def curve(self, ax: Axes | None = None) -> Axes:
        """Draw the estimated error rate against the share of rows kept, and this selection."""
        if self._selection.q_value is None:
            raise InputError("This figure needs an error rate, which SPR does not have.")
        return _on(ax, draw_curve, self._selection, None)

    def confusion(self, ax: Axes | None = None) -> Axes:
        """Draw the chance of each label for each true class, of classes with the largest flips."""
        noise = self._selection.noise
        if noise is None or not noise.transition.size:
            raise InputError(
                "This figure needs an estimate of the noise, which control='people' and "
                "'transition' give for up to 1,024 classes."
            )
        return _on(ax, draw_confusion, noise)

    def suspects(self, images: Any, n: int = 12, axes: Any = None) -> np.ndarray:
        """Show the rows most in doubt, each with its given label and the suggested one.

        `images` has the picture of every row: arrays as ``imshow`` takes them, or PIL images.
        """
        check_count("n", n, 1)
        if len(images) != len(self._selection):
            raise InputError(
                f"images has {len(images):,} pictures but the selection has "
                f"{len(self._selection):,} rows."
            )
        rows = doubted_rows(self._selection)[:n]
        if axes is None:
            import matplotlib.pyplot as plt

            wide = max(1, min(6, len(rows)))
            tall = max(1, -(-len(rows) // wide))
            _, axes = plt.subplots(
                tall, wide, figsize=(1.7 * wide, 2 * tall), squeeze=False, layout="constrained"
            )
        given, suggested = self._selection.label, self._selection.suggested_label
        flat = np.ravel(axes)
        for each in flat:
            each.axis("off")
        for each, row in zip(flat, rows.tolist(), strict=False):
            picture = pixels_of(images[row], f"images[{row}]")
            # Grey pictures have no third axis, and imshow would give them false colours.
            each.imshow(picture, cmap="gray" if picture.ndim == 2 else None)
            other = [] if given[row] == suggested[row] else [f"→ {name(suggested[row])}"]
            title = "\n".join(shorten(part, 18) for part in [name(given[row]), *other])
            each.set_title(title, fontsize="small", parse_math=False)
        return np.asarray(axes)


def thumbnails(selection: Selection, items: Any, n: int = 12) -> str:
    """Return the rows most in doubt as HTML, with pictures or texts and their labels."""
    if len(items) != len(selection):
        raise InputError(
            f"items has {len(items):,} pictures or texts but the selection has "
            f"{len(selection):,} rows."
        )
    contents = Contents(as_items(items))
    given, suggested = selection.label, selection.suggested_label
    figures = []
    for row in doubted_rows(selection)[:n].tolist():
        content = contents.of(row)
        if content is None or content.kind == "unreadable":
            inside = "(cannot be shown)"
        elif content.kind == "image":
            source = f"data:image/jpeg;base64,{content.data}"
            inside = f'<img alt="row {row}" src="{source}" style="width:6em">'
        else:
            inside = escape(shorten(content.data, _LONGEST_TEXT))
        labels = dict.fromkeys([name(given[row]), name(suggested[row])])
        caption = " → ".join(f"<bdi>{escape(shorten(label, 24))}</bdi>" for label in labels)
        figures.append(
            '<figure style="display:inline-block;vertical-align:top;max-width:15em;margin:.4em">'
            f"{inside}<figcaption>{caption}</figcaption></figure>"
        )
    return f"<div>{''.join(figures)}</div>"


def _on(ax: Axes | None, draw: Callable[..., None], *what: Any) -> Axes:
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    draw(ax, *what)
    return ax


def draw_doubt(axes: Axes, selection: Selection) -> None:
    """Draw the statistic of all rows, with the range of the thresholds."""
    edges, scale = _edges(selection, 60), scale_of(selection)
    # Rows beyond the edges count in the outer bins, so that no row is missing.
    inside = np.clip(statistic_of(selection), edges[0], edges[-1])
    both, kept = (np.histogram(rows, edges)[0] for rows in (inside, inside[selection.clean_mask]))
    # `both` includes the kept rows: the suspects stand on top of them.
    axes.stairs(both, edges, baseline=kept, fill=True, color="C1", alpha=0.85, linewidth=0)
    axes.stairs(kept, edges, fill=True, color="C0", alpha=0.75, linewidth=0)
    ink, cutoffs = str(mpl.rcParams["text.color"]), selection.cut_groups.cutoff
    if (cutoffs > 0).any():
        ends = scale.direction * np.array([cutoffs[cutoffs > 0].min(), cutoffs.max()])
        ends = np.clip(ends, *edges[[0, -1]])
        axes.axvspan(ends.min(), ends.max(), color=ink, alpha=0.1, linewidth=0)
        for end in np.unique(ends):
            axes.axvline(end, color=ink, linewidth=1)
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set(xlabel=scale.axis, ylabel="rows")
    if scale.direction < 0:
        axes.axvline(0, color=_muted(), linewidth=0.8, linestyle=(0, (2, 3)))


def _muted() -> str:
    return str(mpl.rcParams["axes.labelcolor"])


def _edges(selection: Selection, bins: int) -> np.ndarray:
    """Return edges of bins for nearly all rows; the few beyond count in the first and last bin."""
    if selection.doubt_is_chance:
        return np.linspace(0.0, 1.0, bins + 1)
    low, high = np.quantile(statistic_of(selection), [0.001, 0.999])
    # Thresholds are in view too, but one far out must not squeeze all rows into one bin.
    far = 0.25 * (high - low)
    ends = np.clip(
        scale_of(selection).direction * selection.cut_groups.cutoff, low - far, high + far
    )
    low, high = min(low, ends.min()), max(high, ends.max())
    # Bins need a width, even where all statistics are equal.
    return np.linspace(low, max(high, low + 1e-9), bins + 1)


@dataclass(frozen=True)
class DialStep:
    """What one error rate would keep."""

    q: float
    n_kept: int
    share: float
    estimate: float
    n_empty: int
    """Cut groups that keep nothing at this error rate."""
    measured: float | None
    """Share of wrong labels among the kept ones, by the given true labels."""


def dial(selection: Selection, truth: np.ndarray | None) -> list[DialStep]:
    """Return what each error rate of a grid, and the one asked for, would keep."""
    asked = selection.cut_groups.q_asked[np.isfinite(selection.cut_groups.q_asked)]
    right = None if truth is None else truly_clean(selection.label, truth)
    steps = []
    for q in sorted({*LEVELS, *asked[:1].tolist()}):
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
                estimate=estimated_share(other),
                n_empty=int((other.cut_groups.status == "empty").sum()),
                measured=wrong,
            )
        )
    return steps


def draw_curve(axes: Axes, selection: Selection, truth: np.ndarray | None) -> None:
    """Draw the estimated FSR against the share kept at all error rates; mark this selection."""
    curve = selection.curve()
    # Beyond half of the labels wrong, an error rate is of no use and would squeeze the rest.
    n = int(np.searchsorted(curve.q, LEVELS[-1], side="right"))
    point = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).astype(int))
    share = curve.share_kept[point]
    # One level alone has no line; without a marker its point would be invisible.
    dot = "o" if len(point) == 1 else ""
    axes.plot(share, curve.estimated_fsr[point], color="C0", linewidth=2, marker=dot, ms=3)
    if truth is not None:
        # A level keeps the first `n_kept` rows by rising q, and entry n - 1 is for n rows.
        measured = _measured(selection, truth)[curve.n_kept[point] - 1]
        dashes = (0, (4, 3))
        axes.plot(share, measured, color=_muted(), linewidth=1.4, linestyle=dashes, clip_on=False)
    _mark(axes, selection, share.tolist())
    axes.set(xlabel="share of rows kept", ylabel="wrong among them")
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    axes.set_ylim(bottom=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: level(value))
        axis.set_major_locator(MaxNLocator(5))


def _measured(selection: Selection, truth: np.ndarray) -> np.ndarray:
    """Return the share of wrong labels among the first 1, 2, ... rows, by rising q."""
    assert selection.q_value is not None  # noqa: S101 - only selections with levels have a curve
    order = np.argsort(selection.q_value, kind="stable")
    wrong = ~truly_clean(selection.label, truth)[order]
    return np.asarray(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


def _mark(axes: Axes, selection: Selection, shares: list[float]) -> None:
    """Mark the selection on the curve, if it has an estimate."""
    now = (float(selection.clean_mask.mean()), estimated_share(selection))
    if not np.isfinite(now[1]):
        return
    # The name goes to the side with more room.
    right = now[0] > np.mean([min(shares, default=0), max(shares, default=1)])
    edge = mpl.rcParams["axes.facecolor"]
    axes.plot(*now, "o", color="C1", ms=8, markeredgecolor=edge, zorder=5, clip_on=False)
    axes.annotate(
        "this selection",
        now,
        (-8, 8) if right else (8, -14),
        textcoords="offset points",
        color="C1",
        ha="right" if right else "left",
        weight="bold",
    )


@dataclass(frozen=True)
class Flip:
    """The chance that a row of one class gets the label of another."""

    true: str
    label: str
    chance: float
    low: float
    high: float


def largest_flips(noise: NoiseEstimate, n: int = MAX_FLIPS) -> tuple[Flip, ...]:
    """Return the most frequent flips, the largest first."""
    chance = _flips_only(noise)
    return tuple(
        Flip(
            name(noise.classes[a]),
            name(noise.classes[k]),
            float(chance[a, k]),
            float(noise.low[a, k]),
            float(noise.high[a, k]),
        )
        for a, k in _by_size(chance)[:n].tolist()
        if chance[a, k] >= _LEAST
    )


def average_flip(noise: NoiseEstimate) -> float:
    """Return the mean chance of a flip over all pairs of two classes."""
    n_classes = len(noise.classes)
    return float(_flips_only(noise).sum() / max(1, n_classes * (n_classes - 1)))


def _flips_only(noise: NoiseEstimate) -> np.ndarray:
    # transition[a, k]: the chance that a row of class a has the label k.
    return np.asarray(noise.transition * (1.0 - np.eye(len(noise.transition))))


def _by_size(chance: np.ndarray) -> np.ndarray:
    """Return row and column of all entries, the largest entry first."""
    order = np.argsort(-chance, axis=None, kind="stable")
    return np.column_stack(np.unravel_index(order, chance.shape))


def tile_classes(noise: NoiseEstimate) -> np.ndarray:
    """Return the classes of the largest flips, as many as can be shown, in the order of classes."""
    chance = _flips_only(noise)
    # Each class where it appears first: the flips that are listed have theirs among them.
    classes, first = np.unique(_by_size(chance), return_index=True)
    return np.sort(classes[np.argsort(first)][:MAX_TILES])


def confusion_size(noise: NoiseEstimate) -> tuple[float, float]:
    """Return width and height of `draw_confusion` that its numbers need."""
    n = len(tile_classes(noise))
    return max(300, 110 + 26 * n), max(250, 90 + 24 * n)


def draw_confusion(axes: Axes, noise: NoiseEstimate) -> None:
    """Draw a square of tiles, darker for larger chances, with percentages on them."""
    shown = tile_classes(noise)
    values = noise.transition[np.ix_(shown, shown)]
    names = [shorten(name(label), 18) for label in noise.classes[shown]]
    n, top = len(names), float(max(values.max(initial=0), 1e-12))
    # A tile is 0.94 wide, so that a gap stays; 0.47 below is its middle.
    tiles = [Rectangle((x, y), 0.94, 0.94) for y in range(n) for x in range(n)]
    colour = np.tile(to_rgba("C1"), (n * n, 1))
    # The root makes small values visible beside the diagonal. Half of the colour at most, so
    # that the numbers can be read on every tile, on light and on dark pages.
    colour[:, 3] = 0.04 + 0.51 * np.sqrt(values.ravel() / top)
    axes.add_collection(PatchCollection(tiles, facecolors=colour, linewidths=0))
    for (i, j), value in np.ndenumerate(values):
        if value >= _LEAST:
            axes.text(j + 0.47, i + 0.5, f"{100 * value:.0f}", size=9, ha="center", va="center")
    axes.set(xlabel="label given", ylabel="true class")
    _name_tiles(axes, names)


def _name_tiles(axes: Axes, names: list[str]) -> None:
    n, middle = len(names), np.arange(len(names)) + 0.47
    turn = max(map(len, names), default=0) > 3
    # Upside down: the first row of a matrix is at the top.
    axes.set(xlim=(0, n), ylim=(n, 0))
    axes.set_xticks(middle, names, rotation=45 if turn else 0)
    axes.set_yticks(middle, names)
    for tick in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        # A label may hold a dollar sign.
        tick.set_parse_math(False)
    for tick in axes.get_xticklabels() if turn else []:
        tick.set(ha="right", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
