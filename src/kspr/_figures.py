"""Matplotlib figures as SVG that takes its colours and its font from the page.

Figures are drawn in stand-in colours, which become CSS variables: one drawing serves light,
dark and print. Sizes are in CSS pixels at the figure's natural width.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["ACCENT", "INK", "KEPT", "LINE", "MUTED", "PAPER", "canvas", "style", "to_svg"]

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
"""How far a figure is enlarged, at most: beyond it, its text would dwarf the page's."""
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kspr",
    "text.parse_math": False,  # a label may hold a dollar sign
    "font.size": 11,
    "axes.edgecolor": LINE,
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
    """Draw as this page draws, whatever the user's own settings are."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(_SETTINGS)
        # Labels in any script: the browser has the glyphs that Matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty figure of the given size, and its axes."""
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure, figure.add_subplot()


def to_svg(figure: Figure, key: str, description: str) -> Markup:
    """Return the figure as inline SVG; `key` keeps its ids apart from other figures'."""
    stream = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(stream, format="svg", transparent=True, metadata=nothing)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text, count=1, flags=re.S)
    text = re.sub(r"<[^>]+>", lambda tag: _adapt(tag[0], key), text)
    head, body = text.split(">", 1)
    _, box, _ = re.split(r'(viewBox="[^"]*")', head)
    widest = f"max-width: {_LARGEST * 72 * figure.get_figwidth():.0f}px"
    described = f'role="img" aria-label="{Markup.escape(description)}"'
    return Markup(f'<svg {box} style="{widest}" {described}>{body}')  # noqa: S704 - Matplotlib has escaped the labels


def _adapt(tag: str, key: str) -> str:
    """Take the page's colours and font, unique ids, and no more digits than pixels need."""
    for colour, variable in _VARIABLES.items():
        tag = tag.replace(colour, variable)
    tag = re.sub(r"font-family: [^;\"]*;?", "", tag)
    tag = re.sub(r' id="[^"]*_\d+"', "", tag)
    tag = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>{key}-", tag).replace("xlink:href", "href")
    return re.sub(r"\d+\.\d{2,}", lambda digits: f"{float(digits[0]):.1f}", tag)
