"""What the page says in numbers: the verdict, the classes, and the check against the truth."""

from dataclasses import dataclass

import numpy as np

from kspr.core.labels import codes_in, same_label, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.selectors.selection import Selection
from kspr.selectors.summary import ClassSummary, Summary

__all__ = [
    "MAX_CLASSES",
    "Check",
    "ClassTable",
    "Verdict",
    "check",
    "class_table",
    "label_codes",
    "pooled_estimate",
    "verdict",
]

MAX_CLASSES = 300
"""Rows of the table of classes; with more classes, those with most suspects are shown."""


@dataclass(frozen=True)
class Verdict:
    """The selection in one sentence's worth of numbers."""

    n: int
    n_kept: int
    n_suspects: int
    n_relabelled: int
    n_classes: int
    q_asked: float | None
    q_reached: float
    estimate: float
    """Estimated FSR over all kept rows that have an estimate; nan without one."""
    n_unestimated: int
    """Kept rows of cut groups that fell back, and so have no estimate."""
    n_empty: int
    """Suspects that are suspects only because nothing could be kept in their cut group."""
    has_error_rate: bool
    n_checked: int
    """Rows that a person has checked, on which the error rate rests; 0 without."""
    confidence: float | None
    """How sure the error rate is; None where it rests on an assumption."""
    assumption: str | None
    """What must be true for the error rate to hold; None without one."""

    @property
    def was_raised(self) -> bool:
        """Whether the level that is met is, on average, above the one asked for."""
        return self.q_asked is not None and self.q_reached > self.q_asked * (1 + 1e-9)

    @property
    def q_shown(self) -> float | None:
        """The level to explain: the one met, else the one asked for."""
        return self.q_reached if self.was_raised else self.q_asked


@dataclass(frozen=True)
class ClassTable:
    """The rows of the table of classes."""

    rows: tuple[ClassSummary, ...]
    n_classes: int
    statuses: tuple[str, ...]

    @property
    def n_left_out(self) -> int:
        """Classes that the table has no room for."""
        return self.n_classes - len(self.rows)


@dataclass(frozen=True)
class Check:
    """The promise, held against the truth that was given."""

    quality: SelectionQuality
    n_wrong: int
    n_wrong_kept: int
    n_wrong_suspects: int
    n_suggestions_right: int
    """Wrong labels among the suspects whose suggested label is the true one."""


def verdict(selection: Selection, summary: Summary) -> Verdict:
    """Count what the head of the page shows."""
    fell_back = selection.cut_groups.status == "fallback"
    empty = selection.cut_groups.status == "empty"
    checked = selection.checked
    return Verdict(
        n=summary.n,
        n_kept=summary.n_kept,
        n_suspects=summary.n - summary.n_kept,
        n_relabelled=sum(row.relabelled for row in summary.per_class),
        n_classes=len(summary.per_class),
        q_asked=summary.q_asked,
        q_reached=summary.q_reached,
        estimate=pooled_estimate(selection),
        n_unestimated=int(selection.cut_groups.n_kept[fell_back].sum()),
        n_empty=int((selection.cut_groups.n - selection.cut_groups.n_kept)[empty].sum()),
        has_error_rate=selection.q_value is not None,
        n_checked=0 if checked is None else len(checked.rows),
        confidence=None if checked is None else checked.confidence,
        assumption=selection.assumption,
    )


def pooled_estimate(selection: Selection) -> float:
    """Return the estimated FSR over all cut groups that have one, weighted by what they keep."""
    cut_groups = selection.cut_groups
    known = np.isfinite(cut_groups.estimated_fsr) & (cut_groups.n_kept > 0)
    if not known.any():
        return float("nan")
    return float(np.average(cut_groups.estimated_fsr[known], weights=cut_groups.n_kept[known]))


def class_table(summary: Summary) -> ClassTable:
    """Return all classes in their order or, if they are too many, those with most suspects."""
    rows = summary.per_class
    if len(rows) > MAX_CLASSES:
        rows = tuple(sorted(rows, key=lambda row: row.n_kept - row.n)[:MAX_CLASSES])
    return ClassTable(rows, len(summary.per_class), tuple(summary.cut_groups))


def label_codes(selection: Selection, labels: np.ndarray) -> np.ndarray:
    """Return the position of each label in `selection.classes`."""
    return codes_in(selection.classes, labels, "labels")


def check(selection: Selection, truth: np.ndarray) -> Check:
    """Measure the selection on the truth."""
    right = truly_clean(selection.label, truth)
    kept = selection.clean_mask
    found = ~right & ~kept
    return Check(
        quality=selection_quality(kept, right),
        n_wrong=int((~right).sum()),
        n_wrong_kept=int((~right & kept).sum()),
        n_wrong_suspects=int(found.sum()),
        n_suggestions_right=int((found & same_label(selection.suggested_label, truth)).sum()),
    )
