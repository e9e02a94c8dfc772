"""One process at a time in a folder: a lock that ends with the process that holds it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["alone_in"]

_NAME = ".lock"
_PAUSE = 0.2
"""Seconds between two attempts."""


@contextmanager
def alone_in(folder: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process is in `folder`; call `on_wait` once if that takes a while.

    The system releases the lock of a process that was killed. Where it has no such locks, nothing
    is waited for.
    """
    is_new = not folder.exists()
    handle = _acquire(folder / _NAME)
    if handle is None:
        on_wait()
    while handle is None:
        time.sleep(_PAUSE)
        handle = _acquire(folder / _NAME)
    try:
        yield
    finally:
        # While it is held: whoever waits for this file finds that it is gone, and makes a new one.
        (folder / _NAME).unlink(missing_ok=True)
        os.close(handle)
        if is_new:
            # What was refused before anything was written leaves no folder behind.
            with suppress(OSError):
                folder.rmdir()


def _acquire(path: Path) -> int | None:
    """Return the handle of a locked file; None if another one holds it."""
    # A folder that was removed meanwhile is made again by its new owner.
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(handle)
        # The file may have been removed between opening and locking: then the lock holds nothing.
        if os.path.samestat(os.fstat(handle), path.stat()):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _lock(handle: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        # Some network drives have no locks.
        return
