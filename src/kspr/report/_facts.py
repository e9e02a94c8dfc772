"""Numbers of the page: the verdict, the table of classes, and the check with true labels."""

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
"""Longest table of classes; with more, the classes with most suspects are shown."""


@dataclass(frozen=True)
class Verdict:
    """The numbers at the head of the page."""

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
    """Kept rows without an estimate: those of cut groups that fell back."""
    n_empty: int
    """Suspects of cut groups in which nothing could be kept."""
    has_error_rate: bool
    n_checked: int
    """Number of checked rows that the error rate is computed from; 0 without."""
    confidence: float | None
    """Probability with which the error rate holds; None if it needs an assumption instead."""
    assumption: str | None
    """What must be true for the error rate to hold; None without an error rate."""
    seen_labels: bool
    """Whether the features come from a network that has seen the labels: then it does not hold."""

    @property
    def was_raised(self) -> bool:
        """Whether the mean level that was reached is above the one asked for."""
        # The mean of equal levels may be off by a rounding error.
        return self.q_asked is not None and self.q_reached > self.q_asked * (1 + 1e-9)

    @property
    def q_shown(self) -> float | None:
        """The level to explain: the one reached if it was raised, else the one asked for."""
        return self.q_reached if self.was_raised else self.q_asked


@dataclass(frozen=True)
class ClassTable:
    """The table of classes."""

    rows: tuple[ClassSummary, ...]
    n_classes: int
    statuses: tuple[str, ...]

    @property
    def n_left_out(self) -> int:
        """Number of classes that are not in the table."""
        return self.n_classes - len(self.rows)


@dataclass(frozen=True)
class Check:
    """The selection compared with true labels."""

    quality: SelectionQuality
    n_wrong: int
    n_wrong_kept: int
    n_wrong_suspects: int
    n_suggestions_right: int
    """Suspects with a wrong label whose suggested label is the true one."""


def verdict(selection: Selection, summary: Summary) -> Verdict:
    """Return the numbers at the head of the page."""
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
        seen_labels=selection.manifest.seen_labels and not (checked and checked.calibrate),
    )


def pooled_estimate(selection: Selection) -> float:
    """Return the estimated FSR over all cut groups with one, weighted by their kept rows."""
    cut_groups = selection.cut_groups
    # np.average raises an error where all weights are zero.
    known = np.isfinite(cut_groups.estimated_fsr) & (cut_groups.n_kept > 0)
    if not known.any():
        return float("nan")
    return float(np.average(cut_groups.estimated_fsr[known], weights=cut_groups.n_kept[known]))


def class_table(summary: Summary) -> ClassTable:
    """Return all classes in their order or, if there are too many, those with most suspects."""
    rows = summary.per_class
    if len(rows) > MAX_CLASSES:
        # A page of thousands of classes would be slow, and people look at the worst ones.
        rows = tuple(sorted(rows, key=lambda row: row.n_kept - row.n)[:MAX_CLASSES])
    return ClassTable(rows, len(summary.per_class), tuple(summary.cut_groups))


def label_codes(selection: Selection, labels: np.ndarray) -> np.ndarray:
    """Return the position of each label in `selection.classes`."""
    return codes_in(selection.classes, labels, "labels")


def check(selection: Selection, truth: np.ndarray) -> Check:
    """Compare the selection with the true labels."""
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
