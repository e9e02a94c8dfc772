"""From a source to a run: read, embed what needs it, select, write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kspr.features import load
from kspr.features.options import EmbedSettings
from kspr.runs.answers import Rows, checked_rows
from kspr.runs.run import Run, check_folder, origin_of, rows_of, save_run
from kspr.selectors import SPR, KnockoffsSPR
from kspr.sources.options import ReadOptions

__all__ = ["select_source"]


def select_source(
    source: Path,
    out: Path,
    selector: SPR | KnockoffsSPR,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    command: Sequence[str],
    overwrite: bool = False,
    checked: Path | None = None,
) -> Run:
    """Select from the rows of `source`, and write the run to `out`.

    `checked` is a CSV file with the true labels of rows that were drawn at random.
    """
    # Before anything else: what follows may take minutes.
    check_folder(out, overwrite=overwrite)
    found = load(source, options, settings, labelled=True)
    label, row_id = found.label, found.row_id
    how: dict[str, Any] = {}
    if checked is not None:
        # Row numbers in the file are those of the source; `fit` counts the rows that could be read.
        how["checked"] = checked_rows(checked, Rows(found.row, row_id, label))
    selection = selector.fit(found.features, label, **how).selection_
    origin = origin_of(found, options, command)
    return save_run(out, selection, rows_of(found), origin, overwrite=overwrite)
