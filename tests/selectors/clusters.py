"""A cluster in this process, and data that is cut into partitions."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from kspr.selectors._cluster_passes import Partitions
from kspr.selectors._partitions import Rows
from kspr.selectors.engines.cluster import Cluster

from kspr.noise import symmetric
from kspr.selectors.selection import Selection


class HereCluster(Cluster):
    """Does all work at once, in this process: results are there when they are asked for."""

    def __init__(self) -> None:
        super().__init__(None)
        self.calls: list[str] = []

    def keep(self, value: Any) -> Any:
        return value

    def each(
        self,
        function: Callable[..., Any],
        blocks: Sequence[Sequence[Any]],
        *shared: Any,
        n_results: int | None = None,
    ) -> list[Any]:
        self.calls.append(function.__name__)
        return [function(*block, *shared) for block in blocks]

    def lazily(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def inlined(self, values: Sequence[Any]) -> list[Any]:
        return list(values)

    def held(self, values: Sequence[Any], n_bytes: float) -> list[Any]:
        return list(values)

    def once(self, function: Callable[..., Any], *arguments: Any, place: int | None = None) -> Any:
        self.calls.append(function.__name__)
        return function(*arguments)

    def finish(self, futures: Sequence[Any], progress: Any = None) -> None:
        pass

    def results(self, futures: Sequence[Any], progress: Any = None) -> list[Any]:
        return list(futures)


def noisy_data(
    n: int, p: int = 12, c: int = 4, dtype: Any = np.float32
) -> tuple[np.ndarray, np.ndarray]:
    """Return classes around centres, with a fifth of the labels wrong."""
    rng = np.random.default_rng(n)
    true = rng.integers(0, c, n)
    X = rng.standard_normal((c, p))[true] + 0.7 * rng.standard_normal((n, p))
    return X.astype(dtype), symmetric(true, 0.2, 0)


def cut(X: np.ndarray, y: np.ndarray, *cuts: int, groups: np.ndarray | None = None) -> Partitions:
    """Return the data in partitions that begin at `cuts`."""
    edges = [0, *sorted(cuts), len(y)]
    rows = tuple(
        Rows(X[a:b], y[a:b], None if groups is None else groups[a:b]) for a, b in pairwise(edges)
    )
    return Partitions(rows, tuple(len(part.y) for part in rows))


COLUMNS = (
    "label",
    "clean_mask",
    "q_value",
    "statistic",
    "selection_time",
    "knockoff_label",
    "suggested_label",
    "suggestion_probability",
    "cut_group",
)


def assert_same_bits(one: Selection, two: Selection) -> None:
    """Compare all columns, the cut groups and the noise, to the last bit."""
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    for name, values in vars(one.cut_groups).items():
        np.testing.assert_array_equal(getattr(two.cut_groups, name), values, err_msg=name)
    assert one.noise is not None
    assert two.noise is not None
    assert one.noise.rate == two.noise.rate
    np.testing.assert_array_equal(one.noise.transition, two.noise.transition)
