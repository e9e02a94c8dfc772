"""Tables of numbers, dates and categories, with gaps, as features.

What is made of a row depends on the whole table: the median of a column, the values that it has.
So rows are known again by what they hold in the file, and a run keeps the `Encoder`, which makes
the same of the rows of any later table.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.errors import InputError
from kspr.sources.readers.csv_tables import NULLS
from kspr.sources.readers.file_checks import BLOCK_BYTES, listed, shown
from kspr.sources.readers.values import SingleRows
from kspr.sources.records import content_digests, number_digests

_MOST_VALUES = 1_000
"""Values of a column of categories; one with more holds texts, or names of rows."""
_SHOWN_VALUES = 50
"""Columns that a category may become; its rarest values share one."""
_FITTED = 100_000
"""Rows, drawn at random, from which medians, scales and categories are told."""
_DAY = 86_400


class OtherColumn:
    """A column of dates or categories, collected block by block; `unfit` if it is neither."""

    def __init__(self, name: str, dates: bool | None = None) -> None:
        self.name = name
        self.unfit = False
        self.dates = dates
        """Whether it holds dates, as its first block says where that is not known."""
        self._values: dict[str, int] = {}
        self._blocks: list[np.ndarray] = []

    def extend(self, arrays: Iterable[pa.Array]) -> None:
        """Add the next blocks."""
        for array in arrays:
            self._append(array)

    def _append(self, array: pa.Array) -> None:
        if self.unfit:
            return
        try:
            if self.dates is None:
                self.dates = _is_date(array)
            self._blocks.append(_days(array) if self.dates else self._codes(array))
        # Not UTF-8, or no date among dates.
        except pa.ArrowInvalid:
            self.unfit = True
        self.unfit |= len(self._values) > _MOST_VALUES
        if self.unfit:
            self._blocks, self._values = [], {}

    def numbers(self) -> np.ndarray:
        """Return days since 1970, NaN for none; or numbers of categories, -1 for none."""
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]

    def digests(self) -> np.ndarray:
        """Return a number for what each row holds: equal values have equal ones in any order."""
        if self.dates:
            return self.numbers().view(np.uint64)
        known = content_digests(value.encode() for value in self._values)
        return np.asarray(np.append(known, np.uint64(0))[self.numbers()])

    @property
    def values(self) -> list[str]:
        """The different categories, in the order of their numbers."""
        return list(self._values)

    def is_category(self) -> bool:
        """Return whether there are categories to learn from: two at least, and not a row each."""
        return not self.dates and 2 <= len(self._values) <= max(2, len(self.numbers()) // 2)

    def says_the_same_as(self, codes: np.ndarray) -> bool:
        """Return whether its values are those of the labels under other names."""
        n_labels = int(codes.max()) + 1
        pairs = np.unique(self.numbers().astype(np.int64) * n_labels + codes)
        return len(pairs) == len(self._values) == n_labels

    def _codes(self, array: pa.Array) -> np.ndarray:
        coded = _words(array).dictionary_encode()
        words = coded.dictionary.to_pylist()
        numbers = [self._values.setdefault(word, len(self._values)) for word in words]
        # The last one is that of rows without a value, which have the place -1.
        place = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*numbers, -1], np.int32)[place])


def _words(array: pa.Array) -> pa.Array:
    """Return texts without the words that stand for nothing."""
    text = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    return pc.if_else(pc.is_in(text, pa.array(NULLS, pa.large_string())), None, text)


def _is_date(array: pa.Array) -> bool:
    try:
        return bool(np.isfinite(_days(array)).any())
    except pa.ArrowInvalid:
        return False


def _days(array: pa.Array) -> np.ndarray:
    """Return dates as days since 1970, NaN for none; raise `ArrowInvalid` for what holds others."""
    dates = array if pa.types.is_temporal(array.type) else _words(array)
    seconds = dates.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
    return np.asarray(seconds.to_numpy(zero_copy_only=False), np.float64) / _DAY


@dataclass(frozen=True)
class Encoder:
    """How columns become features without gaps: plain values, which a run keeps as JSON.

    Numbers and dates hold `fill` in their gaps and are scaled; then come marks of the gaps of the
    columns `marked`, scaled as well; then a column for each value of a category.
    """

    numbers: list[str]
    dates: list[str]
    fill: list[float]
    """Of each of the numbers, then of each of the dates: the median."""
    marked: list[int]
    """Positions, among numbers and dates, of the columns that had gaps."""
    mean: list[float]
    """Of each of the scaled columns: numbers, dates, marks."""
    scale: list[float]
    categories: dict[str, list[str | None]]
    """The values that have a column, by the name of the category; None is that of a gap."""
    rare: list[str]
    """Categories whose other values share one further column; in others they have none."""

    @staticmethod
    def read(document: Any) -> "Encoder":
        """Return the encoder that a run keeps; raise `ValueError` if the document holds none."""
        try:
            known = Encoder(**document)
            known.rows(np.zeros((1, len(known.fill))), [np.zeros(1, int)] * len(known.categories))
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            raise ValueError("the encoder is damaged") from error
        return known

    def rows(self, numbers: np.ndarray, places: Sequence[np.ndarray]) -> np.ndarray:
        """Return features of rows: of their numbers and dates, and their columns by category."""
        gaps = np.isnan(numbers)
        filled = np.where(gaps, self.fill, numbers)
        parts = [(np.hstack([filled, gaps[:, self.marked]]) - self.mean) / self.scale]
        for place, (name, values) in zip(places, self.categories.items(), strict=True):
            # The last one is of values that have no column.
            parts.append(np.eye(len(values) + 1)[place][:, : len(values) + (name in self.rare)])
        return np.hstack(parts)


def _fitted(
    names: Sequence[str],
    dates: Sequence[OtherColumn],
    categories: Sequence[OtherColumn],
    numbers: np.ndarray,
    chosen: np.ndarray,
) -> Encoder:
    """Return the encoder of the rows `chosen`, whose numbers and dates are `numbers`."""
    gaps = np.isnan(numbers)
    empty = gaps.all(axis=0)
    fill = np.nanmedian(np.where(empty, 0.0, numbers), axis=0)
    marked = np.flatnonzero(gaps.any(axis=0))
    table = np.hstack([np.where(gaps, fill, numbers), gaps[:, marked]])
    mean, scale = table.mean(axis=0), table.std(axis=0)
    # What is left of a constant is rounding.
    scale[scale <= 1e-12 * np.abs(mean)] = 1.0
    shown: dict[str, list[str | None]] = {}
    rare = []
    for category in categories:
        known, count = np.unique(category.numbers()[chosen], return_counts=True)
        if len(known) >= _SHOWN_VALUES:
            rare.append(category.name)
            # Of equally frequent values, those that came later.
            known = np.sort(known[np.argsort(count, kind="stable")[-(_SHOWN_VALUES - 1) :]])
        shown[category.name] = [None if c < 0 else category.values[c] for c in known.tolist()]
    return Encoder(
        *(list(names), [column.name for column in dates], fill.tolist(), marked.tolist()),
        *(mean.tolist(), scale.tolist(), shown, rare),
    )


@dataclass(frozen=True, eq=False)
class Encoded:
    """The features of a table of mixed columns."""

    features: np.ndarray
    digest: np.ndarray
    """64 bits of what each row holds in the file."""
    encoder: Encoder
    note: str
    """What was done with which columns, in one sentence."""


def encode(
    features: np.ndarray | None,
    names: Sequence[str],
    others: Sequence[OtherColumn],
    label: np.ndarray | None,
    encoder: Encoder | None = None,
) -> Encoded | None:
    """Return the columns `names` of numbers and the `others` as features without gaps.

    With the `encoder` of an earlier table, whose columns these are, what it makes of them.
    Otherwise None for a table of numbers without a gap, or of infinite ones: it stays as it is.
    """
    dates = [o for o in others if not o.unfit and o.dates]
    categories = [o for o in others if not o.unfit and not o.dates]
    same: list[OtherColumn] = []
    if encoder is None:
        categories = [o for o in categories if o.is_category()]
        if categories and label is not None:
            codes = pa.array(label).dictionary_encode().indices.to_numpy()
            same = [o for o in categories if o.says_the_same_as(codes)]
        categories = [o for o in categories if o not in same]
        gaps, finite = False, True
        if features is not None:
            # Without temporary arrays: the least number is NaN if any is.
            gaps = bool(np.isnan(features.min()))
            ends = np.fmin.reduce(features, None), np.fmax.reduce(features, None)
            finite = not np.isinf(ends).any()
        # Infinite numbers are refused with their rows by whoever computes with them.
        if not finite or not (dates or categories or gaps):
            return None
    elif unfit := [o.name for o in others if o.unfit]:
        raise InputError(
            f"Column {unfit[0]!r} holds other things than that of the rows that the encoder is of: "
            "no dates, or texts. Correct it."
        )
    used = [*dates, *categories]
    table = np.empty((len(used[0].numbers()), 0)) if features is None else features
    n = len(table)

    def numbers(rows: Any) -> np.ndarray:
        columns = [table[rows], *(o.numbers()[rows] for o in dates)]
        return np.column_stack(columns).astype(np.float64, copy=False)

    if encoder is None:
        chosen = np.arange(n)
        if n > _FITTED:
            chosen = np.sort(np.random.default_rng(0).choice(n, _FITTED, replace=False))
        encoder = _fitted(names, dates, categories, numbers(chosen), chosen)
        note = _sentence(encoder, categories, same)
    else:
        note = _sentence_of_new(encoder, categories)
    places = [_places(o, encoder.categories[o.name]) for o in categories]

    def encoded(rows: slice) -> np.ndarray:
        return encoder.rows(numbers(rows), [place[rows] for place in places])

    sink = SingleRows(width := encoded(slice(1)).shape[1], n)
    for rows in _blocks(n, width):
        sink.append(encoded(rows))
    return Encoded(sink.result(), _digests(table, used), encoder, note)


def _places(category: OtherColumn, values: Sequence[str | None]) -> np.ndarray:
    """Return the position of each row's value among `values`; one beyond them for others."""
    known = {value: place for place, value in enumerate(values)}
    # A row without a value has the number -1, and so the last place.
    place = np.array([known.get(value, len(values)) for value in [*category.values, None]])
    return np.asarray(place.astype(np.int16)[category.numbers()])


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(1, 8 * width))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _digests(table: np.ndarray, used: Sequence[OtherColumn]) -> np.ndarray:
    digest = number_digests(table) if table.shape[1] else np.zeros(len(table), np.uint64)
    for column in used:
        # An odd multiplier near 2**64 / golden ratio, so that the order of columns counts.
        digest = digest * np.uint64(0x9E3779B97F4A7C15) + column.digests()
    return digest


def _sentence(
    encoder: Encoder, categories: Sequence[OtherColumn], same: Sequence[OtherColumn]
) -> str:
    """Say what was done with which columns."""
    said, names = ["numbers are scaled"], [*encoder.numbers, *encoder.dates]
    gaps = [names[place] for place in encoder.marked if place < len(encoder.numbers)]
    if gaps:
        said.append(f"gaps in {listed(gaps, 4)} hold the median and are marked")
    if encoder.dates:
        said.append(f"dates {listed(encoder.dates, 4)} are counted in days")
    if categories:
        values = [f"{o.name!r} ({len(o.values)})" for o in categories[:4]]
        more = f" and {len(categories) - 4} more" if len(categories) > 4 else ""
        said.append(f"categories {', '.join(values)}{more} have a column for each value")
    if same:
        few = listed((o.name for o in same), 4)
        said.append(f"{few} says what the label says, and is not used")
    return f"Encoded: {'; '.join(said)}. --columns names others."


def _sentence_of_new(encoder: Encoder, categories: Sequence[OtherColumn]) -> str:
    """Say that an earlier encoder was used, and which values it does not know."""
    new = [
        f"{shown(value)} in {o.name!r}"
        for o in categories
        # Of a rare value nothing is kept but that there are such.
        if o.name not in encoder.rare
        for value in sorted(set(o.values).difference(encoder.categories[o.name]))
    ]
    more = f" and {len(new) - 3} more" if len(new) > 3 else ""
    unseen = f"; never seen there, and of no column, is {', '.join(new[:3])}{more}" if new else ""
    return f"Encoded as the rows of the earlier run{unseen}."
