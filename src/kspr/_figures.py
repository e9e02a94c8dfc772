"""Matplotlib figures as SVG whose colours and font come from the page that shows them.

Figures are drawn in placeholder colours, which become CSS variables: the same drawing serves light
and dark pages and print. Sizes are in CSS pixels at the figure's natural width.
"""

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from cycler import cycler
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Colours that nothing else uses, so that `_adapt` can find them in the text of the SVG.
INK, MUTED, LINE = "#010101", "#020202", "#030303"
ACCENT, KEPT, PAPER = "#040404", "#050505", "#060606"

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    ACCENT: "var(--accent)",
    KEPT: "var(--kept)",
    PAPER: "var(--paper)",
}
_LARGEST = 1.3
"""Largest factor by which a figure is enlarged; beyond it, its text is too large for the page."""
_NAMESPACE = "http://www.w3.org/2000/svg"
_COLOURS = """<style>
:root { --paper: #fdfdfc; --ink: #1d2125; --muted: #646b72; --line: #dedfdb;
  --accent: #b8430e; --kept: #7c8fa3; }
@media (prefers-color-scheme: dark) { :root { --paper: #15181b; --ink: #e8e9e6; --muted: #9ba2a8;
  --line: #343a40; --accent: #f08a4b; --kept: #71859b; } }
svg { background: var(--paper); font-family: system-ui, "Segoe UI", Roboto, sans-serif; }
</style>"""
"""Values of the CSS variables for a figure that is a file of its own."""
_SETTINGS: dict[Any, Any] = {
    # Texts stay texts: to be searched, read aloud, and set in the font of the page.
    "svg.fonttype": "none",
    # Ids are random otherwise.
    "svg.hashsalt": "kspr",
    "text.parse_math": False,  # a label may hold a dollar sign
    "font.size": 11,
    # By number, C0 and C1, where a figure is also drawn in the colours of a user.
    "axes.prop_cycle": cycler(color=[KEPT, ACCENT]),
    "axes.edgecolor": LINE,
    "axes.facecolor": PAPER,
    "grid.color": LINE,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": INK,
    "lines.solid_capstyle": "round",
}


@contextmanager
def style() -> Iterator[None]:
    """Use the settings of these figures inside the block, and the user's own after it."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        # Labels in any script: the browser has the glyphs that Matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty figure of the given size, and its axes."""
    # SVG has 72 units to the inch.
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure, figure.add_subplot()


def drawn(
    key: str, description: str, size: tuple[float, float], draw: Callable[..., Any], *what: Any
) -> Markup:
    """Return as inline SVG what `draw` draws on axes of the given size; see `to_svg`."""
    with style():
        figure, axes = canvas(*size)
        draw(axes, *what)
        return to_svg(figure, key, description)


def to_svg(figure: Figure, key: str, description: str, *, tight: bool = False) -> Markup:
    """Return the figure as inline SVG; equal figures give equal text.

    `key` starts every id, so that ids of several figures on one page differ. With `tight`, the
    drawing is cropped to all that is drawn, texts outside the axes included.
    """
    stream = io.StringIO()
    # Matplotlib writes date and version otherwise, and equal figures would differ.
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    box_inches = "tight" if tight else None
    figure.savefig(stream, format="svg", transparent=True, metadata=nothing, bbox_inches=box_inches)
    text = stream.getvalue()
    # Inside a page there is no place for an XML declaration.
    text = text[text.index("<svg") :]
    # Matplotlib's style sheet selects `*`: inside a page it would apply to all of the page.
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.S)
    text = re.sub(r"<[^>]+>", lambda tag: _adapt(tag[0], key), text)
    head, body = text.split(">", 1)
    _, box, _ = re.split(r'(viewBox="[^"]*")', head)
    widest = f"max-width: {_LARGEST * 72 * figure.get_figwidth():.0f}px"
    described = f'role="img" aria-label="{Markup.escape(description)}"'
    return Markup(f'<svg {box} style="{widest}" {described}>{body}')  # noqa: S704 - Matplotlib has escaped the labels


def standalone(svg: str) -> str:
    """Return inline SVG of `to_svg` as the text of an SVG file with colours of its own."""
    head, body = str(svg).split(">", 1)
    head = head.replace("<svg", f'<svg xmlns="{_NAMESPACE}"', 1)
    return f"{head}>{_COLOURS}{body}"


def _adapt(tag: str, key: str) -> str:
    """Put CSS variables for colours, ids that start with `key`, and one decimal into a tag."""
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, variable)
    # The font is that of the page.
    tag = re.sub(r"font-family: [^;\"]*;?", "", tag)
    # Numbered ids of groups are never referred to, and take space.
    tag = re.sub(r' id="[^"]*_\d+"', "", tag)
    tag = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{key}-", tag).replace("xlink:href", "href")
    return re.sub(r"\d+\.\d{2,}", lambda digits: f"{float(digits[0]):.1f}", tag)
