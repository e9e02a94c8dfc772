"""The report of a run: its selection, with the images or texts of its source."""

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
    """The items of a source that belong to the rows of a run."""

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

    With `selfcheck`, the error rate of the run's selector is tested on the source (a dozen fits).
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
    """Return the rows of the source; None if it is gone, as a report needs no source."""
    try:
        return run.records()
    except InputError:
        return None
