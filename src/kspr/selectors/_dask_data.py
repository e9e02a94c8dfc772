"""Dask arrays and data frames as partitions of rows."""

from typing import Any

import numpy as np

from kspr.errors import InputError
from kspr.selectors._cluster_passes import Partitions
from kspr.selectors._partitions import read_rows
from kspr.selectors.engines.cluster import Cluster, is_dask

__all__ = ["partitions_of"]


def partitions_of(cluster: Cluster, X: Any, y: Any, groups: Any = None) -> Partitions:
    """Return the partitions of `X` with their labels; nothing is computed but missing lengths.

    Every pass computes them again, unless the user has persisted them.
    `y` and `groups` are cut at the same rows, or are arrays of this process.
    """
    if not is_dask(X):
        raise InputError(
            "engine='dask' takes X as a Dask array or a Dask data frame, got "
            f"{type(X).__name__}. Pass engine='threads' for data of this process."
        )
    if y is None:
        raise InputError("KSPR requires y to be passed, but the target y is None.")
    if X.ndim != 2:
        raise InputError(f"X must have two dimensions (rows, features), got {X.ndim}.")
    if hasattr(X, "chunks") and X.numblocks[1] > 1:
        # A row is worked at as a whole.
        X = X.rechunk({1: -1})
    blocks = _cut(X)
    lengths = _lengths(cluster, X, blocks)
    named = (("y", y), *((("groups", groups),) if groups is not None else ()))
    beside = [_beside(cluster, name, values, lengths) for name, values in named]
    parts = [cluster.lazily(read_rows, *part) for part in zip(blocks, *beside, strict=True)]
    return Partitions(tuple(cluster.inlined(parts)), lengths)


def _cut(values: Any) -> list[Any]:
    return list(np.ravel(np.asarray(values.to_delayed(), dtype=object)))


def _lengths(cluster: Cluster, X: Any, blocks: list[Any]) -> tuple[int, ...]:
    """Return the rows of each partition; where Dask does not know, workers count."""
    if hasattr(X, "chunks"):
        known = X.chunks[0]
        if not np.isnan(known).any():
            return tuple(map(int, known))
    return tuple(cluster.results(cluster.each(len, [(block,) for block in blocks])))


def _beside(cluster: Cluster, name: str, values: Any, lengths: tuple[int, ...]) -> list[Any]:
    """Return the labels or groups of each partition."""
    if not is_dask(values):
        found = np.asarray(values)
        if len(found) != sum(lengths):
            raise InputError(f"X has {sum(lengths)} rows but {name} has {len(found)} labels.")
        # Sent once, not with every pass.
        return [cluster.keep(part) for part in np.split(found, np.cumsum(lengths)[:-1])]
    known = hasattr(values, "chunks") and not np.isnan(values.chunks[0]).any()
    if known and sum(values.chunks[0]) != sum(lengths):
        raise InputError(
            f"X has {sum(lengths)} rows but {name} has {sum(values.chunks[0])} labels."
        )
    if known and tuple(values.chunks[0]) != lengths:
        values = values.rechunk({0: lengths})
    parts = _cut(values)
    if len(parts) != len(lengths):
        raise InputError(
            f"X has {len(lengths)} partitions but {name} has {len(parts)}. Cut both at the same "
            "rows."
        )
    return parts
