"""From a source to a run: read, embed what needs it, select, write."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.features import load
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.runs.answers import Rows, checked_rows
from kspr.runs.run import Run, check_folder, origin_of, save_run
from kspr.selectors import SPR, KnockoffsSPR, ProbabilitySelector
from kspr.sources.options import ReadOptions

__all__ = ["select_by_probabilities", "select_source"]


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
    origin = origin_of(found.records, options, command)
    if found.folder is not None:
        origin = replace(origin, embedding=str(found.folder), unreadable=found.unreadable)
    return save_run(out, selection, found.row, row_id, origin, overwrite=overwrite)


def select_by_probabilities(
    source: Path,
    out: Path,
    selector: ProbabilitySelector,
    *,
    options: ReadOptions,
    command: Sequence[str],
    overwrite: bool = False,
) -> Run:
    """Select by the class probabilities of `source`, and write the run to `out`.

    They are what ``options.probabilities`` names; without it, the numbers of `source` themselves.
    """
    check_folder(out, overwrite=overwrite)
    found = load(source, options, AS_SHIPPED, labelled=True, embed=False)
    records = found.records
    shown = records.probabilities if options.probabilities else records.features
    if shown is None or (records.reader != "npy" and not options.probabilities):
        raise InputError(
            f"--kind probabilities is for an npy file, and {source} is none. Name the columns or "
            "the array of probabilities with --probabilities."
        )
    names = records.probability_columns or None
    selection = selector.fit(shown, found.label, classes=names).selection_
    origin = origin_of(records, options, command)
    return save_run(out, selection, found.row, found.row_id, origin, overwrite=overwrite)
