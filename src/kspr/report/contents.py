"""Pictures and texts of rows, as a page shows them."""

import base64
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from kspr._text import visible
from kspr.errors import InputError, UnreadableItemError
from kspr.sources.records import Items

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Content", "Contents", "as_items"]

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
        pixels = np.asarray(item)
        if pixels.dtype != np.uint8:
            # Whatever their range is: the largest value is white.
            pixels = pixels * (255.0 / max(float(pixels.max(initial=0)), 1e-9))
        return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert("RGB")


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
