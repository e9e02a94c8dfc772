"""From a source to a run: read, embed what needs it, select, write."""

from collections.abc import Sequence
from pathlib import Path

from kspr.features import load
from kspr.features.options import EmbedSettings
from kspr.runs.answers import Rows, checked_rows
from kspr.runs.run import Run, check_folder, origin_of, rows_of, save_run
from kspr.selectors import SPR, KnockoffsSPR
from kspr.selectors.checks import Checks
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

    `checked` is a CSV file with the true labels of rows that a person has checked. They move the
    cut if its column `drawn_from` says that they were drawn at random from all rows.
    """
    # Before anything else: what follows may take minutes.
    check_folder(out, overwrite=overwrite)
    found = load(source, options, settings, labelled=True)
    label, row_id = found.label, found.row_id
    # Before the fit, which may take minutes: the file may be about other data.
    answers = None if checked is None else checked_rows(checked, Rows(found.row, row_id, label))
    selection = selector.fit(found.features, label).selection_
    checks = None
    if answers is not None:
        parameters = selection.manifest.parameters
        checks = Checks(
            drawn=answers[1],
            guarantee=parameters.get("guarantee", "mean"),
            confidence=parameters.get("confidence", 0.95),
            q=float(parameters.get("q", 0.05)),
            seed=0,
            fingerprint=selection.manifest.fingerprint,
        ).with_answers(answers[0])
    origin = origin_of(found, options, command)
    return save_run(out, selection, rows_of(found), origin, overwrite=overwrite, checks=checks)
