"""Tables of numbers, dates and categories, with gaps, as features: by scikit-learn's own encoders.

What is made of a row depends on the whole table: the median of a column, the values that it has.
So rows are known again by what they hold in the file, not by what is made of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kspr.sources.readers.csv_tables import NULLS
from kspr.sources.readers.file_checks import BLOCK_BYTES, listed
from kspr.sources.readers.numbers import RowSink
from kspr.sources.records import content_digests, number_digests

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

__all__ = ["Encoded", "OtherColumn", "encode"]

_MOST_VALUES = 1_000
"""Values of a column of categories; one with more holds texts, or names of rows."""
_SHOWN_VALUES = 50
"""Columns that a category may become; its rarest values share one."""
_FITTED = 100_000
"""Rows, drawn at random, from which medians, scales and categories are told."""
_DAY = 86_400


class OtherColumn:
    """A column of dates or categories, collected block by block; `unfit` if it is neither."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unfit = False
        self.dates: bool | None = None
        """Whether it holds dates, as its first block says."""
        self._values: dict[str, int] = {}
        self._blocks: list[np.ndarray] = []

    def append(self, array: pa.Array) -> None:
        """Add the next block."""
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
    def n_values(self) -> int:
        """Number of different categories."""
        return len(self._values)

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


@dataclass(frozen=True, eq=False)
class Encoded:
    """The features of a table of mixed columns."""

    features: np.ndarray
    digest: np.ndarray
    """64 bits of what each row holds in the file."""
    others: tuple[str, ...]
    """Names of the columns of dates and categories that are used."""
    note: str
    """What was done with which columns, in one sentence."""


def encode(
    features: np.ndarray | None,
    names: Sequence[str],
    others: Sequence[OtherColumn],
    label: np.ndarray | None,
) -> Encoded | None:
    """Return the columns `names` of numbers and the `others` as features without gaps.

    Numbers hold the median in their gaps and are scaled; a category becomes a column for each of
    its values. None for a table of numbers without a gap, or of infinite ones: it stays as it is.
    """
    dates = [o for o in others if o.dates and not o.unfit]
    categories = [o for o in others if not o.unfit and o.is_category()]
    same = []
    if categories and label is not None:
        codes = pa.array(label).dictionary_encode().indices.to_numpy()
        same = [o for o in categories if o.says_the_same_as(codes)]
    categories = [o for o in categories if o not in same]
    gaps, finite = ((), True) if features is None else _gaps(features, names)
    # Infinite numbers are refused with their rows by whoever computes with them.
    if not finite or not (dates or categories or gaps):
        return None
    used = [*dates, *categories]
    n = len(used[0].numbers()) if features is None else len(features)

    def rows(chosen: Any) -> np.ndarray:
        numbers = [] if features is None else [np.asarray(features[chosen])]
        return np.column_stack([*numbers, *(o.numbers()[chosen] for o in used)])

    width = len(names) + len(dates)
    transformer = _fitted(rows, n, width, len(categories))
    return Encoded(
        _transformed(transformer, rows, n),
        _digests(features, used, n),
        tuple(column.name for column in used),
        _sentence(gaps, categories, dates, same),
    )


def _gaps(features: np.ndarray, names: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the names of the columns with missing values, and whether no number is infinite."""
    missing, finite = np.zeros(features.shape[1], dtype=bool), True
    for rows in _blocks(*features.shape):
        missing |= np.isnan(features[rows]).any(axis=0)
        finite = finite and not np.isinf(features[rows]).any()
    return tuple(names[column] for column in np.flatnonzero(missing).tolist()), finite


def _blocks(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK_BYTES // max(1, 8 * width))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _fitted(
    rows: Callable[[Any], np.ndarray], n: int, n_numbers: int, n_categories: int
) -> "ColumnTransformer":
    # Imported here: most sources need none of it, and it takes a second.
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    number = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    category = OneHotEncoder(
        max_categories=_SHOWN_VALUES, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    columns = np.arange(n_numbers + n_categories)
    transformer = ColumnTransformer(
        [
            ("numbers", make_pipeline(number, StandardScaler()), columns[:n_numbers]),
            ("categories", category, columns[n_numbers:]),
        ]
    )
    chosen = np.arange(n)
    if n > _FITTED:
        chosen = np.sort(np.random.default_rng(0).choice(n, _FITTED, replace=False))
    return transformer.fit(rows(chosen))


def _transformed(
    transformer: "ColumnTransformer", rows: Callable[[Any], np.ndarray], n: int
) -> np.ndarray:
    width = transformer.transform(rows(slice(0, 1))).shape[1]
    sink = RowSink(width, n)
    for block in _blocks(n, width):
        sink.append(transformer.transform(rows(block)))
    return sink.result()


def _digests(features: np.ndarray | None, used: Sequence[OtherColumn], n: int) -> np.ndarray:
    digest = np.zeros(n, np.uint64) if features is None else number_digests(features)
    for column in used:
        # An odd multiplier near 2**64 / golden ratio, so that the order of columns counts.
        digest = digest * np.uint64(0x9E3779B97F4A7C15) + column.digests()
    return digest


def _sentence(
    gaps: Sequence[str],
    categories: Sequence[OtherColumn],
    dates: Sequence[OtherColumn],
    same: Sequence[OtherColumn],
) -> str:
    """Say what was done with which columns."""
    said = ["numbers are scaled"]
    if gaps:
        said.append(f"gaps in {listed(gaps, 4)} hold the median and are marked")
    if dates:
        said.append(f"dates {listed((o.name for o in dates), 4)} are counted in days")
    if categories:
        values = [f"{o.name!r} ({o.n_values})" for o in categories[:4]]
        more = f" and {len(categories) - 4} more" if len(categories) > 4 else ""
        said.append(f"categories {', '.join(values)}{more} have a column for each value")
    if same:
        few = listed((o.name for o in same), 4)
        said.append(f"{few} says what the label says, and is not used")
    return f"Encoded: {'; '.join(said)}. --columns names others."
