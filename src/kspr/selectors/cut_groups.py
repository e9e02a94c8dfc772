"""Cut groups: the rows that are cut together, and the result of the cut."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from kspr._text import text_table
from kspr.selectors.options import MODELLED, NOT_HELD, UNSEEN

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

_FAR = 3.0
"""Estimated rate of a class, over q, from which on it is cut by itself: on CIFAR-10 with common
noise and with that of people at most 2.6, in classes that are rare or swamped 3.6 to 8.5."""
_RARE = 0.5
"""Kept rows of such a class, over those of the mean class, below which it is rare."""
_APART = 1.3
"""Mean chance of a wrong label among the kept ones, over q, from which on the two contradict each
other. On 40 data sets with known noise it was at most 1.16."""
_LEAST_EXPLAINED = 0.3
"""Share of what is wrong that chances must explain: on labels by a language model, where the rate
was false, it was .13 and .28; on labels of people, texts, tables and networks at least .39, on
8,000 rows with Sym. 80 % .32. One made set with weak features (.18) is warned of without need."""
_LEAST_DOUBT = 0.01
"""Mean chance of a wrong label below which the spread of the chances says nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class CutGroups:
    """One entry per cut group: which rows were cut together, and the result of the cut.

    A cut group is a class, or all classes for a pooled cut, but for rare ones of which far more
    labels than `q` would be wrong; under the paper's controls it is that in one half of a piece.
    Where halves or pieces play no part they are 0.
    """

    piece: np.ndarray
    """Number of the piece."""
    half: np.ndarray
    """Half of the piece, 0 or 1."""
    class_code: np.ndarray
    """Position in `Selection.classes`; -1 for the classes that are cut together."""
    n: np.ndarray
    """Number of samples."""
    n_kept: np.ndarray
    """Number of kept samples."""
    q_asked: np.ndarray
    """The level that was asked for; nan for SPR."""
    q_reached: np.ndarray
    """The level that the cut reaches; nan where it reaches none."""
    estimated_fsr: np.ndarray
    """Estimated share of wrong labels at the cut-off; inf where nothing is kept at a level."""
    smallest_q: np.ndarray
    """The smallest level that this cut group could reach at all."""
    cutoff: np.ndarray
    """Doubt of the last sample that is kept."""
    status: np.ndarray
    """One of the statuses that a summary explains: ``assumed``, ``checked``, ``empty``, ..."""

    @property
    def levels_met(self) -> np.ndarray:
        """The levels of the cut groups that met one."""
        return np.asarray(self.q_reached[np.isfinite(self.q_reached)])

    def __len__(self) -> int:
        return len(self.n)

    def __repr__(self) -> str:
        return f"<{len(self)} cut groups: {self.n_kept.sum():,} of {self.n.sum():,} rows kept>"


def uncut(table: np.ndarray, cut_group: np.ndarray) -> CutGroups:
    """Return the cut groups before they are cut: only their sizes are known."""
    # Shared by the fields below: none of them is ever written into.
    unknown = np.full(len(table), np.nan)
    n = np.bincount(cut_group, minlength=len(table))
    return CutGroups(
        piece=table[:, 0],
        half=table[:, 1],
        class_code=table[:, 2],
        n=n,
        n_kept=np.zeros_like(n),
        q_asked=unknown,
        q_reached=unknown,
        estimated_fsr=unknown,
        smallest_q=unknown,
        cutoff=unknown,
        status=np.full(len(table), "empty"),
    )


def cut_by_class(
    codes: np.ndarray, n_classes: int, *, pooled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the cut group of each row and the table of cut groups: one per class, or one for all.

    Row k of the table is piece, half and class of cut group k.
    """
    if pooled:
        # Zeros that take no memory.
        return np.broadcast_to(np.zeros(1, dtype=np.uint8), codes.shape), np.array([[0, 0, -1]])
    # Estimates from all halves and pieces together give cut-offs for all of them together.
    groups = np.arange(n_classes)
    nowhere = np.zeros_like(groups)
    small = codes.astype(np.min_scalar_type(n_classes - 1), copy=False)
    return small, np.stack([nowhere, nowhere, groups], axis=1)


def cut_at(selection: Selection, keep: np.ndarray, q: float) -> Selection:
    """Return the selection at the level `q`, by which the rows `keep` are kept."""
    name = "estimated" if selection.manifest.seen_labels else "assumed"
    if selection.checked is not None and selection.checked.calibrate:
        name = "checked"
    elif selection.control in MODELLED and explained(selection.doubt) < _LEAST_EXPLAINED:
        name = UNSEEN
    answered = np.empty(0, dtype=np.int64) if selection.checked is None else selection.checked.rows
    judged = keep.copy()
    # A row that a person kept does not make its group reach q.
    judged[answered] = False
    reached = np.bincount(selection.cut_group[judged], minlength=len(selection.cut_groups)) > 0
    modelled = selection.control in MODELLED and name != "checked"
    against = _contradicted(selection, judged, q) if modelled else np.zeros_like(reached)
    cut_groups = recut(
        selection,
        judged,
        asked=q,
        level=np.where(reached & (name != UNSEEN), q, np.nan),
        status=np.where(reached, np.where(against, NOT_HELD, name), "empty"),
    )
    # Only the counts: levels and cut-offs are those of the cut, without a person's answers.
    by_answer = selection.cut_group[answered[keep[answered]]]
    n_kept = cut_groups.n_kept + np.bincount(by_answer, minlength=len(cut_groups))
    cut_groups = replace(cut_groups, n_kept=n_kept)
    # The manifest describes this selection, so that a new fit would give the same.
    manifest = replace(
        selection.manifest, parameters={**selection.manifest.parameters, "q": q, "level": "fixed"}
    )
    return replace(selection, clean_mask=keep, cut_groups=cut_groups, manifest=manifest)


def _contradicted(selection: Selection, kept: np.ndarray, q: float) -> np.ndarray:
    """Return, for each cut group, whether the chances of what is kept exclude the level q."""
    n_groups = len(selection.cut_groups)
    n_kept = np.maximum(np.bincount(selection.cut_group[kept], minlength=n_groups), 1)
    expected = np.bincount(selection.cut_group[kept], selection.doubt[kept], n_groups) / n_kept
    return np.asarray(expected > _APART * q + 2 * np.sqrt(q / n_kept))


def explained(doubt: np.ndarray) -> float:
    """Return the share of what is wrong that chances explain by their spread, from 0 to 1.

    It is 1 where every label is surely right or surely wrong, and 0 where all have the same chance:
    then features see nothing of the noise, and how much there is of it is a guess.
    """
    mean = float(np.mean(doubt, dtype=np.float64))
    left = mean * (1.0 - mean)
    # Where hardly any label is in doubt, there is nothing to explain.
    if mean < _LEAST_DOUBT:
        return 1.0
    return float(np.var(doubt, dtype=np.float64)) / max(left, 1e-12)


def far_classes(selection: Selection, kept: np.ndarray, q: float) -> tuple[np.ndarray, ...]:
    """Return the classes whose own rate among the `kept` rows is far above `q`, the worst first.

    Far is over three times `q`, beyond twice the sampling error. The other two values are the
    expected wrong labels and the kept rows of every class. Rows that a person kept are right.
    """
    unchecked = kept.copy()
    if selection.checked is not None:
        unchecked[selection.checked.rows] = False
    code, n_classes = selection.label_code, len(selection.classes)
    n_kept = np.bincount(code[kept], minlength=n_classes)
    wrong = np.bincount(code[unchecked], selection.doubt[unchecked], n_classes)
    size = np.maximum(n_kept, 1)
    own = wrong / size
    far = np.flatnonzero(own > _FAR * q + 2 * np.sqrt(q / size))
    return far[np.argsort(-own[far], kind="stable")], wrong, n_kept


def cut_apart(selection: Selection, q: float) -> Selection:
    """Return a pooled selection in which rare classes far above `q` are cut by themselves.

    Such a class is kept in the order of doubt as long as the expected share of wrong labels among
    its own kept rows is within the level. That takes doubtful rows away and adds none, so the rate
    over all classes holds as before.
    """
    groups, level = selection.cut_groups, selection.q_value
    if not selection.doubt_is_chance or level is None or (groups.class_code >= 0).any():
        return selection
    far, _, n_kept = far_classes(selection, level <= q, q)
    # A large class has its part in the rate over all classes, which holds: the notice names it.
    apart = np.sort(far[n_kept[far] < _RARE * n_kept.mean()])
    if not 0 < apart.size < len(selection.classes):
        return selection
    level = level.copy()
    for k in apart:
        rows = np.flatnonzero((selection.label_code == k) & np.isfinite(level))
        ordered = np.sort(selection.doubt[rows])
        mean = np.cumsum(ordered) / np.arange(1, len(rows) + 1)
        # Rows of equal doubt are kept together.
        last = np.searchsorted(ordered, selection.doubt[rows], side="right") - 1
        level[rows] = np.maximum(level[rows], mean[last])
    group = np.zeros(len(selection.classes), dtype=np.min_scalar_type(len(apart)))
    group[apart] = np.arange(1, len(apart) + 1)
    cut_group = group[selection.label_code]
    nowhere = np.zeros(len(apart) + 1, dtype=np.int64)
    table = np.stack([nowhere, nowhere, np.append(-1, apart)], axis=1)
    return replace(
        selection, q_value=level, cut_group=cut_group, cut_groups=uncut(table, cut_group)
    )


def recut(
    selection: Selection, keep: np.ndarray, *, asked: float, level: np.ndarray, status: np.ndarray
) -> CutGroups:
    """Return the cut groups of a selection in which the rows in `keep` are kept.

    `level` is the level of each cut group, nan where none was reached.
    """
    cut_group, n_groups = selection.cut_group, len(selection.cut_groups)
    q_value = selection.q_value
    assert q_value is not None  # noqa: S101 - only selections with levels are cut
    smallest = np.full(n_groups, np.inf)
    np.minimum.at(smallest, cut_group, q_value)
    # A fallback keeps rows that no level reaches: these say nothing of the estimate.
    met = keep & np.isfinite(q_value)
    estimate, cutoff = np.full(n_groups, -np.inf), np.zeros(n_groups)
    # `at`: plain indexing would keep a single row of each group.
    np.maximum.at(estimate, cut_group[met], q_value[met])
    np.maximum.at(cutoff, cut_group[met], selection.doubt[met])
    reached = np.isfinite(estimate) & ~np.isnan(level)
    return replace(
        selection.cut_groups,
        n_kept=np.bincount(cut_group[keep], minlength=n_groups),
        q_asked=np.full(n_groups, asked),
        q_reached=level,
        estimated_fsr=np.where(reached, estimate, np.inf),
        smallest_q=smallest,
        cutoff=cutoff,
        status=status,
    )


def cut_group_columns(cut_groups: CutGroups) -> dict[str, np.ndarray]:
    """Return the table of cut groups, column by column."""
    return {field.name: getattr(cut_groups, field.name) for field in fields(cut_groups)}


_LEVEL_ENDS = (1e-6, 1 - 1e-6)
"""Range of levels that `Selection.at` takes; an estimate may lie on its border."""


@dataclass(frozen=True, eq=False, repr=False)
class Curve:
    """What each level keeps: one entry per level at which something changes, ascending."""

    q: np.ndarray
    """The levels."""
    n_kept: np.ndarray
    """How many samples each keeps."""
    share_kept: np.ndarray
    """The share of all samples that this is."""
    estimated_fsr: np.ndarray
    """Estimated share of wrong labels among all kept ones; at most `q`."""
    estimated_f1: np.ndarray | None = None
    """Estimated F1; None where the chances of right labels are not estimated."""

    @property
    def best_f1_level(self) -> float | None:
        """The level with the greatest estimated F1; None where that is not known."""
        if self.estimated_f1 is None or not len(self):
            return None
        return float(self.q[self.estimated_f1.argmax()])

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        # A session that ends a line with the curve shows the table, not ten thousand numbers.
        return str(self)

    def __str__(self) -> str:
        rows = []
        for q in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5):
            last = int(np.searchsorted(self.q, q, side="right")) - 1
            if last < 0:
                rows.append([f"{q:g}", "0", f"{0:.1%}", "-"])
                continue
            kept, share = f"{self.n_kept[last]:,}", f"{self.share_kept[last]:.1%}"
            rows.append([f"{q:g}", kept, share, f"{self.estimated_fsr[last]:.3f}"])
        return text_table(("q", "kept", "share", "estimate"), rows, left=0)


def trace_curve(
    q_value: np.ndarray, cut_group: np.ndarray, wrong_chance: np.ndarray | None = None
) -> Curve:
    """Return the curve of samples that are kept from their `q_value` on.

    `wrong_chance` of each label is added up for F1, where it is estimated.
    """
    n_rows = len(q_value)
    own, place, count = _steps(q_value, cut_group)
    first = np.searchsorted(place, place)
    before = np.cumsum(count) - count
    # A cut group's expected wrong ones grow, with each level, from rank x level to the next.
    rank = before + count - before[first]
    expected = rank * own
    expected -= np.where(np.arange(len(own)) > first, np.append(0.0, expected[:-1]), 0.0)
    merged = np.argsort(own, kind="stable")
    levels = own[merged]
    # Samples of one level are kept together, whatever their group.
    last = np.searchsorted(levels, np.unique(levels), side="right") - 1
    wrong, n_kept = np.cumsum(expected[merged])[last], np.cumsum(count[merged])[last]
    fsr = np.minimum(wrong / n_kept, levels[last])
    f1 = None
    if wrong_chance is not None:
        kept = np.isfinite(q_value)
        right = np.bincount(
            np.searchsorted(levels[last], q_value[kept]), 1.0 - wrong_chance[kept], len(last)
        )
        # F1 = 2 TP / (kept + right), all as the chances expect them.
        f1 = 2 * np.cumsum(right) / (n_kept + np.sum(1.0 - wrong_chance))
    return Curve(
        q=levels[last],
        n_kept=n_kept,
        share_kept=n_kept / n_rows,
        estimated_fsr=fsr,
        estimated_f1=f1,
    )


def _steps(q_value: np.ndarray, cut_group: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return levels, their cut groups, and how many rows each pair of these has, no pair twice.

    Pairs are in the order of the groups, then of the levels.
    """
    reached = np.isfinite(q_value)
    level, group = q_value[reached], cut_group[reached]
    order = np.lexsort((level, group))
    level, group = level[order], group[order]
    new = np.append(True, (level[1:] != level[:-1]) | (group[1:] != group[:-1]))[: len(level)]
    first = np.flatnonzero(new)
    return level[first], group[first], np.diff(np.append(first, len(level)))


def at_best_f1(selection: Selection, q: float) -> Selection:
    """Return the selection at the level of its greatest expected F1; at `q` if there is none."""
    best = selection.curve().best_f1_level
    chosen = selection.at(q if best is None else float(np.clip(best, *_LEVEL_ENDS)))
    # `at` has recorded the level as "fixed".
    parameters = {**chosen.manifest.parameters, "level": "f1"}
    return replace(chosen, manifest=replace(chosen.manifest, parameters=parameters))
