"""From a source to a run: read, embed images and texts, select, write."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from kspr._files import read_json
from kspr.errors import InputError
from kspr.features.loading import Loaded, check_rows_alone, load
from kspr.runs.answers import Answers, read_answers
from kspr.runs.checks import Checks, begin_checks
from kspr.runs.review_log import CANNOT_TELL
from kspr.runs.rows import rows_of
from kspr.runs.run import CONSENSUS, Origin, Run, check_folder, origin_of, save_run
from kspr.selectors import (
    SPR,
    Annotators,
    AnnotatorSelector,
    DoubtSelector,
    KnockoffsSPR,
    MultiLabelSelector,
    PaperKnockoffsSPR,
    ProbabilitySelector,
    Selection,
    held_out_probabilities,
)
from kspr.selectors.held_out import held_out_residuals
from kspr.selectors.options import RIGHT
from kspr.sources.joining import read_vote_columns
from kspr.sources.options import AS_FOUND, AS_SHIPPED, EmbedSettings, ReadOptions, with_encoder
from kspr.sources.pairs import Pairs


def select_source(
    source: Path,
    out: Path,
    selector: SPR | KnockoffsSPR | PaperKnockoffsSPR | ProbabilitySelector | DoubtSelector,
    *,
    options: ReadOptions,
    settings: EmbedSettings = AS_SHIPPED,
    command: Sequence[str],
    overwrite: bool = False,
    checked: Path | None = None,
    scheduler: str | None = None,
    model: str | None = None,
    seed: int = 0,
) -> Run:
    """Select from the rows of `source`, and write the run to `out`.

    A `ProbabilitySelector` is given the probabilities that ``options.probabilities`` names, without
    it the numbers of `source` themselves; with a `model`, the name of a classifier, the held-out
    probabilities of that, and `seed` is that of the model and its folds. With a `scheduler`, the
    address of a Dask scheduler or ``"local"``, workers read the files of `source` and judge their
    rows. Where rows have any number of labels, pairs of a row and a label are judged, each label by
    itself. A `DoubtSelector` is given how far labels that are numbers are from what `model`, by
    default boosted trees, says of them. `checked` is a CSV file with the true labels of rows that a
    person has checked. They move the threshold if its column `drawn_from` says that they were
    drawn at random from all rows.
    """
    # Before anything else: what follows may take minutes.
    check_folder(out, overwrite=overwrite)
    given = isinstance(selector, ProbabilitySelector) and model is None
    with _loaded(source, options, settings, scheduler, embed=not given) as loaded:
        if given and options.probabilities is None and loaded.records.reader != "npy":
            raise InputError(
                f"--kind probabilities is for an npy file, and {source} is none. Name the columns "
                "or the array of probabilities with --probabilities."
            )

        def fit() -> Selection:
            X, y, groups = loaded.features, loaded.label, loaded.groups
            if isinstance(selector, DoubtSelector):
                by, numbers = model or _TREES, loaded.numbers
                doubt = held_out_residuals(by, X, numbers, groups=groups, random_state=seed)
                return selector.fit(doubt).selection_
            if isinstance(selector, ProbabilitySelector) and model is None:
                shown = X if options.probabilities is None else loaded.probabilities
                names = loaded.records.probability_columns or None
                return selector.fit(shown, y, classes=names).selection_
            if model is not None:
                shown = held_out_probabilities(model, X, y, groups=groups, random_state=seed)
                return selector.fit(shown, y).selection_
            # SPR and the paper's selector do not judge one half by the other, and take no groups.
            more: dict[str, Any] = {} if groups is None else {"groups": groups}
            if isinstance(loaded.records, Pairs):
                return _fit_pairs(selector, X.rows, y, loaded.records.labels, more)
            return selector.fit(X, y, **more).selection_

        origin = origin_of(loaded, options, command)
        return _run_with_answers(loaded, fit, checked, origin, out, overwrite=overwrite)


def _fit_pairs(
    selector: Any, X: Any, claims: np.ndarray, labels: Sequence[str], more: dict[str, Any]
) -> Selection:
    """Return the selection from the pairs of rows, which have the features `X`, and `labels`."""
    names = np.array(labels)
    has = claims.reshape(-1, len(names)) == names
    if not has.any(axis=0).all():
        raise InputError(
            f"No row that could be read has the label {names[~has.any(axis=0)][0]!r}. Take it out "
            "of the labels."
        )
    of_rows = {name: of_pairs[:: len(names)] for name, of_pairs in more.items()}
    sets = [names[of_row].tolist() for of_row in has]
    return MultiLabelSelector(selector).fit(X, sets, **of_rows).selection_


_TREES = "hist-gradient-boosting"
"""The model of numbers where none is named."""


@contextmanager
def _loaded(
    source: Path,
    options: ReadOptions,
    settings: EmbedSettings,
    scheduler: str | None,
    *,
    embed: bool,
) -> Iterator[Loaded]:
    """Yield the rows of `source`, in this process or with the workers of a cluster."""
    if scheduler is None:
        yield load(source, options, settings, labelled=True, embed=embed)
        return
    from kspr.runs.cluster import load_on_cluster  # only those who have Dask need it
    from kspr.selectors.cluster import opened_client

    with opened_client(scheduler) as client:
        yield load_on_cluster(client, source, options)


def select_new(
    source: Path,
    out: Path,
    earlier: Run,
    *,
    options: ReadOptions,
    settings: EmbedSettings,
    command: Sequence[str],
    overwrite: bool = False,
) -> Run:
    """Judge the rows of `source` by the fit of an earlier run, and write them as a run to `out`.

    That fit is made again, from the rows of `earlier`: it is the same, and needs no file of its
    own. Without `options` the source is read as that of `earlier` was.
    """
    check_folder(out, overwrite=overwrite)
    manifest, features = earlier.selection.manifest, earlier.features()
    if manifest.method != KnockoffsSPR.__name__ or features is None:
        raise InputError(
            f"{earlier.folder} cannot judge new rows: that needs a run of `kspr select` by "
            f"features, and its source as it was, {earlier.origin.source}."
        )
    model = KnockoffsSPR(**manifest.parameters)
    model.fit(features, earlier.selection.label, groups=earlier.groups())
    if options == AS_FOUND:
        # A file of labels is about its own rows.
        options = replace(earlier.origin.read_options(), labels=None)
    options = with_encoder(options, earlier.records().encoder)
    loaded = load(source, options, settings, labelled=True)
    check_rows_alone(loaded.records, options)
    if _embedder(loaded.folder) != _embedder(earlier.origin.embedding):
        raise InputError(
            f"{source} was embedded by {_embedder(loaded.folder)}, the rows of {earlier.folder} by "
            f"{_embedder(earlier.origin.embedding)}. Pass the same --embedder and its options."
        )
    selection = model.judge(loaded.features, loaded.label)
    origin, notes = origin_of(loaded, options, command), []
    seen = int(np.isin(loaded.row_id, earlier.row_id).sum()) if loaded.records.named else 0
    if seen:
        notes.append(
            f"{seen:,} of these rows have an id of {earlier.folder}. The unchanged ones are "
            "judged by the half of its fit that has not seen them."
        )
    if earlier.checks is not None and earlier.checks.known:
        notes.append(
            f"The answers in {earlier.folder} are about its own rows and set no rate for these. "
            f"Check some of these, too: kspr verify {out} --checks 100."
        )
    origin = replace(origin, notes=(*origin.notes, *notes))
    return save_run(out, selection, rows_of(loaded), origin, overwrite=overwrite)


def _embedder(folder: Path | str | None) -> str | None:
    """Return which embedder made the features in a folder; None for features of the source."""
    return None if folder is None else str(read_json(Path(folder) / "embedding.json")["embedder"])


def select_by_doubt(
    source: Path,
    out: Path,
    selector: DoubtSelector,
    *,
    options: ReadOptions,
    command: Sequence[str],
    overwrite: bool = False,
    checked: Path | None = None,
) -> Run:
    """Order the rows of `source` by the scores that ``options.probabilities`` names.

    Labels are read if `options` name them. Otherwise every row of the run has the label ``right``,
    in a file beside it that later commands take for the labels. First answers, in the file
    `checked`, join several scores, and the features if `options` name them.
    """
    check_folder(out, overwrite=overwrite)
    labelled = options.label is not None or options.labels is not None
    loaded = load(source, options, AS_SHIPPED, labelled=labelled, embed=False)
    rows, y = rows_of(loaded), loaded.label if labelled else None
    more: dict[str, Any] = {}
    if checked is not None:
        claimed = np.full(len(loaded.row), RIGHT) if y is None else y
        answers = read_answers(checked, rows, claimed)
        told = (answers.by_position[p] for p in answers.given)
        truth = [None if answer == CANNOT_TELL else answer for answer in told]
        more["checked"] = list(answers.given), truth
        more["features"] = None if options.features is None else loaded.features
    selection = selector.fit(loaded.probabilities, y, **more).selection_
    claims = {CONSENSUS: pa.table({"id": loaded.row_id, "label": selection.label})}
    return save_run(
        out,
        selection,
        rows,
        origin_of(loaded, options, command),
        overwrite=overwrite,
        tables=None if labelled else claims,
    )


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
    labelled = np.isin(loaded.row, votes.row)
    if not labelled.all() and options.missing == "refuse":
        raise InputError(
            f"{(~labelled).sum():,} rows of {source} have no label of any annotator, the first is "
            f"{loaded.row_id[~labelled][0]}. Leave them out with --missing drop."
        )
    # All of them stay a memory map; a choice is a copy.
    voted = loaded
    if not labelled.all():
        voted = replace(loaded, features=loaded.features[labelled], row=loaded.row[labelled])
    # Labels of items that could not be read are about no row.
    known = np.isin(votes.row, voted.row)
    row = np.searchsorted(voted.row, votes.row[known])
    given = (row, votes.annotator[known], votes.label[known])
    fitted = selector.fit(voted.features, given, groups=voted.groups)
    origin = origin_of(voted, options, command)
    origin = replace(
        origin,
        # What `votes_have_changed` compares: the consensus becomes the file of labels.
        options={
            **origin.options,
            **({} if options.labels is None else {"votes": str(options.labels.resolve())}),
            "votes_digest": votes.digest(voted.records.row_id),
        },
        notes=(*origin.notes, *votes.notes),
    )
    selection, people = fitted.selection_, fitted.annotators_
    tables = {
        CONSENSUS: pa.table({"id": voted.row_id, "label": selection.label}),
        "annotators.parquet": pa.table(vars(people)),
    }
    rows = rows_of(voted)
    return save_run(out, selection, rows, origin, overwrite=overwrite, tables=tables), people


def votes_have_changed(run: Run) -> bool:
    """Return whether annotators' labels are other ones now; False for one label a row."""
    kept = run.origin.options
    if "votes_digest" not in kept:
        return False
    labels = Path(kept["votes"]) if "votes" in kept else None
    options = replace(run.origin.read_options(), labels=labels)
    votes = read_vote_columns(run.records(), options)
    return votes.digest(run.records().row_id) != kept["votes_digest"]


def _run_with_answers(
    loaded: Loaded,
    fit: Callable[[], Selection],
    checked: Path | None,
    origin: Origin,
    out: Path,
    *,
    overwrite: bool,
) -> Run:
    """Write what `fit` gives to `out`, with the answers in the file `checked` about its rows."""
    rows = rows_of(loaded)
    # Before the fit, which may take minutes: the file may be about other data.
    given = None if checked is None else read_answers(checked, rows, loaded.label)
    if given is not None and not given.given:
        raise InputError(f"{checked} has no answers yet: all of its rows are still to be checked.")
    selection = fit()
    checks = None if given is None else _checks_of(selection, given)
    return save_run(out, selection, rows, origin, overwrite=overwrite, checks=checks)


def _checks_of(selection: Selection, answers: Answers) -> Checks:
    """Return the answers of a file that `kspr select` was given, as they are kept in a run.

    They move the threshold if they were drawn at random from all rows, as the column `drawn_from`
    says. A draw from another run's pool is no random draw for this one.
    """
    if answers.drawn_from == "all":
        checks = begin_checks(selection, "all", positions=answers.sampled)
    else:
        checks = begin_checks(selection, "chosen")
    return checks.with_answers(answers.by_position, answers.path)
