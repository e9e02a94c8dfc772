"""Numbers of the page: the verdict, the table of classes, and the check with true labels."""

from dataclasses import dataclass

import numpy as np

from kspr.core.coded import stored_of
from kspr.core.labels import same_label, truly_clean
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.selectors.selection import Selection
from kspr.selectors.summary import ClassSummary, Summary

__all__ = [
    "Check",
    "ClassTable",
    "Verdict",
    "check",
    "class_table",
    "pooled_estimate",
    "verdict",
]


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
    basis: str | None
    """What the error rate rests on; None without an error rate."""
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
    """The table of classes: those to look at first, then the others."""

    rows: tuple[ClassSummary, ...]
    n_first: int
    """How many are shown at first."""
    statuses: tuple[str, ...]
    """Statuses to tell apart; empty where all classes have the same."""
    has_levels: bool
    """Whether the levels that were reached differ."""


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
        has_error_rate=stored_of(selection, "q_value") is not None,
        n_checked=0 if checked is None else int(checked.counted.sum()),
        basis=summary.basis,
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
    """Return all classes; where the summary prints only some of them, these come first.

    A column that says the same in every row is left out.
    """
    rows, first = summary.per_class, summary.most_suspect
    if len(first) < len(rows):
        rows = tuple(sorted(rows, key=lambda row: row.n_kept - row.n))
    statuses = tuple(summary.cut_groups)
    # Levels that differ by rounding error only are the same.
    levels = {f"{row.q_reached:.9f}" for row in rows}
    return ClassTable(
        rows, len(first), statuses if len(statuses) > 1 else (), has_levels=len(levels) > 1
    )


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
