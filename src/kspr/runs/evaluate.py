"""Comparing a run with the true labels: FSR, recall, F1, and suggested labels."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels, places_in, same_label, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.errors import InputError
from kspr.runs.run import Run, load_run
from kspr.runs.verify import checking_notes
from kspr.selectors import Selection
from kspr.sources.joining import join_label_file
from kspr.sources.opening import open_source
from kspr.sources.readers.file_checks import listed


@dataclass(frozen=True)
class ClassEvaluation:
    """One given label."""

    label: Any
    n: int
    n_wrong: int
    n_kept: int
    quality: SelectionQuality


@dataclass(frozen=True)
class Evaluation:
    """The error rate asked for, and the rates that the true labels show."""

    n: int
    n_wrong: int
    n_kept: int
    q_asked: float | None
    quality: SelectionQuality
    per_class: tuple[ClassEvaluation, ...]
    suggested_right: float
    """Share of the wrong labels, all of them, for which the suggested label is the true one; nan
    where none of them has another suggestion."""
    classes: tuple[Any, ...]
    confusion: np.ndarray
    """Counts of (true label, suggested label) over the samples with wrong labels."""
    n_unknown: int = 0
    """Rows of the run without a true label; they are not in any of these numbers."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: what was left out, and how the truth was joined to the rows."""

    @property
    def kept_promise(self) -> bool | None:
        """Say whether the realised FSR is within the level asked for; None without a level."""
        return None if self.q_asked is None else self.quality.fsr <= self.q_asked

    def most_confused(self, n: int = 5) -> list[tuple[Any, Any, int]]:
        """Return the most frequent wrong suggestions as (true, suggested, count)."""
        wrong = self.confusion.copy()
        # On the diagonal, the suggestion is right.
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:n]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        # t: true, s: suggested.
        counted = [(self.classes[t], self.classes[s], int(wrong[t, s])) for t, s in pairs]
        return [entry for entry in counted if entry[2]]


@dataclass(frozen=True, eq=False)
class Truth:
    """The true labels of a run's rows, as far as they are known."""

    label: np.ndarray
    """One entry per row of the run; without meaning for rows that are not in `known`."""
    known: np.ndarray
    """Positions of the rows whose true label is known, ascending."""
    notes: tuple[str, ...]
    """Sentences for the user: which rows are left out, and rows that were joined by order."""


def evaluate_run(folder: Path, truth: str | None, source: Path | None = None) -> Evaluation:
    """Evaluate a saved run; `truth` is a file, or a column of the source, or left to the source.

    `source` is where the data of the run is now, if that has moved. Rows without a true label are
    left out, and named in the notes.
    """
    run = load_run(folder, source)
    true = true_labels(run, truth)
    notes = (*checking_notes(run), *true.notes)
    return replace(evaluate(run.selection, true.label, true.known), notes=notes)


def true_labels(run: Run, truth: str | None) -> Truth:
    """Return the true labels of the run's rows, joined by their ids."""
    if truth is not None and Path(truth).is_file():
        return _from_file(run, Path(truth))
    options = run.origin.read_options()
    options = options if truth is None else replace(options, truth=truth)
    records = open_source(Path(run.origin.source), options)
    if records.truth is None:
        raise InputError(
            f"{run.origin.source} has no column of true labels. Pass a file or a column with "
            "--truth."
        )
    joined = run.join(records)
    notes = joined.notes(run.rows, run.origin.source, run.origin.unreadable * run.n_labels)
    return Truth(records.truth[joined.places()], joined.position, notes)


def _from_file(run: Run, path: Path) -> Truth:
    if run.n_labels > 1:
        raise InputError(
            f"The rows of {run.folder} have several labels, and their true ones cannot be read "
            "from a file of its own. Put them into a column of the data, and name it with --truth."
        )
    count = run.origin.n_rows
    # A file without ids has a line for each row of the source; the run may have left some out.
    row_id = np.arange(count).astype(np.str_)
    if run.rows.named:
        row_id = row_id.astype(np.result_type(row_id, run.row_id))
        row_id[run.row] = run.row_id
    id_column = run.origin.options.get("id")
    joined = join_label_file(path, "truth", row_id, run.rows.named, run.origin.source, id_column)
    known = np.flatnonzero(~np.isin(run.row, joined.missing))
    missing = np.setdiff1d(np.arange(len(run.rows)), known)
    notes = list(joined.notes)
    if missing.size:
        few = listed(run.row_id[missing].tolist(), 5)
        rows = f"{missing.size:,} row{'s' * (missing.size > 1)} of the run"
        notes.append(f"{path} has no true label for {rows}, left out here: {few}.")
    if not known.size:
        raise InputError(f"{path} has no true label for any row of {run.folder}.")
    return Truth(joined.label[run.row], known, tuple(notes))


def evaluate(
    selection: Selection, truth: np.ndarray, known: np.ndarray | None = None
) -> Evaluation:
    """Compare a selection with the true labels of its samples, or of those in `known` only."""
    if len(truth) != len(selection):
        raise InputError(f"The run has {len(selection)} rows but the truth has {len(truth)}.")
    rows = np.arange(len(selection)) if known is None else known
    truth = np.asarray(truth)[rows]
    label, kept = selection.label[rows], selection.clean_mask[rows]
    suggested = selection.suggested_label[rows]
    right = truly_clean(label, truth)
    per_class = tuple(
        ClassEvaluation(
            name,
            int(of_class.sum()),
            int((of_class & ~right).sum()),
            int((of_class & kept).sum()),
            selection_quality(kept[of_class], right[of_class]),
        )
        for name in selection.classes.tolist()
        for of_class in [label == name]
    )
    wrong = ~right
    true_code, classes = _true_codes(selection, truth[wrong])
    suggested_code = places_in(selection.classes, suggested[wrong])
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    # Not `confusion[...] += 1`, which counts a repeated pair once.
    np.add.at(confusion, (true_code, suggested_code), 1)
    hits = same_label(suggested[wrong], truth[wrong])
    # A consensus is the suggestion itself.
    differs = (selection.suggested_code != selection.label_code)[rows][wrong].any()
    return Evaluation(
        n=len(rows),
        n_wrong=int(wrong.sum()),
        n_kept=int(kept.sum()),
        q_asked=selection.summary().q_asked,
        quality=selection_quality(kept, right),
        per_class=per_class,
        suggested_right=float(hits.mean()) if differs else float("nan"),
        classes=classes,
        confusion=confusion,
        n_unknown=len(selection) - len(rows),
    )


def _true_codes(selection: Selection, truth: np.ndarray) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return true labels as codes, and the classes: the selection's, then those only in truth."""
    code = places_in(selection.classes, truth)
    others = encode_labels(truth[code < 0], "truth")
    code[code < 0] = len(selection.classes) + others.codes
    return code, (*selection.classes.tolist(), *others.classes.tolist())
