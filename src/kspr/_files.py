"""Files and directories that appear whole or not at all."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["staged"]


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield a name beside `path`; what is written there takes the place of `path` at the end.

    If the block fails or is interrupted, `path` stays as it was and nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays: writers tell the format by it.
    mark = uuid.uuid4().hex
    staging = path.with_name(f".{path.stem}.{mark}{path.suffix}")
    retired = path.with_name(f".{path.stem}.{mark}.old")
    try:
        yield staging
        if path.exists():
            path.rename(retired)
        staging.rename(path)
    except BaseException:
        _remove(staging)
        if retired.exists() and not path.exists():
            retired.rename(path)
        raise
    _remove(retired)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
