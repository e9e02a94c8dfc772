"""Blocks that partitions share: every row has the fitted values that it has on one machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core.linear_fit import LinearFit
from kspr.selectors import _passes
from kspr.selectors._partitions import Dealt, Rows, look
from kspr.selectors._partitions_fit import fit_part
from kspr.selectors._partitions_judge import Split, _tiles, edges_between
from kspr.selectors._passes import Predictions
from kspr.selectors.feature_rows import DenseFeatures
from tests.selectors.clusters import cut, noisy_data

laws = settings(max_examples=25, deadline=None)
X, y = noisy_data(300)


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
        whole, marks = look(Rows(X, y), 0, 0, seeds, True)
        census = whole.censuses
        dealt = Dealt(census[0].classes, 300, seeds, tuple(one.deal(60) for one in census), True)
        fits = tuple(
            LinearFit(
                rng.standard_normal(12).astype(np.float32),
                rng.standard_normal((2, 12, 4)).astype(np.float32),
                np.zeros((2, 4), dtype=np.float32),
            )
            for _ in seeds
        )
        split, features = Split(fits, 300, None), DenseFeatures(X)
        halves = dealt.place(marks, 0)[0].half
        parts = [
            Predictions.by(fit, features, half) for fit, half in zip(fits, halves, strict=True)
        ]
        expected = [
            np.concatenate([block for _, block in part.map(lambda _, block: block)])
            for part in (parts[0], Predictions.mean(parts))
        ]
        blocks = partitions.blocks()
        made = [
            fit_part(rows, look(rows, 0, start, seeds, True)[1], start, dealt, 16)
            for rows, _, start in blocks
        ]
        starts = [start for _, _, start in blocks]
        ends = [start + len(rows.y) for rows, _, start in blocks]
        edges = edges_between(starts, ends, [part[-2] for part in made], 16)
        tiles = [
            tile
            for (rows, _, start), part, edge in zip(blocks, made, edges, strict=True)
            for tile in _tiles(rows, part[-1], start, split, edge)
        ]
    for name, values in zip(("first", "mean"), expected, strict=True):
        got = np.concatenate([getattr(tile, name)[tile.own] for tile in tiles])
        np.testing.assert_array_equal(got, values)
