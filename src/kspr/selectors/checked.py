"""Rows that a person has checked, and the levels that they give for any noise."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from kspr.core.conformal import (
    LevelSteps,
    anytime_steps,
    anywhere_limits,
    confidence_steps,
    conformal_steps,
    draw_order,
    loose_pool,
)
from kspr.core.labels import places_in
from kspr.errors import InputError, check_seed
from kspr.selectors.validation import check_choice, check_count, check_rate

Guarantee = Literal["mean", "confidence", "anytime", "anywhere"]
"""What checked rows promise; see `Selection.with_checks`."""
Drawn = Literal["pool", "all", "chosen"]
"""Where checked rows come from: `Selection.draw_checks`, all rows at random, or elsewhere."""
NO_CLASS, CANNOT_TELL = -1, -2
"""Answers that are no position in the classes."""


@dataclass(frozen=True, eq=False, repr=False)
class Checked:
    """Checked rows, the answers, and what the answers are used for."""

    rows: np.ndarray
    """Row numbers, in the order in which they were drawn."""
    true_code: np.ndarray
    """Position of the true label in the classes; -1 for none of them, -2 where nobody can tell."""
    right: np.ndarray
    """Whether the given label is the true one; False where nobody can tell."""
    sampled: np.ndarray
    """Whether a row was drawn at random; the others were chosen in some other way."""
    counted: np.ndarray
    """Whether a row counts for the guarantee: it was drawn at random, and is in the pool."""
    drawn: Drawn
    guarantee: Guarantee
    confidence: float
    q: float
    """The level for which the pool was fixed."""
    seed: int
    """Seed of the order in which the pool is drawn."""
    level: np.ndarray | None
    """The smallest level at which each row is kept without checks; None for SPR."""

    @property
    def calibrate(self) -> bool:
        """Whether the checked rows set the threshold."""
        return bool(self.counted.any())

    def __repr__(self) -> str:
        wrong = int(np.sum(~self.right))
        return f"<{len(self.rows):,} checked rows, {wrong:,} of them wrong, from {self.drawn!r}>"

    def same_draw(self, drawn: str, q: float, seed: int) -> bool:
        """Whether further rows of that draw continue this one."""
        return (self.drawn, self.q, self.seed) == (drawn, q, seed)


@dataclass(frozen=True, eq=False)
class Ranking:
    """What checked rows need to know of a selection."""

    codes: np.ndarray
    """Positions of the given labels in the classes."""
    classes: np.ndarray
    doubt: np.ndarray
    """Small for rows to keep first; infinite for rows that no threshold may keep."""
    level: np.ndarray | None
    checked: Checked | None

    def pool(self, q: float) -> np.ndarray:
        """Return a mask of the rows that checks are drawn from.

        Rows whose answer is known from elsewhere stay in it: whether a row is drawn must not depend
        on what is known of it.
        """
        return loose_pool(self.doubt, self.level, q)


def next_rows(ranking: Ranking, n: int, q: float, seed: int) -> np.ndarray:
    """Return the next `n` rows to check."""
    check_count("n", n, 1)
    check_seed(seed)
    earlier = ranking.checked
    continued = earlier is not None and earlier.same_draw("pool", q, seed)
    done = int(earlier.sampled.sum()) if earlier is not None and continued else 0
    order = draw_order(ranking.pool(q), seed)
    if done >= len(order):
        raise InputError("Every row that could be kept has been checked: there is none to draw.")
    return order[done : done + n]


def add_checks(
    ranking: Ranking,
    rows: Any,
    true_labels: Any,
    *,
    drawn: Drawn,
    q: float,
    guarantee: Guarantee,
    confidence: float,
    seed: int,
) -> tuple[Checked, np.ndarray | None]:
    """Return all checked rows with the new ones, and the level of every row, if there are any."""
    check_choice("drawn", drawn, get_args(Drawn))
    check_choice("guarantee", guarantee, get_args(Guarantee))
    check_rate("confidence", confidence)
    check_seed(seed)
    rows = _read_rows(rows, len(ranking.codes))
    code = _read_truth(true_labels, rows, ranking.classes)
    known = dict(zip(rows.tolist(), code.tolist(), strict=True))
    sampled = [] if drawn == "chosen" else rows.tolist()
    earlier = ranking.checked
    if earlier is not None:
        if drawn == "chosen":
            # More answers, by which the draw and its promise stay what they are.
            drawn, q, seed = earlier.drawn, earlier.q, earlier.seed
            guarantee, confidence = earlier.guarantee, earlier.confidence
        if earlier.same_draw(drawn, q, seed):
            sampled = [*earlier.rows[earlier.sampled].tolist(), *sampled]
        # A later answer replaces an earlier one about the same row.
        known = {
            **dict(zip(earlier.rows.tolist(), earlier.true_code.tolist(), strict=True)),
            **known,
        }
    pool = ranking.pool(q)
    if drawn == "pool":
        sampled = _in_order(set(sampled), draw_order(pool, seed), q)
    # Those of the draw first, in its order, which `anytime` needs.
    every = np.array(list(dict.fromkeys([*sampled, *known])), dtype=np.int64)
    codes = np.array([known[row] for row in every.tolist()], dtype=np.int64)
    from_draw = np.arange(len(every)) < len(set(sampled))
    checked = Checked(
        rows=every,
        true_code=codes,
        right=codes == ranking.codes[every],
        sampled=from_draw,
        counted=from_draw & pool[every],
        drawn=drawn,
        guarantee=guarantee,
        confidence=confidence,
        q=q,
        seed=seed,
        level=ranking.level,
    )
    return checked, _applied(ranking, checked, pool)


def read_checked(checked: Any, label: np.ndarray) -> tuple[Any, Any, Drawn]:
    """Return checked rows, their true labels and where they come from, as `fit` is given them."""
    if isinstance(checked, tuple) and len(checked) == 2:
        return checked[0], checked[1], "all"
    mask, n = np.asarray(checked), len(label)
    if mask.dtype != bool or mask.shape != (n,):
        raise InputError(
            "`checked` must be a mask with one bool per row, or a pair (rows, true labels), got "
            f"{mask.dtype} of shape {mask.shape} for {n} rows."
        )
    rows = np.flatnonzero(mask)
    # A mask lists right rows only, chosen by the user: no error rate can be read from it.
    return rows, label[rows], "chosen"


def promise(checked: Checked) -> str:
    """Return what the checked rows promise, in a sentence."""
    n = f"The {int(checked.counted.sum()):,} checked rows were drawn at random; then"
    if checked.guarantee == "mean":
        return (
            f"{n} the share of wrong labels among the kept ones is at most q on average over such "
            "draws, whatever the noise is."
        )
    more = {
        "anytime": ", whenever you stop checking",
        "anywhere": ", for any q that you choose when you have seen the result",
    }.get(checked.guarantee, "")
    return (
        f"{n} the error rate holds with {checked.confidence:.0%} confidence{more}, whatever the "
        "noise is."
    )


def _applied(ranking: Ranking, checked: Checked, pool: np.ndarray) -> np.ndarray | None:
    """Return the smallest level at which each row is kept; answers decide on their own rows."""
    if checked.calibrate:
        inside = np.flatnonzero(pool)
        steps = steps_of(
            ranking.doubt[inside],
            np.searchsorted(inside, checked.rows[checked.counted]),
            ~checked.right[checked.counted],
            checked.q,
            checked.guarantee,
            checked.confidence,
        )
        level = np.full(len(pool), np.inf)
        level[inside] = steps.of(ranking.doubt[inside])
    elif ranking.level is None:
        return None
    else:
        level = ranking.level.copy()
    level[checked.rows] = np.where(checked.right, 0.0, np.inf)
    return level


def steps_of(
    doubt: np.ndarray,
    position: np.ndarray,
    wrong: np.ndarray,
    q: float,
    guarantee: Guarantee,
    confidence: float,
) -> LevelSteps:
    """Return the smallest level at which the rows of a pool are kept, by the guarantee."""
    if guarantee == "mean":
        return conformal_steps(doubt, position, wrong)
    if guarantee == "anywhere":
        limits = anywhere_limits(len(doubt) - len(position), len(position), confidence)
        return conformal_steps(doubt, position, wrong, limits)
    if guarantee == "anytime":
        return anytime_steps(doubt, position, wrong, confidence)
    return confidence_steps(doubt, position, wrong, q, confidence)


def _read_rows(rows: Any, n: int) -> np.ndarray:
    numbers = np.asarray(rows)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and numbers.size):
        raise InputError(f"The checked rows must be a list of row numbers, got {numbers.dtype}.")
    numbers = numbers.astype(np.int64)
    outside = numbers[(numbers < 0) | (numbers >= n)]
    if outside.size:
        raise InputError(f"The checked rows list row {outside[0]}, but there are {n} rows.")
    distinct, times = np.unique(numbers, return_counts=True)
    if len(distinct) < len(numbers):
        twice = distinct[times > 1][0]
        raise InputError(f"The checked rows list row {twice} twice. Keep one answer per row.")
    return numbers


def _read_truth(true_labels: Any, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the true labels as positions in the classes."""
    truth = np.asarray(true_labels, dtype=object)
    if truth.shape != rows.shape:
        raise InputError(
            f"There must be one true label per checked row, got {len(rows)} rows and "
            f"{truth.size} true labels."
        )
    # Plain lists may mix labels with None, which stands for "cannot tell".
    told = np.array([value is not None for value in truth], dtype=bool)
    code = np.full(len(rows), CANNOT_TELL, dtype=np.int64)
    if told.any():
        code[told] = places_in(classes, np.asarray(truth[told].tolist()))
    return code


def _in_order(rows: set[int], order: np.ndarray, q: float) -> list[int]:
    """Return the rows in the order of the draw; raise if they are not the first ones of it."""
    first: list[int] = order[: len(rows)].tolist()
    # The first row that should have been checked, or else one that is not in the pool at all.
    missing = next((row for row in first if row not in rows), None)
    if missing is None and len(first) == len(rows):
        return first
    strange = next(iter(sorted(rows.difference(first))))
    raise InputError(
        f"Row {strange} is not among the first {len(rows)} rows of draw_checks(q={q:g}). Check "
        "these, from the first on, with None where you cannot tell; or pass drawn='all' if the "
        "rows were drawn at random from all rows, or drawn='chosen' if not: then they are kept or "
        "rejected, but do not move the threshold."
    )
