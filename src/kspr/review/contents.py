"""What is shown of a row: its image, its text, or its cells."""

import io
import threading
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from kspr._text import visible
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.run import Run
from kspr.sources.records import Items

__all__ = ["Contents"]

_LONGEST_TEXT = 20_000
"""Characters of a text that are shown."""
_BRIEF_TEXT = 300
"""The same, of a text that another is compared with."""
_SEARCHED = 2_000
"""Characters of each text that are searched."""
_MOST_CELLS = 24
_LONGEST_CELL = 300
_TINY = 48
"""Images below this size are sent as PNG: artefacts of JPEG would cover much of them."""


class Contents:
    """The images, texts or cells of a run's rows; the source is opened when it is first needed.

    Only rows that are in the source as they were are shown, and only files inside of it. Several
    threads may ask at once.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()

    @property
    def kind(self) -> Literal["image", "text", "table"]:
        """What the rows are."""
        items = self._items
        return "table" if items is None else items.kind

    @property
    def searched_texts(self) -> list[str]:
        """The beginning of every text in small letters; empty where rows have no texts."""
        with self._lock:
            return self._texts

    def of(self, position: int, *, brief: bool = False) -> dict[str, Any]:
        """Return a row's content; an image is only named, and has an address of its own."""
        try:
            if self.kind == "image":
                self._check_place(position)
                return {"kind": "image"}
            if self.kind == "text":
                return {"kind": "text", "text": self._text(position, brief)}
            return {"kind": "table", "cells": self._cells(position)}
        except (InputError, OSError):
            return {"kind": "missing"}

    def image(self, position: int, longest: int) -> tuple[bytes, str]:
        """Return an image with at most `longest` pixels a side, and its media type.

        It is decoded and written anew: what else is in the file, such as the place where a photo
        was taken, is not sent. Raise `UnreadableItemError` if it cannot be shown.
        """
        items = self._items
        if items is None or items.kind != "image":
            raise UnreadableItemError("The rows of this run have no images.")
        self._check_place(position)
        image = items[position]
        image.thumbnail((longest, longest))
        stream = io.BytesIO()
        if max(image.size) < _TINY:
            image.save(stream, "PNG")
            return stream.getvalue(), "image/png"
        image.save(stream, "JPEG", quality=88)
        return stream.getvalue(), "image/jpeg"

    @property
    def _items(self) -> Items | None:
        # One thread opens the source, and the others wait for it.
        with self._lock:
            return self._opened

    @cached_property
    def _opened(self) -> Items | None:
        return self._run.items()

    @cached_property
    def _texts(self) -> list[str]:
        items = self._opened
        if items is None or items.kind != "text":
            return []
        return [self._start_of(items, row).lower() for row in range(len(items))]

    def _start_of(self, items: Items, row: int) -> str:
        try:
            return str(items[row])[:_SEARCHED]
        except (InputError, OSError):
            return ""

    def _check_place(self, position: int) -> None:
        """Raise if an image is in a file outside of the source, as a link may be."""
        items = self._items
        file = None if items is None else items.file(position)
        source = Path(self._run.origin.source).resolve()
        root = source if source.is_dir() else source.parent
        if file is not None and not file.resolve().is_relative_to(root):
            raise UnreadableItemError(f"The image of row {position} is outside of {root}.")

    def _text(self, position: int, brief: bool) -> str:
        items = self._items
        length = _BRIEF_TEXT if brief else _LONGEST_TEXT
        whole = str("" if items is None else items[position])
        # Half characters of a damaged file cannot be sent.
        text = whole[:length].encode("utf-8", "replace").decode()
        return visible(text if len(whole) <= length else f"{text} …", keep="\n\t")

    def _cells(self, position: int) -> list[list[str]]:
        with self._lock:
            place = int(self._places[position])
            if place < 0:
                raise UnreadableItemError(f"Row {position} has changed.")
            found = [[name, cells[place]] for name, cells in self._columns.items()]
        return [[visible(name), visible(_cell(value))] for name, value in found]

    @cached_property
    def _places(self) -> Any:
        return self._run.joined.places()

    @cached_property
    def _columns(self) -> dict[str, Any]:
        """The columns that are shown, by name: neither labels nor anything that tells them."""
        table, records = self._run.table(), self._run.records()
        if table is None:
            features = records.features
            count = 0 if features is None else min(_MOST_CELLS, features.shape[1])
            return {f"feature {k}": features[:, k] for k in range(count)}
        roles = records.columns
        hidden = {n for role in ("label", "truth", "probabilities") for n in roles.get(role, ())}
        shown = [f for n, f in table.fields.items() if n not in hidden and len(f.path) == 1]
        return {field.name: table.cells(field) for field in shown[:_MOST_CELLS]}


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)[: _LONGEST_CELL + 1]
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
