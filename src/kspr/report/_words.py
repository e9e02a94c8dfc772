"""Words of the pages: numbers and labels as text, the statistic's name, and the templates."""

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kspr._text import percent, unbroken, visible
from kspr.selectors import Selection
from kspr.selectors.options import DOUBTING

_SPACE = "\u202f"  # narrow, and lines do not break at it


def count(value: int) -> str:
    """Return a whole number with a comma between thousands.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def level(value: float | None) -> str:
    """Return a rate in percent, to three digits, at most two decimals; a dash for None or nan."""
    return percent(value).replace(" ", _SPACE)


def share(value: float) -> str:
    """Return a share in percent; one just below 1 is shown as more than 99.9 %, not as 100 %."""
    text = f"{100 * value:.1f}"
    if value < 1 and text == "100.0":
        text = "> 99.9"
    return f"{text}{_SPACE}%"


def number(value: float) -> str:
    """Return a statistic to three decimals; a dash for one that is not finite."""
    return f"{value:.3f}" if math.isfinite(value) else "–"  # noqa: RUF001 - a dash is meant


def name(label: Any) -> str:
    """Return a label as text, control characters written out; ``(empty)`` for an empty one."""
    text = visible(label)
    return text if text.strip() else "(empty)"


@dataclass(frozen=True)
class StatisticScale:
    """How the page names and explains the statistic that rows are ordered by."""

    name: str
    heading: str
    axis: str
    caption: str
    ranking: str = "The larger the selection time, the worse the label fits."
    """How suspects are ordered, in one sentence."""
    probably_wrong: str = "another label fits better"
    """What makes a suspect probably wrong, and not uncertain."""
    direction: int = 1
    """-1 where kept rows have a negative statistic, down to minus the cut-off."""
    short: str = "time"
    """What the order is called beside a row."""


_DOUBT = StatisticScale(
    name="doubt",
    heading="How doubtful each label is",
    axis="← surely right\u2003doubt\u2003surely wrong →",
    caption="The doubt is the estimated chance that the label is wrong. Rows up to the threshold "
    "are kept.",
    ranking="The larger the doubt, the worse the label fits.",
    probably_wrong="chance of being wrong above one half",
)
_KNOCKOFF = StatisticScale(
    name="W",
    heading="How each label compares with its knockoff",
    axis="← label fits better\u2003W\u2003knockoff fits better →",
    caption="Left of zero, the given label fits better than its knockoff; right of zero, the "
    "knockoff does. Rows between the threshold and zero are kept.",
    direction=-1,
)
_OTHERS = StatisticScale(
    name="W",
    heading="How each label compares with the others",
    axis="← beats most others\u2003W\u2003loses to most →",
    caption="Left of zero, the given label fits better than at least half of the other classes; "
    "right of zero, it does not. Rows between the threshold and zero are kept.",
    direction=-1,
)
_TIME = StatisticScale(
    name="selection time",
    heading="How early each row stands out",
    axis="selection time",
    caption="Rows that stand out late (left) fit their label well and are kept.",
)
_PLACE = StatisticScale(
    name="place in the order of doubt",
    heading="The order of doubt",
    axis="← least doubtful\u2003place\u2003most doubtful →",
    caption="Rows up to the threshold are kept.",
    ranking="The most doubtful come first.",
    short="place",
)
_SCALES = {
    "people": _DOUBT,
    "transition": _DOUBT,
    "annotators": _DOUBT,
    "exchangeable": _OTHERS,
    "paper": _KNOCKOFF,
    "theorem": _KNOCKOFF,
    None: _TIME,
}


def statistic_of(selection: Selection) -> np.ndarray:
    """Return what the pages show of each row: its doubt, or its time, negative where it is ahead.

    Labels that lost to their knockoff have an infinite doubt, and are shown by their time.
    """
    if selection.control in DOUBTING:
        return selection.doubt
    if selection.control is None:
        # Rows of first answers have an infinite doubt.
        return selection.selection_time
    ahead = np.isfinite(selection.doubt)
    return np.where(ahead, -selection.doubt, selection.selection_time)


def scale_of(selection: Selection) -> StatisticScale:
    """Return the scale of the selection's control; that of selection times without a control."""
    by_place = selection.manifest.method == "DoubtSelector"
    return _PLACE if by_place else _SCALES[selection.control]


def environment() -> Environment:
    """Return the templates, with the filters that put numbers and labels into words."""
    templates = Environment(
        loader=PackageLoader("kspr.report", "templates"),
        # Labels and texts come from the data and may hold markup.
        autoescape=True,
        # A misspelt name in a template must fail, not vanish.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        count=count, level=level, share=share, number=number, label=name, unbroken=unbroken
    )
    return templates


def shared_parts(
    templates: Environment, styles: Sequence[str], scripts: Sequence[str]
) -> dict[str, Any]:
    """Return the style sheets and scripts of these names, as `head.html` takes them.

    The look of all pages of this package comes first.
    """
    look = Markup((files("kspr") / "_look.css").read_text("utf-8"))  # noqa: S704 - a file of this package
    read = [_file(templates, script) for script in scripts]
    return {
        "style": Markup("").join([look, *(_file(templates, style) for style in styles)]),
        "scripts": read,
        "script_hashes": [
            base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in read
        ],
    }


def _file(templates: Environment, file: str) -> Markup:
    """Return a file beside the templates as it is: the page allows exactly this script."""
    assert templates.loader is not None  # noqa: S101 - set by `environment`
    return Markup(templates.loader.get_source(templates, file)[0])  # noqa: S704 - a file of this package
