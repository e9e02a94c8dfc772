"""The report: one HTML file that a person can read, print and pass on."""

from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import staged
from kspr.errors import InputError, MissingExtraError
from kspr.runs.verify import Verification
from kspr.selectors.selection import Selection
from kspr.selectors.selfcheck import SelfCheck
from kspr.sources.records import Items

__all__ = ["write_report"]


def write_report(
    selection: Selection,
    path: Path,
    *,
    title: str,
    row_id: np.ndarray | None = None,
    items: Items | None = None,
    features: Any = None,
    truth: np.ndarray | None = None,
    selfcheck: SelfCheck | None = None,
    verification: Verification | None = None,
    command: str | None = None,
    max_suspects: int = 200,
    max_borderline: int = 24,
) -> Path:
    """Write `selection` as one self-contained HTML file, and return its path.

    The page asks nothing of the network. `row_id` names the rows (their numbers otherwise),
    `items` are what the cards show, `features` are needed for the solution path, and `truth`,
    where it is known, is held against the promise. `selfcheck` is what `kspr.selfcheck` found on
    the same data, and `verification` what a person found in the run. At most `max_suspects`
    suspects and `max_borderline` kept rows are shown as cards. Equal arguments give equal bytes.
    """
    for name, rows in (("row_id", row_id), ("items", items), ("truth", truth)):
        if rows is not None:
            _check_length(name, len(rows), len(selection))
    if features is not None:
        _check_length("features", features.shape[0], len(selection))
    try:
        import jinja2  # noqa: F401 - asked for here, so that one sentence answers
        import matplotlib  # noqa: F401 - the same
    except ImportError as error:
        raise MissingExtraError("The report", "'knockoffs-spr[report]'") from error
    from kspr.report._page import Source, render

    source = Source(selection, row_id, items, features, truth, selfcheck, verification)
    page = render(source, title, command, max_suspects, max_borderline)
    with staged(Path(path)) as staging:
        staging.write_text(page, encoding="utf-8")
    return Path(path)


def _check_length(name: str, found: int, expected: int) -> None:
    if found != expected:
        raise InputError(f"{name} has {found:,} rows but the selection has {expected:,}.")
