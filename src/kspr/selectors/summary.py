"""A selection as a verdict, a table of classes, and what the verdict rests on."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._text import percent, shorten, text_table, unbroken, wrapped
from kspr.selectors.notices import Notice, notices
from kspr.selectors.options import UNSEEN
from kspr.selectors.verdict import (
    Ends,
    Verdict,
    asked_rate,
    basis,
    ends,
    has_checks,
    probably_wrong,
    verdict,
)

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

STATUS_MEANING = {
    "assumed": "not yet checked by a person",
    "checked": "set by rows that a person has checked",
    "estimated": "estimated too low, because the network has seen these labels",
    "not held": "contradicted by the estimated chances of single labels",
    UNSEEN: "kept in the order of doubt, because features hardly show which labels are wrong",
    "raised": "at a higher error rate than asked for, the smallest that could be reached",
    "fallback": "the best half is kept, without an error rate",
    "empty": "nothing is kept, because the error rate could not be reached",
    "share": "a fixed share is kept, without an error rate",
    "unchecked": "no threshold yet, because a doubt alone has no error rate",
}
"""What each status of a cut group means, as it ends the sentence about the thresholds."""
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
    probably_wrong: int
    """Labels that are more likely wrong than right."""
    uncertain: int
    """The other suspects."""
    status: dict[str, int]
    """How many of its samples stand in cut groups of each status."""

    @property
    def worst_first(self) -> tuple[int, int]:
        """Key that puts the class with most suspects first; of equals, most probably wrong."""
        return self.n_kept - self.n, -self.probably_wrong


@dataclass(frozen=True, repr=False)
class Summary:
    """A selection in a few numbers. Printing it gives the verdict, a table, and the basis."""

    verdict: Verdict
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
    ends: Ends | None
    """Share of wrong labels among the kept ones under either kind of mistake; None where there is
    no model of the noise."""
    noise: str | None
    """How much noise there is, in a sentence; None where it is not estimated."""
    estimates: str | None
    """What checked rows and the fit say together, in a few lines; None without such rows."""
    notices: tuple[Notice, ...]
    """Where the error rate was not reached, which copies differ in their labels, and what would
    help."""
    worst: str = ""
    """The worst suspects with their pictures or texts, as HTML; empty where none were given."""

    @property
    def most_suspect(self) -> tuple[ClassSummary, ...]:
        """The classes to look at first: all, or of many the ten with most suspects."""
        if len(self.per_class) <= MAX_SHOWN:
            return self.per_class
        return tuple(sorted(self.per_class, key=lambda row: row.worst_first)[:MAX_SHOWN])

    @property
    def has_levels(self) -> bool:
        """Whether classes reach different error rates."""
        # Levels that differ by rounding error only are the same.
        return len({f"{row.q_reached:.9f}" for row in self.per_class}) > 1

    def headline(self) -> str:
        """Return how many labels are kept, and by which thresholds, in two lines."""
        share = self.n_kept / self.n
        asked = "" if self.q_asked is None else f" at q = {self.q_asked:g}"
        if UNSEEN in self.cut_groups:
            asked = f"; q = {self.q_asked:g} was asked for, and no rate can be stated"
        elif "estimated" in self.cut_groups:
            asked = f"; q = {self.q_asked:g} was asked for and is not held"
        first = f"{self.method}: {self.n_kept:,} of {self.n:,} labels kept ({share:.1%}){asked}"
        total, n_classes = sum(self.cut_groups.values()), len(self.per_class)
        classes = "1 class" if n_classes == 1 else f"all {n_classes:,} classes"
        numbers = "One threshold" if total == 1 else f"{total:,} thresholds"
        said = [STATUS_MEANING[status] for status in self.cut_groups]
        if len(said) > 1:
            said = [
                f"{n:,} {status} ({STATUS_MEANING[status]})"
                for status, n in self.cut_groups.items()
            ]
        return f"{first}\n{numbers} for {classes}; {', '.join(said)}"

    def __repr__(self) -> str:
        # What a session shows is the table.
        return str(self)

    def __str__(self) -> str:
        head, rows = self._table()
        first, *others = self.verdict.sentences
        blocks = [
            wrapped(f"{first} {' '.join(others)}"),
            "\n".join([text_table(head, rows), *map(wrapped, self._left_out())]),
            *(wrapped(str(notice)) for notice in self.notices),
            wrapped("\n".join(self.details)),
        ]
        return "\n\n".join(blocks)

    def to_html(self) -> str:
        """Return the summary as a small piece of HTML, for notebooks."""

        def paragraph(text: str) -> str:
            return f"<p>{escape(unbroken(text))}</p>".replace("\n", "<br>")

        head, rows = self._table()
        first, *others = map(escape, map(unbroken, self.verdict.sentences))
        cells = ("".join(f"<td><bdi>{escape(cell)}</bdi></td>" for cell in row) for row in rows)
        return "".join(
            [
                f"<div><p><b>{first}</b> {' '.join(others)}</p><table><thead><tr>",
                *(f"<th>{name}</th>" for name in head),
                "</tr></thead>",
                *(f"<tr>{row}</tr>" for row in cells),
                f"</table>{self.worst}",
                *map(paragraph, [*self._left_out(), *map(str, self.notices)]),
                paragraph("\n".join(self.details)),
                "</div>",
            ]
        )

    def _repr_html_(self) -> str:
        return self.to_html()

    def _table(self) -> tuple[list[str], list[list[str]]]:
        """Return heads and rows of the table of classes, without columns that are the same."""
        shown = self.most_suspect
        columns = {
            "class": [shorten(row.label, _LONGEST) or "(empty)" for row in shown],
            "labels": [f"{row.n:,}" for row in shown],
            "kept": [f"{row.n_kept:,}" for row in shown],
            "share": [f"{row.n_kept / row.n:.1%}" for row in shown],
            "probably wrong": [f"{row.probably_wrong:,}" for row in shown],
            "uncertain": [f"{row.uncertain:,}" for row in shown],
        }
        if self.has_levels:
            columns["error rate"] = [percent(row.q_reached) for row in shown]
        if len(self.cut_groups) > 1:
            statuses = [_statuses(row.status) for row in shown]
            # Text, and padded here, because a table puts its columns flush right.
            width = max(map(len, statuses))
            columns["status".ljust(width)] = [status.ljust(width) for status in statuses]
        return list(columns), list(map(list, zip(*columns.values(), strict=True)))

    @property
    def details(self) -> list[str]:
        """What the verdict rests on, in lines."""
        blocks = [self.headline(), *filter(None, (self.noise, self.basis))]
        return "\n".join(blocks).splitlines()

    def _left_out(self) -> list[str]:
        """Return where the classes are that the table leaves out, as one line or none."""
        shown = len(self.most_suspect)
        if shown == len(self.per_class):
            return []
        return [
            f"Shown are the {shown} of {len(self.per_class):,} classes with most suspects. All of "
            "them: summary().per_class, `kspr select --json` or the page of `kspr report`."
        ]


def summarise(selection: Selection) -> Summary:
    """Return the summary of a selection."""
    cut_groups = selection.cut_groups
    names, status = np.unique(cut_groups.status, return_inverse=True)
    counted = _counts(selection, status, len(names))
    n, n_kept, n_known, n_relabelled, n_wrong, n_uncertain, level_sum = counted[:7]
    by_status = counted[7:].T
    rows = [
        ClassSummary(
            label=label,
            n=int(n[k]),
            n_kept=int(n_kept[k]),
            q_reached=float(level_sum[k] / n_known[k]) if n_known[k] else float("nan"),
            relabelled=int(n_relabelled[k]),
            probably_wrong=int(n_wrong[k]),
            uncertain=int(n_uncertain[k]),
            status={str(s): int(m) for s, m in zip(names, by_status[k], strict=True) if m},
        )
        for k, label in enumerate(selection.classes.tolist())
    ]
    counts = np.bincount(status, minlength=len(names))
    return Summary(
        verdict=verdict(selection),
        method=selection.manifest.method,
        n=len(selection),
        n_kept=int(selection.clean_mask.sum()),
        q_asked=asked_rate(selection),
        q_reached=float(level_sum.sum() / n_known.sum()) if n_known.any() else float("nan"),
        per_class=tuple(rows),
        cut_groups=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        assumption=selection.assumption,
        basis=basis(selection),
        ends=None if selection.doubt_by_people is None else ends(selection),
        noise=None if selection.noise is None else str(selection.noise),
        estimates=str(selection.estimates()) if has_checks(selection) else None,
        notices=notices(selection),
    )


def _counts(selection: Selection, status: np.ndarray, n_statuses: int) -> np.ndarray:
    """Return counts for every class, by columns.

    All rows, kept ones, kept ones with a level, relabelled, probably wrong and uncertain ones; the
    sum of the levels; and the rows of each status. `status` numbers that of each cut group.
    """
    codes, group, kept = selection.label_code, selection.cut_group, selection.clean_mask
    n_classes, level = len(selection.classes), selection.cut_groups.q_reached[group]
    # A fallback keeps rows without a level.
    known = kept & ~np.isnan(level)
    relabelled = ~kept & (selection.suggested_code != codes)
    wrong = probably_wrong(selection)
    masks = (np.ones_like(kept), kept, known, relabelled, wrong, ~kept & ~wrong)
    rows = [np.bincount(codes[mask], minlength=n_classes) for mask in masks]
    rows.append(np.bincount(codes[known], weights=level[known], minlength=n_classes))
    # A two-way table, (status, class), from one count.
    both = np.bincount(
        status[group] * n_classes + codes.astype(np.int64), minlength=n_statuses * n_classes
    )
    return np.vstack([*rows, both.reshape(n_statuses, n_classes)])


def _statuses(status: dict[str, int]) -> str:
    if len(status) == 1:
        return next(iter(status))
    total = sum(status.values())
    return ", ".join(f"{name} {count / total:.0%}" for name, count in status.items())
