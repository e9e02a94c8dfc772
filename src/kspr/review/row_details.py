"""What the page shows of rows: their labels and content, and rows to compare them with."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from kspr._text import shorten, visible
from kspr.errors import InputError, UnreadableItemError
from kspr.report.contents import Contents
from kspr.runs.run import Run
from kspr.selectors.options import DOUBTING

__all__ = ["Details", "Neighbours", "shown_name"]

_LONGEST_LABEL = 160
_LONGEST_TEXT = 20_000
"""Characters of a text that are shown."""
_BRIEF_TEXT = 1_200
"""The same, of a text that another is compared with."""
_MOST_CELLS = 24
_LONGEST_CELL = 300
_NEAREST = 3
"""Rows of each class that a row is compared with."""
_OTHERS = 30
"""Other classes that are listed by likelihood; the rest can be typed."""
_REFERENCE = 20_000
"""Rows that are searched at most. More make the picture little better, and the page slower."""
_FEWEST = 20
"""Rows of each class among these, as far as it has so many."""
_VOTES = 50
"""Nearest rows that say which classes are likely."""
_BLOCK = 4096


def shown_name(name: object) -> str:
    """Return a label or an id as it is shown: in one line, not too long."""
    return shorten(name, _LONGEST_LABEL)


class Details:
    """Labels, contents and neighbours of a run's rows. Several threads may ask at once.

    Only rows that are in the source as they were are shown, and only files inside of it.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._fitted = run.fitted
        self.given = run.fitted.label_code
        """The code of each row's given label."""
        self.suggested = run.fitted.suggested_code
        """The code of each row's suggested label."""
        # The source and the features are opened meanwhile: the page does not wait for them.
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kspr-review")
        self._contents = self._background.submit(self._open_contents)
        self._cells = self._background.submit(self._open_cells)
        self._neighbours = self._background.submit(self._open_neighbours)

    def close(self) -> None:
        """Wait for what runs in the background."""
        self._background.shutdown(wait=True, cancel_futures=True)

    @property
    def contents(self) -> Contents:
        """The images or texts of the rows."""
        return self._contents.result()

    def row(self, position: int, *, blind: bool = False) -> dict[str, Any]:
        """Return what is shown of a row; `blind` leaves out everything that tells its label."""
        content = self.content(position)
        if blind:
            return {"position": position, "blind": True, "content": content}
        given, suggested = int(self.given[position]), int(self.suggested[position])
        neighbours, near = self._neighbours.result(), None
        # How often a row with this label is of each class.
        noise = self._fitted.noise
        score = np.zeros(len(self._fitted.classes))
        if noise is not None:
            score = noise.transition[:, given].astype(float)
        if neighbours is not None:
            similarity = neighbours.similarity(position)
            # Entries of a transition matrix are at most 1, less than a vote.
            score = score + 2 * neighbours.votes(similarity, len(score))
            near = {
                who: [
                    {**self.brief(p), "content": self.content(p, brief=True)}
                    for p in neighbours.nearest(similarity, code, _NEAREST)
                ]
                for code, who in {given: "given", suggested: "suggested"}.items()
            }
        order = np.argsort(-score, kind="stable").tolist()
        return {
            **self.brief(position),
            "content": content,
            "others": [code for code in order if code not in (given, suggested)][:_OTHERS],
            "near": near,
        }

    def brief(self, position: int) -> dict[str, Any]:
        """Return the labels of a row, and what it is called."""
        given, suggested = int(self.given[position]), int(self.suggested[position])
        has_doubt = self._fitted.control in DOUBTING
        return {
            "position": position,
            "id": shown_name(self._run.row_id[position]),
            "given": given,
            "suggested": suggested if suggested != given else None,
            "doubt": round(float(self._fitted.doubt[position]), 4) if has_doubt else None,
        }

    def content(self, position: int, *, brief: bool = False) -> dict[str, Any]:
        """Return a row's content; an image or sound is only named, and fetched from its address."""
        contents = self.contents
        try:
            if contents.kind in ("image", "sound"):
                contents.check_place(position)
                return {"kind": contents.kind}
            if contents.kind == "text":
                text = contents.text(position, _BRIEF_TEXT if brief else _LONGEST_TEXT)
                return {"kind": "text", "text": text}
            return {"kind": "table", "cells": self._cells_of(position)}
        except (InputError, OSError):
            return {"kind": "missing"}

    def _cells_of(self, position: int) -> list[list[str]]:
        places, columns = self._cells.result()
        place = int(places[position])
        if place < 0:
            raise UnreadableItemError(f"Row {position} has changed.")
        return [[visible(name), _cell(cells[place])] for name, cells in columns.items()]

    def _open_contents(self) -> Contents:
        source = Path(self._run.origin.source).resolve()
        inside = source if source.is_dir() else source.parent
        return Contents(self._run.items(), inside=inside)

    def _open_cells(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the places of the rows in a table, and the columns that are shown, by name.

        Neither labels are among them nor anything that tells them.
        """
        if self.contents.kind is not None:
            return np.empty(0, dtype=np.int64), {}
        table, records = self._run.table(), self._run.records()
        places = self._run.joined.places()
        if table is None:
            features = records.features
            count = 0 if features is None else min(_MOST_CELLS, features.shape[1])
            return places, {f"feature {k}": features[:, k] for k in range(count)}
        shown = self._run.shown_fields()[:_MOST_CELLS]
        return places, {field.name: table.cells(field) for field in shown}

    def _open_neighbours(self) -> "Neighbours | None":
        """Return rows to compare with; None where features are not at hand: none are computed."""
        try:
            features = self._run.features()
        except (InputError, OSError):
            return None
        if features is None or not hasattr(features, "shape"):
            return None
        return Neighbours(features, self.given, self._fitted.clean_mask)


def _cell(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)[: _LONGEST_CELL + 1]
    return visible(text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…")


class Neighbours:
    """A random part of the kept rows of each class, in memory, to be searched one row at a time."""

    def __init__(self, features: Any, code: np.ndarray, kept: np.ndarray) -> None:
        self._features = features
        self._rows = _sample(code, kept)
        self._code = code[self._rows]
        rows = np.empty((len(self._rows), features.shape[1]), dtype=np.float32)
        for start in range(0, len(self._rows), _BLOCK):
            part = self._rows[start : start + _BLOCK]
            rows[start : start + len(part)] = features[part]
        self._centre = rows.mean(axis=0) if len(rows) else 0.0
        self._unit = _unit(rows - self._centre)

    def similarity(self, position: int) -> np.ndarray:
        """Return how similar each row of the reference is to a row: the cosine, -2 for itself."""
        row = np.asarray(self._features[position], dtype=np.float32) - self._centre
        similarity = np.asarray(self._unit @ _unit(row[None])[0])
        similarity[self._rows == position] = -2.0
        return similarity

    def nearest(self, similarity: np.ndarray, code: int, count: int) -> list[int]:
        """Return the rows of a class that are most similar, the nearest first."""
        inside = np.flatnonzero(self._code == code)
        inside = inside[similarity[inside] > -2.0]
        best = inside[np.argsort(-similarity[inside], kind="stable")[:count]]
        return [int(row) for row in self._rows[best]]

    def votes(self, similarity: np.ndarray, n_classes: int) -> np.ndarray:
        """Return how many of the nearest rows have each class."""
        count = min(_VOTES, len(similarity))
        near = np.argpartition(-similarity, count - 1)[:count] if count else np.empty(0, int)
        return np.bincount(self._code[near], minlength=n_classes)


def _sample(code: np.ndarray, kept: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(0)
    order = rng.permutation(np.flatnonzero(kept))
    # Class by class, so that a rare one is not missed.
    order = order[np.argsort(code[order], kind="stable")]
    classes, first, size = np.unique(code[order], return_index=True, return_counts=True)
    most = max(_FEWEST, _REFERENCE // max(len(classes), 1))
    parts = [order[a : a + min(n, most)] for a, n in zip(first, size, strict=True)]
    return np.sort(np.concatenate(parts)) if parts else order


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))
