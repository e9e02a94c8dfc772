"""A small form of the answers that holds on any machine: float32 is rounded otherwise elsewhere."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden.cases import Answer

__all__ = ["ANSWERS", "compacted", "labels_of", "mask_of", "read_compact", "write_compact"]

ANSWERS = Path(__file__).with_name("answers.json")
N_ROWS = 12
"""Rows whose levels and doubts are stored."""
N_NUMBERS = 40
"""Numbers of the noise that are stored."""


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def _numbers(values: np.ndarray) -> list[float | None]:
    """Return numbers as JSON has them: None for nan and infinity."""
    found = np.asarray(values, dtype=float).ravel().tolist()
    return [round(value, 6) if np.isfinite(value) else None for value in found]


def compacted(answer: Answer) -> dict[str, Any]:
    """Return the small form of one case."""
    if "clean_mask" not in answer:
        return {name: _numbers(value) for name, value in answer.items()}
    mask, n = answer["clean_mask"], len(answer["clean_mask"])
    rows = sample(n)
    found: dict[str, Any] = {"n": n, "n_kept": int(mask.sum())}
    found["masks"] = {
        name: _packed(np.packbits(value).tobytes())
        for name, value in answer.items()
        if name.split(".")[-1] == "clean_mask" or name.startswith("at.")
    }
    found["rows"] = {
        name: _numbers(answer[name][rows])
        for name in ("q_value", "doubt", "selection_time", "suggestion_probability")
        if name in answer
    }
    found["noise"] = {
        name: _numbers(value)[:N_NUMBERS]
        for name, value in answer.items()
        if name in ("noise.rate", "noise.transition")
    }
    classes = np.unique(answer["label"])
    suggested = np.searchsorted(classes, answer["suggested_label"]).astype(np.uint16)
    found["suggested"] = _packed(suggested.tobytes())
    found["status"] = sorted(set(answer["groups.status"].tolist()))
    return found


def sample(n: int) -> np.ndarray:
    """Return the rows whose numbers are stored."""
    return np.linspace(0, n - 1, N_ROWS).astype(int)


def mask_of(text: str, n: int) -> np.ndarray:
    """Return a mask from its stored form."""
    return np.unpackbits(np.frombuffer(_unpacked(text), np.uint8), count=n).astype(bool)


def labels_of(text: str) -> np.ndarray:
    """Return the codes of labels from their stored form."""
    return np.frombuffer(_unpacked(text), np.uint16)


def write_compact(answers: dict[str, Answer]) -> str:
    """Write the small form of all cases beside this file, and return its name and size."""
    lines = [f"{json.dumps(n)}: {json.dumps(compacted(a))}" for n, a in answers.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return f"{ANSWERS}: {ANSWERS.stat().st_size / 1000:.0f} kB"


def read_compact() -> dict[str, Any]:
    """Return the small form of all cases by name."""
    found: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found
