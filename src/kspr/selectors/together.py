"""Rows that belong together: the user's groups, copies that are found, and what follows of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from kspr.core.arrays import like, to_numpy
from kspr.core.coded import as_read
from kspr.core.duplicates import (
    Views,
    conflicting,
    contradicted,
    directions,
    find_copies,
    repeated,
)
from kspr.core.labels import Labels, as_label_array, missing_labels, name_rows
from kspr.errors import InputError
from kspr.selectors.controls.control import Decision
from kspr.selectors.feature_rows import Features, SparseFeatures

__all__ = ["copies_in", "read_groups", "with_copies"]

_SEED = 0x636F7079
"""The same data has the same copies, whatever the user's seed is."""
_SAMPLE = 2048
_CONSTANT = 1e-6
"""Share of a column's mean below which its spread is rounding error."""


def read_groups(groups: Any, labels: Labels) -> np.ndarray:
    """Return the user's groups as sets of rows: numbers from 0 on, -1 for a row alone."""
    values, n_rows = as_label_array(groups, "groups"), len(labels.codes)
    if len(values) != n_rows:
        raise InputError(
            f"groups must hold one entry per row: X has {n_rows} rows, groups has {len(values)}."
        )
    missing = missing_labels(values)
    if missing.size:
        raise InputError(
            f"groups has no entry (NaN or inf, or None) in {name_rows(missing)}. Give a row that "
            "belongs to no other a group of its own."
        )
    number: dict[Any, int] = {}
    try:
        codes = np.array([number.setdefault(v, len(number)) for v in values.tolist()], dtype=int)
    except TypeError as error:
        raise InputError(
            f"groups must hold numbers, texts or other values that can be compared, got {error}."
        ) from error
    _check_classes(codes, labels)
    sizes = np.bincount(codes)
    kept = np.cumsum(sizes > 1) - 1
    return np.where(sizes[codes] > 1, kept[codes], -1)


def _check_classes(codes: np.ndarray, labels: Labels) -> None:
    """Refuse groups that hold a whole class: no fit without them would know the class."""
    low = np.full(len(labels.classes), len(codes))
    high = np.full(len(labels.classes), -1)
    np.minimum.at(low, labels.codes, codes)
    np.maximum.at(high, labels.codes, codes)
    inside = np.flatnonzero((low == high) & (np.bincount(labels.codes) > 1))
    if inside.size:
        others = f" ({inside.size - 1} more classes do too)" if inside.size > 1 else ""
        raise InputError(
            f"All rows of class {labels.classes.tolist()[inside[0]]!r} lie in one of the groups"
            f"{others}, so that no fit on other groups has seen this class. Pass smaller groups, "
            "or leave the class out."
        )


def copies_in(features: Features) -> np.ndarray | None:
    """Return the set of copies that each row belongs to, -1 for none; None without any copies."""
    rng = np.random.default_rng(_SEED)
    R = directions(features.shape[1], rng)
    views = (_sparse if isinstance(features, SparseFeatures) else _dense)(features, R)
    # What overflows is not finite, and then no copies are looked for.
    with np.errstate(all="ignore"):
        return find_copies(views, features.shape, rng, exact=R is None)


def _sparse(features: Any, R: np.ndarray | None) -> Views:
    def views(rows: slice | np.ndarray) -> list[np.ndarray]:
        block = features.matrix[rows]
        return [block.toarray() if R is None else np.asarray(block @ R.astype(block.dtype))]

    return views


def _dense(features: Features, R: np.ndarray | None) -> Views:
    """Return the rows as they are, and with columns of equal spread.

    In the former a column of large numbers hides how rows differ in the others, in the latter a
    column that hardly varies counts as much as any other. Copies are near each other in both.
    """
    n = features.shape[0]
    few = to_numpy(features.take(np.linspace(0, n - 1, min(n, _SAMPLE)).astype(np.int64)))
    mean, spread = few.mean(axis=0, dtype=np.float64), few.std(axis=0, dtype=np.float64)
    varies = spread > _CONSTANT * np.abs(mean)
    scale = np.where(varies, 1 / np.where(varies, spread, 1.0), 0.0)
    both = None if R is None else np.concatenate([R, scale[:, None] * R], axis=1)

    def views(rows: slice | np.ndarray) -> list[np.ndarray]:
        block = features.read(rows) if isinstance(rows, slice) else features.take(rows)
        centred = block - like(mean, block, dtype=block.dtype)
        if both is None:
            plain = to_numpy(centred)
            return [plain, plain * scale.astype(plain.dtype)]
        # One product for both views: a row of features is read once.
        found = to_numpy(centred @ like(both, block, dtype=block.dtype))
        return np.split(found, 2, axis=1)

    return views


def with_copies(
    decision: Decision, copies: np.ndarray, codes: np.ndarray, Z: np.ndarray, *, control: str
) -> Decision:
    """Return the decision where sets of copies count: labels that disagree, and rows that repeat.

    `Z` are the selection times of the given labels `codes`.
    """
    level = as_read(decision.q_value)
    if control == "transition":
        # Some of these labels are wrong: an average over all rows is not enough for them.
        doubt = as_read(decision.statistic)
        level = np.where(conflicting(copies, codes), np.maximum(level, doubt), level)
    out = contradicted(copies, codes, Z)
    noise = decision.noise
    if noise is not None:
        # The estimate counts copies once, and so leaves out those that repeat a wrong label.
        wrong = float((out & repeated(copies, codes)).mean())
        rate, low, high = (wrong + (1 - wrong) * x for x in (noise.rate, *noise.rate_interval))
        noise = replace(noise, rate=rate, rate_interval=(low, high))
    return replace(decision, q_value=np.where(out, np.inf, level), noise=noise)
