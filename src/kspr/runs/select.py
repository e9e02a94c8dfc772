"""From a source to a run: read, embed what needs it, select, write."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr.errors import InputError
from kspr.features import Loaded, load
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.runs.answers import Rows, checked_rows
from kspr.runs.origin import CONSENSUS, describe, origin_of
from kspr.runs.run import Run, check_folder, save_run
from kspr.runs.stored_rows import rows_of
from kspr.selectors import (
    SPR,
    Annotators,
    AnnotatorSelector,
    KnockoffsSPR,
    ProbabilitySelector,
    Selection,
)
from kspr.selectors.checkpoint import PATIENCE, Checkpoint, resumable
from kspr.selectors.checks import Checks
from kspr.selectors.controls.checked import Drawn
from kspr.selectors.manifest import plain, versions
from kspr.selectors.options import DEFAULT_Q
from kspr.sources.joining import VoteColumns, read_vote_columns
from kspr.sources.options import ReadOptions
from kspr.sources.places import versions_of

__all__ = [
    "checks_of",
    "select_by_annotators",
    "select_by_probabilities",
    "select_source",
    "states_of",
    "votes_have_changed",
]


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
        return selector.fit(found.features, found.stored_label, **extra).selection_

    files = [found.records.source, *filter(None, (options.labels,))]
    states = states_of(
        out, files, selector, options, items=found.fingerprint, shape=found.features.shape
    )
    with resumable(states):
        selection, checks = _with_answers(found, fit, checked)
    origin = origin_of(found, options, command)
    run = save_run(out, selection, rows_of(found), origin, overwrite=overwrite, checks=checks)
    states.remove()
    return run


def states_of(
    out: Path,
    files: Iterable[Path],
    selector: SPR | KnockoffsSPR,
    options: ReadOptions,
    *,
    patience: float = PATIENCE,
    **more: Any,
) -> Checkpoint:
    """Return where a long selection keeps its states: beside the run, until that is written.

    They count only for the same `files`, `selector`, `options` and whatever `more` there is.
    """
    about = {
        **more,
        "files": [version for file in files for version in versions_of(file)],
        "options": describe(options),
        "selector": {name: plain(value) for name, value in selector.get_params(deep=False).items()},
        "versions": versions(),
    }
    return Checkpoint(out.with_name(f"{out.name}.part"), about, patience)


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


def select_by_annotators(
    source: Path,
    out: Path,
    selector: AnnotatorSelector,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    command: Sequence[str],
    overwrite: bool = False,
) -> tuple[Run, Annotators]:
    """Find the consensus of the annotators that `options` name, and write the run to `out`.

    The run keeps the consensus beside it, as a file of labels: to all later commands these are the
    labels of the source. The second value is how good each annotator is.
    """
    check_folder(out, overwrite=overwrite)
    loaded = load(source, options, settings)
    votes = read_vote_columns(loaded.records, options)
    found = _rows_with_votes(loaded, votes, options)
    # Labels of items that could not be read are about no row.
    known = np.isin(votes.row, found.row)
    row = np.searchsorted(found.row, votes.row[known])
    given = (row, votes.annotator[known], votes.label[known])
    fitted = selector.fit(found.features, given, groups=found.groups)
    origin = origin_of(found, options, command)
    origin = replace(
        origin,
        # What `votes_have_changed` compares: the consensus becomes the file of labels.
        options={
            **origin.options,
            **({} if options.labels is None else {"votes": str(options.labels.resolve())}),
            "votes_digest": votes.digest(found.records.row_id),
        },
        notes=(*origin.notes, *votes.notes),
    )
    selection, people = fitted.selection_, fitted.annotators_
    tables = {
        CONSENSUS: pa.table({"id": found.row_id, "label": selection.label}),
        "annotators.parquet": pa.table(vars(people)),
    }
    rows = rows_of(found)
    return save_run(out, selection, rows, origin, overwrite=overwrite, tables=tables), people


def votes_have_changed(run: Run) -> bool:
    """Return whether annotators' labels are other ones now; False for one label a row."""
    kept = run.origin.options
    if "votes_digest" not in kept:
        return False
    labels = Path(kept["votes"]) if "votes" in kept else None
    options = replace(run.origin.read_options(), labels=labels)
    found = read_vote_columns(run.records(), options)
    return found.digest(run.records().row_id) != kept["votes_digest"]


def _rows_with_votes(loaded: Loaded, votes: VoteColumns, options: ReadOptions) -> Loaded:
    """Return the rows that somebody has labelled; the others are refused, or left out if asked."""
    there = np.isin(loaded.row, votes.row)
    if there.all():
        return loaded
    n_empty = int((~there).sum())
    if options.missing == "refuse":
        raise InputError(
            f"{n_empty:,} rows of {loaded.records.source} have no label of any annotator, the "
            f"first is {loaded.row_id[~there][0]}. Leave them out with --missing drop."
        )
    return replace(loaded, features=loaded.features[there], row=loaded.row[there])


def _with_answers(
    found: Loaded, fit: Callable[[], Selection], checked: Path | None
) -> tuple[Selection, Checks | None]:
    """Return what `fit` gives, and the answers in the file `checked` about its rows."""
    if checked is None:
        return fit(), None
    # Before the fit, which may take minutes: the file may be about other data.
    answers, drawn = checked_rows(checked, Rows(found.row, found.row_id, found.stored_label))
    selection = fit()
    return selection, checks_of(selection, answers, drawn)


def checks_of(selection: Selection, answers: dict[int, str], drawn: Drawn) -> Checks:
    """Return the answers of a file that `kspr select` was given, as they are kept in a run."""
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
    return checks.with_answers(answers)
