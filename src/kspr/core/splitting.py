"""Random halves of the rows that are fitted: each half is judged by what the other has learned."""

from dataclasses import dataclass

import numpy as np

from kspr.errors import InputError

__all__ = ["HalfRows", "halves_of_sets", "random_halves", "rows_by_half", "thinned"]


@dataclass(frozen=True)
class HalfRows:
    """Rows of one half that are fitted, class by class."""

    index: np.ndarray
    """Their numbers in the data."""
    label: np.ndarray
    """Codes of their labels."""


def random_halves(
    codes: np.ndarray, rng: np.random.Generator, together: np.ndarray | None = None
) -> tuple[HalfRows, HalfRows]:
    """Return all rows in two random halves, every class divided equally.

    Rows of one set, numbered by `together` with -1 for none, are in one half. Raise `InputError`
    where the other would be empty then.
    """
    order = rng.permutation(len(codes))
    # A stable sort of a shuffle: classes in order, rows random within each.
    order = order[np.argsort(codes[order], kind="stable")]
    half = None if together is None else halves_of_sets(codes[order], together[order])
    if half is None:
        # Dealing across the class borders keeps the halves within one row of each other.
        half = np.arange(len(order)) % 2
    return _two_halves(order, codes[order], half)


def rows_by_half(
    rows: np.ndarray, codes: np.ndarray, half: np.ndarray
) -> tuple[HalfRows, HalfRows]:
    """Return the given rows, which ascend, by their halves: see `core/halves.py`."""
    order = np.argsort(codes, kind="stable")
    return _two_halves(rows[order], codes[order], half[order])


def thinned(halves: tuple[HalfRows, HalfRows], n_rows: int) -> tuple[HalfRows, HalfRows]:
    """Return about `n_rows` of the rows, the same share of every class.

    In either half at least one row of each class stays. Rows of a class are in random order, so
    the first ones are a random part.
    """
    share = n_rows / sum(len(half.index) for half in halves)
    if share >= 1:
        return halves
    first, second = (_first_of_classes(half, share) for half in halves)
    return first, second


def _first_of_classes(half: HalfRows, share: float) -> HalfRows:
    sizes = np.bincount(half.label)
    place = np.arange(len(half.label)) - (np.cumsum(sizes) - sizes)[half.label]
    kept = place < np.ceil(share * sizes)[half.label]
    return HalfRows(half.index[kept], half.label[kept])


def _two_halves(rows: np.ndarray, codes: np.ndarray, half: np.ndarray) -> tuple[HalfRows, HalfRows]:
    first, second = (HalfRows(rows[half == side], codes[half == side]) for side in (0, 1))
    return first, second


def halves_of_sets(label: np.ndarray, together: np.ndarray) -> np.ndarray | None:
    """Return the half of each sample, 0 or 1; None where no two of them belong together.

    Samples stand class by class, in random order within a class, and `label` has the positions of
    their classes. `together` numbers sets of samples that must be in one half, -1 for none.

    The largest sets are placed first, each where its classes are fewer; samples alone then even
    out what they can.
    """
    sizes = np.bincount(together[together >= 0], minlength=1)
    several = (together >= 0) & (sizes[together] > 1)
    if not several.any():
        return None
    n_classes = int(label[-1]) + 1
    # (set, class) and how many: most sets have one class, and a full table would be too large.
    key, count = np.unique(together[several] * n_classes + label[several], return_counts=True)
    entries: dict[int, list[tuple[int, int]]] = {}
    for code, m in zip(key.tolist(), count.tolist(), strict=True):
        entries.setdefault(code // n_classes, []).append((code % n_classes, m))
    # Where sets begin in the shuffled order: those of one class and size are placed at random.
    _, begin = np.unique(together[several], return_index=True)
    turn = dict(zip(entries, begin.tolist(), strict=True))
    ahead, side = [0] * n_classes, np.zeros(len(sizes), dtype=np.int64)
    for number in sorted(entries, key=lambda number: (-sizes[number], turn[number])):
        lean = sum(m * ahead[k] for k, m in entries[number])
        # Half 0 is ahead by `lean`, weighted by class; without a difference in these classes, the
        # smaller half takes the set.
        chosen = int((lean or sum(ahead)) > 0)
        side[number] = chosen
        for k, m in entries[number]:
            ahead[k] += m - 2 * m * chosen
    half = np.where(several, side[together], -1)
    _deal(half, label, np.array(ahead))
    if half.min() == half.max():
        raise InputError(
            f"All {len(label):,} rows of a piece belong together, so that one of its halves would "
            "be empty. Pass smaller groups, classes_per_group=None, or duplicates='ignore'."
        )
    return half


def _deal(half: np.ndarray, label: np.ndarray, ahead: np.ndarray) -> None:
    """Fill in the halves that are -1, so that the classes' halves differ as little as possible."""
    free = np.flatnonzero(half < 0)
    count = np.bincount(label[free], minlength=len(ahead))
    position = np.arange(len(free)) - np.repeat(np.cumsum(count) - count, count)
    # The smaller half of a class catches up; what is left goes to both halves in turn.
    behind, short = (ahead > 0)[label[free]], np.minimum(np.abs(ahead), count)[label[free]]
    catching_up = position < short
    half[free[catching_up]] = behind[catching_up]
    rest = free[~catching_up]
    # In turn across the class borders; a half that is still smaller begins.
    begins = int(2 * (half == 0).sum() > (half >= 0).sum())
    half[rest] = (np.arange(len(rest)) + begins) % 2
