"""A selection as a headline, a table of classes, and notes."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._text import shorten, text_table
from kspr.selectors.notices import Notice, basis, notices
from kspr.selectors.options import UNSEEN

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["ClassSummary", "Summary", "summarise"]

STATUS_MEANING = {
    "assumed": "kept at the level asked for, if what is assumed is true",
    "checked": "kept at the level asked for, by the checked rows",
    "estimated": "kept by an estimate that is too low: the network has seen these labels",
    UNSEEN: "kept in the order of doubt; features hardly show which labels are wrong",
    "not held": "kept at the level asked for, which the estimated chances contradict",
    "raised": "kept at a higher level, the smallest that could be reached",
    "fallback": "no level up to 0.5 could be reached; the best half was kept, with no estimate",
    "empty": "the level could not be reached; nothing was kept",
    "share": "a fixed share was kept; no error rate is estimated",
    "unchecked": "a doubt alone has no error rate, so nothing is kept; check about 100 rows",
}
"""What each status of a cut group means."""
_COLUMNS = ("class", "n", "kept", "share", "q met", "relabel", "status")
MAX_SHOWN = 10
"""Longest table of classes; with more, the classes with most suspects are shown."""
_LONGEST = 40
"""Longest name of a class in the table, in characters."""


@dataclass(frozen=True)
class ClassSummary:
    """One class, over all of its cut groups."""

    label: Any
    n: int
    n_kept: int
    q_reached: float
    """Mean over the kept samples of the level that their cut groups met; nan without one."""
    relabelled: int
    """Suspects for which another label fits better."""
    status: dict[str, int]
    """How many of its samples stand in cut groups of each status."""


@dataclass(frozen=True, repr=False)
class Summary:
    """A selection in a few numbers. Printing it gives a table."""

    method: str
    n: int
    n_kept: int
    q_asked: float | None
    q_reached: float
    per_class: tuple[ClassSummary, ...]
    cut_groups: dict[str, int]
    """How many cut groups have each status."""
    assumption: str | None
    """What must be true for the error rate to hold; None without one."""
    basis: str | None
    """What the error rate rests on: checked rows, or the assumption; None without a rate."""
    noise: str | None
    """How much noise there is, in a sentence; None where it is not estimated."""
    estimates: str | None
    """What checked rows and the fit say together, in a few lines; None without such rows."""
    notices: tuple[Notice, ...]
    """Where the level was not met, which copies differ in their labels, and what would help."""

    @property
    def most_suspect(self) -> tuple[ClassSummary, ...]:
        """The classes to look at first: all, or of many the ten with most suspects."""
        if len(self.per_class) <= MAX_SHOWN:
            return self.per_class
        return tuple(sorted(self.per_class, key=lambda row: row.n_kept - row.n)[:MAX_SHOWN])

    def headline(self) -> str:
        """Return how many labels are kept, and the statuses of the cut groups, in two lines."""
        share = self.n_kept / self.n
        asked = "" if self.q_asked is None else f" at q = {self.q_asked:g}"
        if UNSEEN in self.cut_groups:
            asked = f"; q = {self.q_asked:g} was asked for, and no rate can be stated"
        elif "estimated" in self.cut_groups:
            asked = f"; q = {self.q_asked:g} was asked for and is not held"
        first = f"{self.method}: {self.n_kept:,} of {self.n:,} labels kept ({share:.1%}){asked}"
        total = sum(self.cut_groups.values())
        parts = ", ".join(f"{count} {status}" for status, count in self.cut_groups.items())
        groups = "1 cut group" if total == 1 else f"{total} cut groups"
        classes = "1 class" if len(self.per_class) == 1 else f"{len(self.per_class)} classes"
        return f"{first}\n{classes} in {groups}: {parts}"

    def __repr__(self) -> str:
        # What a session shows is the table.
        return str(self)

    def __str__(self) -> str:
        shown = self.most_suspect
        statuses = [_statuses(row.status) for row in shown]
        width = max(map(len, statuses))
        # The last column is text: padded here, because a table puts its columns flush right.
        table = [
            [*_cells(row), status.ljust(width)] for row, status in zip(shown, statuses, strict=True)
        ]
        lines = [
            self.headline(),
            "",
            text_table((*_COLUMNS[:-1], _COLUMNS[-1].ljust(width)), table),
            *self._left_out(),
        ]
        met = [s for s in self.cut_groups if s in ("checked", "estimated", "share", "unchecked")]
        notes = [f"{s}: {STATUS_MEANING[s]}." for s in met]
        # The noise of the fit alone rests on the assumption that the checked rows replace.
        rates = self.estimates or self.noise
        if rates is not None:
            notes.append(rates)
        if self.basis is not None:
            notes.append(self.basis)
        blocks = [*map(str, self.notices), *(["\n".join(notes)] if notes else [])]
        return "\n\n".join(["\n".join(lines), *blocks])

    def to_html(self) -> str:
        """Return the summary as a small HTML table, for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
            for cells in ([*_cells(row), _statuses(row.status)] for row in self.most_suspect)
        )
        words = [*self.headline().splitlines(), *self._left_out()]
        headline = "<br>".join(escape(line) for line in words)
        return f"<div><p>{headline}</p><table><thead><tr>{head}</tr></thead>{rows}</table></div>"

    def _left_out(self) -> list[str]:
        """Return where the classes are that the table leaves out, as one line or none."""
        shown = len(self.most_suspect)
        if shown == len(self.per_class):
            return []
        return [
            f"Shown are the {shown} of {len(self.per_class):,} classes with most suspects. All of "
            "them: summary().per_class, `kspr select --json` or the page of `kspr report`."
        ]


def _cells(row: ClassSummary) -> list[str]:
    """Return the text of every column but the status."""
    return [
        shorten(row.label, _LONGEST) or "(empty)",
        f"{row.n:,}",
        f"{row.n_kept:,}",
        f"{row.n_kept / row.n:.1%}",
        _level(row.q_reached),
        f"{row.relabelled:,}",
    ]


def summarise(selection: Selection) -> Summary:
    """Return the summary of a selection."""
    cut_groups = selection.cut_groups
    names, status = np.unique(cut_groups.status, return_inverse=True)
    counted = _counts(selection, status, len(names))
    n, n_kept, n_known, n_relabelled, level_sum = counted[:5]
    by_status = counted[5:].T
    rows = [
        ClassSummary(
            label=label,
            n=int(n[k]),
            n_kept=int(n_kept[k]),
            q_reached=float(level_sum[k] / n_known[k]) if n_known[k] else float("nan"),
            relabelled=int(n_relabelled[k]),
            status={str(s): int(m) for s, m in zip(names, by_status[k], strict=True) if m},
        )
        for k, label in enumerate(selection.classes.tolist())
    ]
    counts = np.bincount(status, minlength=len(names))
    # All cut groups are asked for one level; SPR is asked for none.
    asked = cut_groups.q_asked[~np.isnan(cut_groups.q_asked)]
    return Summary(
        method=selection.manifest.method,
        n=len(selection),
        n_kept=int(selection.clean_mask.sum()),
        q_asked=float(asked[0]) if asked.size else None,
        q_reached=float(level_sum.sum() / n_known.sum()) if n_known.any() else float("nan"),
        per_class=tuple(rows),
        cut_groups=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        assumption=selection.assumption,
        basis=basis(selection),
        noise=None if selection.noise is None or UNSEEN in names else str(selection.noise),
        estimates=str(selection.estimates()) if _has_checks(selection) else None,
        notices=notices(selection),
    )


def _counts(selection: Selection, status: np.ndarray, n_statuses: int) -> np.ndarray:
    """Return counts for every class, by columns.

    All rows, kept ones, kept ones with a level, relabelled ones; the sum of the levels; and the
    rows of each status, of which `status` numbers that of each cut group.
    """
    codes, group, kept = selection.label_code, selection.cut_group, selection.clean_mask
    n_classes, level = len(selection.classes), selection.cut_groups.q_reached[group]
    # A fallback keeps rows without a level.
    known = kept & ~np.isnan(level)
    relabelled = ~kept & (selection.suggested_code != codes)
    masks = (np.ones_like(kept), kept, known, relabelled)
    rows = [np.bincount(codes[mask], minlength=n_classes) for mask in masks]
    rows.append(np.bincount(codes[known], weights=level[known], minlength=n_classes))
    # A two-way table, (status, class), from one count.
    both = np.bincount(
        status[group] * n_classes + codes.astype(np.int64), minlength=n_statuses * n_classes
    )
    return np.vstack([*rows, both.reshape(n_statuses, n_classes)])


def _has_checks(selection: Selection) -> bool:
    return selection.checked is not None and selection.checked.calibrate


def _level(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _statuses(status: dict[str, int]) -> str:
    if len(status) == 1:
        return next(iter(status))
    total = sum(status.values())
    return ", ".join(f"{name} {count / total:.0%}" for name, count in status.items())
