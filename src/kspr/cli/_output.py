"""Output of commands as JSON, and the command line as it was typed."""

import json
import math
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kspr._text import visible

__all__ = ["INVOCATION", "Json", "print_json", "print_notes"]

INVOCATION: ContextVar[tuple[str, ...]] = ContextVar("INVOCATION", default=("kspr",))
"""The command line as it was typed, for manifests."""

Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON instead of text.")]


def print_json(value: Any) -> None:
    """Print `value` as one JSON document; infinite numbers and nan become null."""
    # Bidirectional marks and the controls beyond ASCII, which json.dumps leaves as they are.
    print(visible(json.dumps(_plain(value), ensure_ascii=False, indent=2), keep="\n"))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    # Arrays and scalars of numpy, which is not imported for this.
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    # json.dumps would write NaN and Infinity, which other readers of JSON refuse.
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def print_notes(notes: Iterable[str]) -> None:
    """Print sentences that the user should know to standard error, beside the result."""
    for note in notes:
        print(f"kspr: {note}", file=sys.stderr)
