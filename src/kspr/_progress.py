"""A progress bar that stays away from short work."""

import sys
import time
from types import TracebackType
from typing import Any, Literal

ProgressMode = Literal["auto"] | bool

_PATIENCE = 2.0
"""Seconds of silence before ``"auto"`` shows a bar on a terminal."""


def say(mode: ProgressMode, sentence: str) -> None:
    """Write a sentence to standard error, unless progress was not asked for."""
    if mode is not False:
        sys.stderr.write(f"{sentence}\n")


class Progress:
    """Count steps; draw a bar on standard error if it was asked for, or if it takes long."""

    def __init__(self, mode: ProgressMode, description: str, total: int) -> None:
        self._description, self._total, self._done = description, total, 0
        self._wanted = mode if isinstance(mode, bool) else sys.stderr.isatty()
        self._show_from = time.monotonic() + (0.0 if mode is True else _PATIENCE)
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self) -> None:
        """Count one step as done."""
        self._done += 1
        if self._bar is None:
            if not self._wanted or time.monotonic() < self._show_from:
                return
            self._start()
        # More steps than announced must not draw a bar beyond its end.
        self._bar.update(self._task, completed=min(self._done, self._total))

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        # Where nothing can be erased, a log for example, the last state stays as a line.
        self._bar = Bar(console=console, transient=console.is_terminal)
        self._task = self._bar.add_task(self._description, total=self._total)
        self._bar.start()
