"""A selection in words and a small table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr.core.labels import codes_in

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = ["ClassSummary", "Summary", "summarise"]

STATUS_MEANING = {
    "controlled": "kept at the level asked for",
    "checked": "kept at the level asked for, as the checked rows vouch for",
    "raised": "kept at a higher level, the smallest that could be reached",
    "fallback": "no level up to 0.5 could be reached; the best half was kept, with no estimate",
    "empty": "the level could not be reached; nothing was kept",
    "share": "a fixed share was kept; no error rate is estimated",
}


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


@dataclass(frozen=True)
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
    noise: str | None
    """How much noise there is, in a sentence; None where it was not asked."""
    advice: str | None
    """What would help where the level could not be reached; None where it was."""

    def headline(self) -> str:
        """Return the verdict in a line or two."""
        share = self.n_kept / self.n
        asked = "" if self.q_asked is None else f" at q = {self.q_asked:g}"
        first = f"{self.method}: {self.n_kept:,} of {self.n:,} labels kept ({share:.1%}){asked}"
        total = sum(self.cut_groups.values())
        parts = ", ".join(f"{count} {status}" for status, count in self.cut_groups.items())
        return f"{first}\n{len(self.per_class)} classes in {total} cut groups: {parts}"

    def __str__(self) -> str:
        names = [str(row.label) for row in self.per_class]
        width = max(5, *(len(name) for name in names))
        lines = [
            self.headline(),
            "",
            f"{'class':<{width}}  {'n':>8}  {'kept':>8}  {'share':>6}  {'q met':>6}  "
            f"{'relabel':>8}  status",
        ]
        for name, row in zip(names, self.per_class, strict=True):
            lines.append(
                f"{name:<{width}}  {row.n:>8,}  {row.n_kept:>8,}  {row.n_kept / row.n:>6.1%}  "
                f"{_level(row.q_reached):>6}  {row.relabelled:>8,}  {_statuses(row.status)}"
            )
        notes = [f"{s}: {STATUS_MEANING[s]}." for s in self.cut_groups if s != "controlled"]
        if self.advice is not None:
            notes.append(self.advice)
        if self.noise is not None:
            notes.append(self.noise)
        if self.assumption is not None:
            notes.append(f"Assumed: {self.assumption}")
        return "\n".join([*lines, *([""] if notes else []), *notes])

    def to_html(self) -> str:
        """Return the summary as a small HTML table, for notebooks."""
        head = "".join(
            f"<th>{name}</th>"
            for name in ("class", "n", "kept", "share", "q met", "relabel", "status")
        )
        rows = "".join(
            "<tr>"
            f"<td>{escape(str(row.label))}</td><td>{row.n:,}</td><td>{row.n_kept:,}</td>"
            f"<td>{row.n_kept / row.n:.1%}</td><td>{_level(row.q_reached)}</td>"
            f"<td>{row.relabelled:,}</td><td>{_statuses(row.status)}</td></tr>"
            for row in self.per_class
        )
        headline = "<br>".join(escape(line) for line in self.headline().splitlines())
        return f"<div><p>{headline}</p><table><thead><tr>{head}</tr></thead>{rows}</table></div>"


def summarise(selection: Selection) -> Summary:
    """Count what `Summary` shows."""
    cut_groups, cut_group, kept = selection.cut_groups, selection.cut_group, selection.clean_mask
    n_classes = len(selection.classes)
    codes = codes_in(selection.classes, selection.label, "label")
    relabelled = ~kept & (selection.suggested_label != selection.label)
    names, status = np.unique(cut_groups.status, return_inverse=True)
    by_status = np.bincount(
        codes * len(names) + status[cut_group], minlength=n_classes * len(names)
    )
    by_status = by_status.reshape(n_classes, len(names))
    level = cut_groups.q_reached[cut_group]
    known = kept & ~np.isnan(level)
    n, n_kept, n_known, n_relabelled = (
        np.bincount(codes[mask], minlength=n_classes)
        for mask in (np.ones_like(kept), kept, known, relabelled)
    )
    level_sum = np.bincount(codes[known], weights=level[known], minlength=n_classes)
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
    asked = cut_groups.q_asked[~np.isnan(cut_groups.q_asked)]
    return Summary(
        method=selection.manifest.method,
        n=len(selection),
        n_kept=int(selection.clean_mask.sum()),
        q_asked=float(asked[0]) if asked.size else None,
        q_reached=float(level[known].mean()) if known.any() else float("nan"),
        per_class=tuple(rows),
        cut_groups=dict(zip(names.tolist(), counts.tolist(), strict=True)),
        assumption=selection.assumption,
        noise=None if selection.noise is None else str(selection.noise),
        advice=_advice(selection),
    )


def _advice(selection: Selection) -> str | None:
    """Say which level could be reached, and what else would help, where nothing is kept."""
    cut_groups = selection.cut_groups
    empty = cut_groups.status == "empty"
    if not empty.any():
        return None
    within = cut_groups.smallest_q[empty]
    reach = within[np.isfinite(within) & (within < 1)]
    words = []
    if reach.size:
        first, last = (f"{np.ceil(100 * v - 1e-9) / 100:g}" for v in (reach.min(), reach.max()))
        every = reach.size == empty.sum()
        words.append(f"q = {last} would reach it" if every else f"q = {first} would for some")
    if (cut_groups.class_code >= 0).all():
        words.append("cut='pooled' holds q over all classes together instead")
    words.append("more samples per class, better features or checked rows (checked=) lower it")
    return f"Where nothing was kept: {'; '.join(words)}."


def _level(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _statuses(status: dict[str, int]) -> str:
    if len(status) == 1:
        return next(iter(status))
    total = sum(status.values())
    return ", ".join(f"{name} {count / total:.0%}" for name, count in status.items())
