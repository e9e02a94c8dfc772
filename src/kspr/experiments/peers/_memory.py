"""How much the process grows while something runs."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

__all__ = ["peak_growth"]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_T = TypeVar("_T")


def peak_growth(work: Callable[[], _T]) -> tuple[_T, int | None]:
    """Run `work`; return its answer, and by how many bytes the resident memory rose at its peak.

    Linux keeps that peak (``VmHWM``) and lets a process reset it. Memory that was freed before is
    handed back first, so that its reuse is seen. None on other systems.
    """
    if not _reset():
        return work(), None
    before = _status("VmRSS")
    answer = work()
    return answer, max(0, _status("VmHWM") - before)


def _reset() -> bool:
    """Hand back free memory and forget the peak; say whether the system allows it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")
    except (AttributeError, OSError, TypeError):
        return False
    return _STATUS.exists()


def _status(name: str) -> int:
    line = next(row for row in _STATUS.read_text().splitlines() if row.startswith(name + ":"))
    return int(line.split()[1]) * 1024
