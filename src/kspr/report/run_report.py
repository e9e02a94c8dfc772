"""The report of a run on disk."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.errors import InputError
from kspr.report import write_report
from kspr.runs.evaluate import true_labels
from kspr.runs.run import Run, load_run
from kspr.runs.selfcheck import check_run, run_features
from kspr.runs.verify import load_verification
from kspr.sources.records import Items, Records

__all__ = ["report_run"]


@dataclass(frozen=True)
class _Chosen:
    """Some of a source's items: those that the run speaks of."""

    items: Items
    row: np.ndarray

    @property
    def kind(self) -> Literal["image", "text"]:
        return self.items.kind

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, row: int) -> Any:
        return self.items[int(self.row[row])]

    def content(self) -> Iterator[bytes]:
        chosen = set(self.row.tolist())
        return (c for row, c in enumerate(self.items.content()) if row in chosen)


def report_run(
    folder: Path,
    out: Path | None,
    *,
    title: str | None = None,
    truth: str | None = None,
    selfcheck: bool = False,
    max_suspects: int = 200,
) -> Path:
    """Write the report of the run in `folder`, and return its path.

    With `selfcheck`, the selector that made the run is put to the test on its source.
    """
    run = load_run(folder)
    records = _records(run)
    features = run_features(run, records)
    return write_report(
        run.selection,
        out or folder / "report.html",
        title=title or Path(run.origin.source).name,
        row_id=run.row_id,
        items=_Chosen(records.items, run.row) if records and records.items else None,
        features=features,
        truth=None if truth is None else true_labels(run, truth),
        selfcheck=check_run(run, features) if selfcheck else None,
        verification=load_verification(run),
        command=run.origin.command_line(),
        max_suspects=max_suspects,
    )


def _records(run: Run) -> Records | None:
    """Return the source if it is still there; a report can do without."""
    try:
        return run.records()
    except InputError:
        return None
