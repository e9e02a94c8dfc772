"""From a source to a run: read, embed what needs it, select, write."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kspr.errors import InputError
from kspr.features import Loaded, load
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.runs.answers import Rows, checked_rows
from kspr.runs.run import Run, check_folder, origin_of, rows_of, save_run
from kspr.selectors import SPR, KnockoffsSPR, ProbabilitySelector, Selection
from kspr.selectors.checks import Checks
from kspr.selectors.options import DEFAULT_Q
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

    `checked` is a CSV file with the true labels of rows that a person has checked. They move the
    cut if its column `drawn_from` says that they were drawn at random from all rows.
    """
    # Before anything else: what follows may take minutes.
    check_folder(out, overwrite=overwrite)
    found = load(source, options, settings, labelled=True)

    def fit() -> Selection:
        # SPR does not split the rows into halves, and takes no groups.
        extra = {} if found.groups is None else {"groups": found.groups}
        return selector.fit(found.features, found.label, **extra).selection_

    selection, checks = _with_answers(found, fit, checked)
    origin = origin_of(found, options, command)
    return save_run(out, selection, rows_of(found), origin, overwrite=overwrite, checks=checks)


def select_by_probabilities(
    source: Path,
    out: Path,
    selector: ProbabilitySelector,
    *,
    options: ReadOptions,
    command: Sequence[str],
    overwrite: bool = False,
    checked: Path | None = None,
) -> Run:
    """Select by the class probabilities of `source`, and write the run to `out`.

    They are what ``options.probabilities`` names; without it, the numbers of `source` themselves.
    `checked` is as for `select_source`.
    """
    check_folder(out, overwrite=overwrite)
    found = load(source, options, AS_SHIPPED, labelled=True, embed=False)
    if options.probabilities is None and found.records.reader != "npy":
        raise InputError(
            f"--kind probabilities is for an npy file, and {source} is none. Name the columns or "
            "the array of probabilities with --probabilities."
        )
    shown = found.features if options.probabilities is None else found.probabilities
    names = found.records.probability_columns or None

    def fit() -> Selection:
        return selector.fit(shown, found.label, classes=names).selection_

    selection, checks = _with_answers(found, fit, checked)
    origin = origin_of(found, options, command)
    return save_run(out, selection, rows_of(found), origin, overwrite=overwrite, checks=checks)


def _with_answers(
    found: Loaded, fit: Callable[[], Selection], checked: Path | None
) -> tuple[Selection, Checks | None]:
    """Return what `fit` gives, and the answers in the file `checked` about its rows."""
    if checked is None:
        return fit(), None
    # Before the fit, which may take minutes: the file may be about other data.
    answers, drawn = checked_rows(checked, Rows(found.row, found.row_id, found.label))
    selection = fit()
    parameters = selection.manifest.parameters
    checks = Checks(
        drawn=drawn,
        guarantee=parameters.get("guarantee", "mean"),
        confidence=parameters.get("confidence", 0.95),
        q=float(parameters.get("q", DEFAULT_Q)),
        seed=0,
        fingerprint=selection.manifest.fingerprint,
        positions=tuple(answers) if drawn == "all" else (),
    )
    return selection, checks.with_answers(answers)
