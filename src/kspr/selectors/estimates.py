"""What checked rows and the fit together say about a selection: noise, recall, errors per class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kspr._text import percent
from kspr.core.conformal import loose_pool
from kspr.core.shares import Estimate, assisted_share, combined, plain_share
from kspr.errors import InputError
from kspr.selectors.checked import Guarantee, steps_of

if TYPE_CHECKING:
    from kspr.selectors.checked import Checked
    from kspr.selectors.selection import Selection


@dataclass(frozen=True)
class ClassErrors:
    """Wrong labels among the kept rows with one label."""

    label: Any
    n_kept: int
    n_checked: int
    """Checked rows with this label that the threshold keeps, right or wrong."""
    fsr: Estimate
    """The interval is from these rows alone: wide where there are few."""


@dataclass(frozen=True, repr=False)
class Estimates:
    """Estimates from checked rows and the fit together, each with an interval of 95 %.

    The checked rows were drawn from `drawn_from`: of other rows they say nothing.
    """

    drawn_from: Literal["pool", "all"]
    n_rows: int
    """Rows that the checked ones were drawn from."""
    n_checked: int
    noise_rate: Estimate
    """Share of wrong labels among the rows that were drawn from."""
    recall: Estimate
    """Share of their right labels that is kept."""
    fsr: Estimate
    """Share of wrong labels among all kept rows; from the checked rows alone."""
    per_class: tuple[ClassErrors, ...]
    noise_rate_elsewhere: float | None
    """Share of wrong labels among the other rows, by the fit alone and so without an interval; None
    where there are none, or the fit gives no chances."""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        where = "all rows" if self.drawn_from == "all" else f"the {self.n_rows:,} rows of the pool"
        lines = [
            f"By {self.n_checked:,} checked rows and the fit, with intervals of 95 %:",
            f"  wrong labels among {where}: {_shown(self.noise_rate)}",
            f"  their right labels that are kept: {_shown(self.recall)}",
            f"  wrong labels among the kept rows: {_shown(self.fsr)}",
        ]
        if self.noise_rate_elsewhere is not None:
            lines.append(
                f"  wrong labels among the other rows: about {percent(self.noise_rate_elsewhere)}, "
                "by the fit alone"
            )
        return "\n".join(lines)


def _shown(estimate: Estimate) -> str:
    value = "unknown" if np.isnan(estimate.value) else percent(estimate.value)
    return f"{value} ({percent(estimate.low)} to {percent(estimate.high)})"


def estimate(selection: Selection) -> Estimates:
    """Return what the checked rows of `selection` and its fit say together."""
    checked = selection.checked
    if checked is None or not checked.calibrate or checked.drawn == "chosen":
        raise InputError(
            "estimates() needs checked rows that were drawn at random and moved the threshold. "
            "Draw some with draw_checks(), and pass the answers to with_checks()."
        )
    ranking, chance = selection._ranking(checked.q), _chance(selection)
    frame = _drawn_from(selection, checked)
    known = np.zeros(len(selection), dtype=bool)
    known[checked.rows] = True
    # What the threshold keeps of the rows that nobody has looked at, and what it leaves.
    kept, left = selection.clean_mask & ~known, frame & ~selection.clean_mask & ~known
    rows, wrong = checked.rows[checked.sampled], ~checked.right[checked.sampled]
    # On which side of the threshold a checked row would be without its answer.
    inside = ranking.doubt[rows] <= np.max(ranking.doubt[kept], initial=-np.inf)
    n_right = int(np.sum(checked.right & frame[checked.rows]))

    def share(mask: np.ndarray, sampled: np.ndarray) -> Estimate:
        mean = float(chance[mask].mean()) if mask.any() else 0.0
        return _known(assisted_share(wrong[sampled], chance[rows[sampled]], mean), mean)

    def recall(wrong_kept: float, wrong_left: float) -> float:
        n_kept = n_right + kept.sum() * (1 - wrong_kept)
        return float(n_kept / max(n_kept + left.sum() * (1 - wrong_left), 1e-9))

    elsewhere = ~frame
    model = selection.doubt_is_chance and elsewhere.any()
    return Estimates(
        drawn_from="pool" if checked.drawn == "pool" else "all",
        n_rows=int(frame.sum()),
        n_checked=len(rows),
        noise_rate=share(frame, np.ones(len(rows), dtype=bool)),
        recall=combined(recall, share(kept, inside), share(left, ~inside)),
        fsr=_errors(int(selection.clean_mask.sum()), int(kept.sum()), wrong[inside]),
        per_class=_per_class(selection, kept, rows[inside], wrong[inside]),
        noise_rate_elsewhere=float(chance[elsewhere].mean()) if model else None,
    )


def noise_rate(selection: Selection, checked: Checked) -> Estimate | None:
    """Return the share of wrong labels among all rows, by checked rows and the fit.

    Of rows that checked ones were not drawn from, only the fit's chances are known; None without
    them. The interval is that of the other rows.
    """
    rows, wrong = checked.rows[checked.sampled], ~checked.right[checked.sampled]
    frame, chance = _drawn_from(selection, checked), _chance(selection)
    if not rows.size or not (frame.all() or selection.doubt_is_chance):
        return None
    found = assisted_share(wrong, chance[rows], float(chance[frame].mean()))
    part, beyond = float(frame.mean()), float(chance[~frame].sum()) / len(frame)
    return Estimate(*(part * end + beyond for end in (found.value, found.low, found.high)))


def _drawn_from(selection: Selection, checked: Checked) -> np.ndarray:
    """Return a mask of the rows that the checked ones were drawn from."""
    if checked.drawn == "pool":
        return selection._ranking(checked.q).pool(checked.q)
    return np.ones(len(selection), dtype=bool)


def _chance(selection: Selection) -> np.ndarray:
    """Return the fit's chance that each label is wrong; the same for all where it gives none."""
    if selection.doubt_is_chance:
        return selection.doubt
    return np.broadcast_to(0.0, len(selection))


def _known(estimate: Estimate, mean: float) -> Estimate:
    """Return the estimate, or the model's own value between 0 and 1 where no row was checked."""
    return Estimate(mean, 0.0, 1.0) if np.isnan(estimate.value) else estimate


def _errors(n_kept: int, n_unchecked: int, wrong: np.ndarray) -> Estimate:
    """Return the share of wrong labels among `n_kept` rows, of which `n_unchecked` are unchecked.

    Checked rows are kept only if they are right. Among what a cut keeps, chances hardly tell right
    from wrong, so that the fit would not narrow the interval.
    """
    share = plain_share(int(wrong.sum()), len(wrong))
    part = n_unchecked / max(n_kept, 1)
    return Estimate(*(float(part * end) for end in (share.value, share.low, share.high)))


def _per_class(
    selection: Selection, kept: np.ndarray, rows: np.ndarray, wrong: np.ndarray
) -> tuple[ClassErrors, ...]:
    code, n_classes = selection.label_code, len(selection.classes)
    n_kept = np.bincount(code[selection.clean_mask], minlength=n_classes).tolist()
    n_unchecked = np.bincount(code[kept], minlength=n_classes).tolist()
    classes = []
    for k, label in enumerate(selection.classes.tolist()):
        own = code[rows] == k
        errors = _errors(n_kept[k], n_unchecked[k], wrong[own])
        classes.append(ClassErrors(label, n_kept[k], int(own.sum()), errors))
    return tuple(classes)


_PLAYED = 5
"""Draws that are played through; their mean is the forecast."""
_TRIED = (20, 30, 40, 50, 60, 70, 80, 90, 100, 120, 150, 200, 250, 300, 400, 500, 700, 1000)
"""Numbers of checks among which the smallest that is enough is looked for."""
MOST_CHECKS = _TRIED[-1]
"""Largest number of checks that is looked into."""
_ENOUGH = 0.9
"""Part of the recall of the best threshold that is enough."""


def expected_recall(
    selection: Selection, n: int, q: float, guarantee: Guarantee, confidence: float
) -> float:
    """Return the share of the right labels that `n` checks in all are expected to keep.

    The draw is played through with labels that are wrong as often as the fit says. Answers that
    are there already correct that: if fewer of them are wrong than the fit said, all chances are
    lowered; if more, the surplus is spread over all rows.
    """
    chance, checked = _chances(selection), selection.checked
    doubt = selection.doubt
    pool = loose_pool(doubt, selection.q_value if checked is None else checked.level, q)
    inside = doubt[pool]
    n = min(n, len(inside))
    kept: list[float] = []
    for seed in range(_PLAYED):
        rng = np.random.default_rng(seed)
        drawn = _drawn(len(inside), n, rng)
        wrong = rng.random(n) < chance(inside[drawn])
        steps = steps_of(inside, drawn, wrong, q, guarantee, confidence)
        keep = steps.of(inside) <= q
        # Answers decide on their own rows.
        keep[drawn] = False
        kept.append(np.sum(1 - chance(inside[keep])) + np.sum(~wrong))
    n_right = float(np.sum(1 - chance(doubt)))
    return min(1.0, float(np.mean(kept)) / max(n_right, 1e-9))


def _drawn(n_rows: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return `n` of the rows: those that ``rng.permutation(n_rows)`` puts first."""
    # The same shuffle of numbers that take half the memory.
    order = np.arange(n_rows, dtype=np.int32 if n_rows < 1 << 31 else np.int64)
    rng.shuffle(order)
    return order[:n].astype(np.int64)


def checks_needed(
    selection: Selection, q: float, guarantee: Guarantee, confidence: float, done: int = 0
) -> int | None:
    """Return about how many checks keep nine tenths of what the best threshold at `q` would keep.

    More than `done`, which have not been enough. None if more than `MOST_CHECKS` are needed, or no
    cut keeps anything.
    """
    best = _best_recall(np.sort(_chances(selection)(selection.doubt)), q)
    if best is None:
        return None
    return next(
        (
            n
            for n in _TRIED
            if n > done
            and expected_recall(selection, n, q, guarantee, confidence) >= _ENOUGH * best
        ),
        None,
    )


def _best_recall(ordered: np.ndarray, q: float) -> float | None:
    """Return the share of right labels below the loosest threshold that meets `q`, if any does.

    `ordered` are the chances that labels are wrong, ascending. They rise with the doubt by which
    rows are ordered, so their own order is that of the rows.
    """
    wrong = np.cumsum(ordered)
    within = np.flatnonzero(wrong <= q * np.arange(1, len(ordered) + 1))
    if not within.size:
        return None
    last = within[-1]
    return float((last + 1 - wrong[last]) / (len(ordered) - wrong[-1]))


def _chances(selection: Selection) -> Callable[[np.ndarray], np.ndarray]:
    """Return how likely a label of some doubt is wrong, by the answers that are there."""
    if not selection.doubt_is_chance:
        raise InputError(
            "A forecast needs the chance that a label is wrong, which only control='transition' "
            f"estimates, got {selection.control!r}."
        )
    checked = selection.checked
    if checked is None or not checked.calibrate:
        return lambda doubt: doubt
    seen = checked.rows[checked.counted]
    expected = selection.doubt[seen].sum()
    wrong = np.sum(~checked.right[checked.counted])
    # One more on either side: no wrong label among a few checks is no proof of none. What the
    # fit did not expect may be anywhere.
    times, more = min(1.0, (wrong + 1) / (expected + 1)), max(0.0, wrong - expected) / len(seen)
    return lambda doubt: np.minimum(doubt * times + more, 1.0)
