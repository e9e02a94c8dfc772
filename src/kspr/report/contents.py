"""Rows as pages show them: pictures and texts, numbers and labels in words, and the templates."""

import base64
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kspr._text import percent, unbroken, visible
from kspr.errors import InputError, UnreadableItemError
from kspr.selectors import Selection
from kspr.sources.records import Items

if TYPE_CHECKING:
    from PIL.Image import Image


THUMBNAIL = 256
"""Longest side of a picture on a card, in pixels: shown at up to 200, and larger when enlarged."""
SNIPPET = 1200
"""Longest text on a card, in characters."""
_TINY = 48
"""Pictures with shorter sides than this are enlarged without smoothing, which would blur them."""


@dataclass(frozen=True)
class Content:
    """The content of a card: ``image`` (base64), ``text``, ``unreadable`` or ``left out``."""

    kind: str
    data: str = ""
    tiny: bool = False

    @property
    def coded(self) -> str:
        """The content as the scripts of the page read it: a letter for the kind, then the data."""
        letter = self.kind[0].upper() if self.tiny else self.kind[0]
        return letter + self.data


class _InMemory:
    """Texts, pixels or PIL images that a user holds, as far as a page asks for them."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.kind = "text" if len(rows) and isinstance(rows[0], str) else "image"

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> Any:
        item = self._rows[row]
        if self.kind == "text":
            return item
        from PIL import Image

        if isinstance(item, Image.Image):
            return item.convert("RGB")
        pixels = pixels_of(item, f"items[{row}]")
        if pixels.dtype != np.uint8:
            # Whatever their range is: the largest value is white.
            pixels = pixels * (255.0 / max(float(pixels.max(initial=0)), 1e-9))
        return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert("RGB")


def pixels_of(picture: Any, where: str) -> np.ndarray:
    """Return the pixels of a picture that a user holds; `where` names it in the error."""
    pixels = np.asarray(picture)
    if pixels.dtype.kind not in "buif" or pixels.ndim not in (2, 3):
        raise InputError(
            f"{where} is no picture: it must be an array (height, width) or (height, width, "
            f"colours), or a PIL image, got {type(picture).__name__} of shape {pixels.shape}. "
            "`selection.suspects(table)` shows other rows, and `selection.report(path, texts)` "
            "shows texts."
        )
    return pixels


def as_items(rows: Any) -> Items:
    """Return texts, arrays of pixels or PIL images as items."""
    items: Any = rows if hasattr(rows, "kind") else _InMemory(rows)
    return cast("Items", items)


class Contents:
    """Pictures or texts of rows. Several threads may ask at once.

    Cards have content until all of them together have used up `budget` bytes. With `inside`, a
    picture in a file outside of that folder is not shown: a link may lead there.
    """

    def __init__(
        self, items: Items | None, budget: float = math.inf, *, inside: Path | None = None
    ) -> None:
        self._items = items
        self._left = budget
        self._inside = inside

    @property
    def kind(self) -> Literal["image", "text", "sound"] | None:
        """Kind of the content; None where rows have none."""
        return None if self._items is None else self._items.kind

    @property
    def used_up(self) -> bool:
        """Whether no more content is loaded."""
        return self._items is None or self._left <= 0

    def of(self, row: int) -> Content | None:
        """Return the content of a row's card; None where rows have none."""
        # A page in one file has no room for sounds.
        if self._items is None or self.kind == "sound":
            return None
        if self.used_up:
            return Content("left out")
        try:
            content = self._embedded(row)
        except (UnreadableItemError, OSError):
            # Pillow decodes late: a damaged file opens, and raises an OSError only here.
            content = Content("unreadable")
        self._left -= len(content.data.encode())
        return content

    def _embedded(self, row: int) -> Content:
        if self.kind == "text":
            return Content("text", self.text(row, SNIPPET, one_line=True))
        # Every byte counts here. Artefacts cover much of a tiny image, and a better quality costs
        # little there.
        image = self._small(row, THUMBNAIL)
        tiny = max(image.size) < _TINY
        stream = io.BytesIO()
        image.save(stream, "JPEG", quality=95 if tiny else 80, optimize=True)
        return Content("image", base64.b64encode(stream.getvalue()).decode("ascii"), tiny)

    def text(self, row: int, length: int, *, one_line: bool = False) -> str:
        """Return a text of at most `length` characters, none of which acts on the page."""
        assert self._items is not None  # noqa: S101 - rows have texts
        text = str(self._items[row])
        if one_line:
            # Only the beginning of a long text is split: it may have megabytes.
            text = " ".join(text[: 4 * length].split())
        text = text if len(text) <= length else f"{text[: length - 1]}…"
        # A file that is not UTF-8 may hold half characters, which cannot be written.
        return visible(text.encode("utf-8", "replace").decode(), keep="\n\t")

    def beginning(self, row: int, length: int) -> str:
        """Return the first characters of a text, to be searched; empty if it is gone."""
        try:
            return str(self._items[row])[:length] if self._items is not None else ""
        except (InputError, OSError):
            return ""

    def picture(self, row: int, side: int) -> tuple[bytes, str]:
        """Return a picture of at most `side` pixels, and its media type.

        It is decoded and written anew: what else is in the file, such as the place where a photo
        was taken, is not sent. Raise `UnreadableItemError` if it cannot be shown.
        """
        image, stream = self._small(row, side), io.BytesIO()
        if max(image.size) < _TINY:
            image.save(stream, "PNG")
            return stream.getvalue(), "image/png"
        image.save(stream, "JPEG", quality=88)
        return stream.getvalue(), "image/jpeg"

    def sound(self, row: int) -> tuple[bytes, str]:
        """Return the stored bytes of a sound, and its media type.

        Raise `UnreadableItemError` if it cannot be played.
        """
        file = self._items.file(row) if self._items is not None and self.kind == "sound" else None
        if self._items is None or file is None:
            raise UnreadableItemError("The rows of this run have no sounds.")
        self.check_place(row)
        return self._items.stored(row), f"audio/{file.suffix[1:].lower()}"

    def _small(self, row: int, side: int) -> "Image":
        if self._items is None or self._items.kind != "image":
            raise UnreadableItemError("The rows of this run have no images.")
        self.check_place(row)
        image: Image = self._items[row]
        image.thumbnail((side, side))
        return image

    def check_place(self, row: int) -> None:
        """Raise `UnreadableItemError` if a row's picture is in a file outside of the folder."""
        if self._items is None or self._inside is None:
            return
        file = self._items.file(row)
        if file is not None and not file.resolve().is_relative_to(self._inside):
            raise UnreadableItemError(f"The file of row {row} is outside of {self._inside}.")


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
    if selection.doubt_is_chance:
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
