"""Comparing a run with the true labels: FSR, recall, F1, and what was suggested."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kspr.core.labels import encode_labels, places_in, same_label, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.errors import InputError
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.sources.opening import open_source
from kspr.sources.readers.labels import read_label_file

__all__ = ["ClassEvaluation", "Evaluation", "evaluate", "evaluate_run", "true_labels"]


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
    """The error rate that was asked for, and what the true labels show."""

    n: int
    n_wrong: int
    n_kept: int
    q_asked: float | None
    quality: SelectionQuality
    per_class: tuple[ClassEvaluation, ...]
    suggested_right: float
    """Share of the wrong labels, all of them, for which the suggested label is the true one."""
    classes: tuple[Any, ...]
    confusion: np.ndarray
    """Counts of (true label, suggested label) over the samples with wrong labels."""

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
        found = [(self.classes[t], self.classes[s], int(wrong[t, s])) for t, s in pairs]
        return [entry for entry in found if entry[2]]


def evaluate_run(folder: Path, truth: str | None) -> Evaluation:
    """Evaluate a saved run; `truth` is a file, or a column of the source, or left to the source."""
    run = load_run(folder)
    return evaluate(run.selection, true_labels(run, truth))


def true_labels(run: Run, truth: str | None) -> np.ndarray:
    """Return the true label of each of the run's rows."""
    if truth is not None and Path(truth).is_file():
        found: np.ndarray | None = read_label_file(Path(truth), "truth")
    else:
        options = replace(run.origin.read_options(), truth=truth)
        found = open_source(Path(run.origin.source), options).truth
    if found is None:
        raise InputError(
            f"{run.origin.source} has no column of true labels. Pass a file or a column with "
            "--truth."
        )
    # `run.place` would say that the source has lost rows; here it is the truth that is too short.
    last = int(run.row.max(initial=-1))
    if len(found) <= last:
        raise InputError(f"The truth has {len(found)} rows, but the run has row {last}.")
    return np.asarray(found[run.place(len(found))])


def evaluate(selection: Selection, truth: np.ndarray) -> Evaluation:
    """Compare a selection with the true labels of its samples."""
    if len(truth) != len(selection):
        raise InputError(f"The run has {len(selection)} rows but the truth has {len(truth)}.")
    truth = np.asarray(truth)
    label, kept = selection.label, selection.clean_mask
    right = truly_clean(label, truth)
    rows = tuple(
        ClassEvaluation(
            name,
            int(own.sum()),
            int((own & ~right).sum()),
            int((own & kept).sum()),
            selection_quality(kept[own], right[own]),
        )
        for name in selection.classes.tolist()
        for own in [label == name]
    )
    wrong = ~right
    true_code, classes = _true_codes(selection, truth[wrong])
    suggested_code = places_in(selection.classes, selection.suggested_label[wrong])
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    # Not `confusion[...] += 1`, which counts a repeated pair once.
    np.add.at(confusion, (true_code, suggested_code), 1)
    suggested = same_label(selection.suggested_label[wrong], truth[wrong])
    return Evaluation(
        n=len(selection),
        n_wrong=int(wrong.sum()),
        n_kept=int(kept.sum()),
        q_asked=selection.summary().q_asked,
        quality=selection_quality(kept, right),
        per_class=rows,
        suggested_right=float(suggested.mean()) if wrong.any() else float("nan"),
        classes=classes,
        confusion=confusion,
    )


def _true_codes(selection: Selection, truth: np.ndarray) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return true labels as codes, and the classes: the selection's, then those only in truth."""
    code = places_in(selection.classes, truth)
    others = encode_labels(truth[code < 0], "truth")
    code[code < 0] = len(selection.classes) + others.codes
    return code, (*selection.classes.tolist(), *others.classes.tolist())
