"""The work at a partition: checks that name rows of the whole data, and blocks that are shared."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.halves import Census
from kspr.core.linear_fit import LinearFit
from kspr.errors import InputError
from kspr.selectors import _passes
from kspr.selectors._partitions import (
    Dealt,
    Rows,
    Split,
    _tiles,
    edges_between,
    fit_part,
    look,
    merge_looks,
    read_rows,
)
from kspr.selectors._passes import Predictions
from kspr.selectors.feature_rows import DenseFeatures
from tests.selectors.clusters import cut, noisy_data

laws = settings(max_examples=25, deadline=None)
X, y = noisy_data(300)


def looked(*rows: Rows) -> object:
    starts = np.cumsum([0, *(len(part.y) for part in rows)]).tolist()
    states = [look(part, i, starts[i], (1,), True) for i, part in enumerate(rows)]
    return merge_looks(*states)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (Rows(X[:, :5], y), "Partition 0 has 12 features, but partition 1 has 5 features"),
        (Rows(X.astype(float), y), "features of type float32, but partition 1 .* type float64"),
        (Rows(X, y.astype(str)), "labels that are numbers, but partition 1 has labels that are te"),
        (Rows(X, y[:7]), "Partition 1 of X has 300 rows, but that of y 7"),
        (Rows(np.where(X[4, 3] == X, np.nan, X), y), "NaN or inf in row 304"),
        (Rows(X, np.where(np.arange(300) == 9, np.nan, y)), "no label .* in row 309"),
        (Rows(X.astype(str), y), "Partition 1 of X holds <U.*, not numbers"),
    ],
)
def test_a_partition_that_does_not_fit_is_named_with_its_rows(changed, words):
    with pytest.raises(InputError, match=words):
        looked(Rows(X, y), changed)


def test_empty_partitions_and_labels_of_one_partition_only_are_fine():
    found = looked(Rows(X[:0, :3], y[:0]), Rows(X, y), Rows(X[:9], np.full(9, 77)))
    assert found.censuses[0].classes.tolist() == [0, 1, 2, 3, 77]
    assert found.censuses[0].n_rows == 309


def test_the_digest_tells_any_change_and_does_not_depend_on_partitions():
    whole = looked(Rows(X, y)).digest
    assert looked(*cut(X, y, 17, 200).rows).digest == whole
    order = np.arange(300)[::-1]
    other = y.copy()
    other[5] = (other[5] + 1) % 4
    for changed in (Rows(X[order], y[order]), Rows(X, other), Rows(X + 1, y)):
        assert looked(changed).digest != whole


@laws
@given(
    cuts=st.lists(st.integers(0, 300), max_size=5),
    floats=st.sampled_from([16 * 64, 16 * 100, 16 * 300]),
    seed=st.integers(0, 9),
)
def test_a_row_has_the_same_fitted_values_in_any_partition(cuts, floats, seed):
    """To the last bit, though products of single-precision matrices round by place."""
    rng = np.random.default_rng(seed)
    seeds = (seed, seed + 1)
    partitions = cut(X, y, *cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_passes, "_BLOCK_FLOATS", floats)
        found = looked(*[part for part in partitions.rows if len(part.y)])
        census: Census = look(Rows(X, y), 0, 0, seeds, True).censuses
        assert found is not None
        dealt = Dealt(census[0].classes, 300, seeds, tuple(one.deal(60) for one in census), True)
        fits = tuple(
            LinearFit(
                rng.standard_normal(12).astype(np.float32),
                rng.standard_normal((2, 12, 4)).astype(np.float32),
                np.zeros((2, 4), dtype=np.float32),
            )
            for _ in seeds
        )
        split = Split(dealt, fits, None)
        features = DenseFeatures(X)
        halves = [dealt.place(Rows(X, y), features, 0, s)[2] for s in (0, 1)]
        parts = [
            Predictions.by(fit, features, half) for fit, half in zip(fits, halves, strict=True)
        ]
        expected = [
            np.concatenate([block for _, block in part.map(lambda _, block: block)])
            for part in (parts[0], Predictions.mean(parts))
        ]
        blocks = partitions.blocks()
        counts = [fit_part(rows, start, dealt, 16)[1] for rows, _, start in blocks]
        starts = [start for _, _, start in blocks]
        ends = [start + len(rows.y) for rows, _, start in blocks]
        edges = edges_between(starts, ends, counts, 16)
        tiles = [
            tile
            for (rows, _, start), edge in zip(blocks, edges, strict=True)
            for tile in _tiles(rows, start, split, edge)
        ]
    for name, values in zip(("first", "mean"), expected, strict=True):
        got = np.concatenate([getattr(tile, name)[tile.own] for tile in tiles])
        np.testing.assert_array_equal(got, values)


def test_arrays_and_lists_become_rows():
    rows = read_rows([[1.0, 2.0]], ["a"], [5])
    assert rows.X.shape == (1, 2)
    assert rows.groups.tolist() == [5]
    with pytest.raises(InputError, match="two dimensions"):
        read_rows([1.0], ["a"])
