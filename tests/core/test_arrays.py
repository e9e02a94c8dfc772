"""Helpers of the core on NumPy arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.arrays import gram_of, like, one_hot, rank_within, row_blocks, to_numpy


@given(values=st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.integers(0, 3)), max_size=30))
def test_ranks_count_smaller_and_earlier_equal_values_of_the_same_bin(values) -> None:
    value = np.array([v for v, _ in values], dtype=float)
    bins = np.array([b for _, b in values], dtype=np.int64)
    rank, sizes = rank_within(value, bins, 5)
    expected = [
        sum(b == bins[i] and (v, j) < (value[i], i) for j, (v, b) in enumerate(values))
        for i in range(len(values))
    ]
    assert rank.tolist() == expected
    assert sizes.tolist() == np.bincount(bins, minlength=5).tolist()


@given(n=st.integers(0, 5000), width=st.integers(1, 1 << 20))
def test_blocks_cover_all_rows_once_and_in_order(n: int, width: int) -> None:
    covered = [row for block in row_blocks(n, width) for row in range(n)[block]]
    assert covered == list(range(n))


@pytest.mark.parametrize("pieces", [1, 9])
def test_gram_matrices_are_products_whatever_the_number_of_pieces(pieces: int) -> None:
    A = np.random.default_rng(0).standard_normal((pieces, 7, 3))
    np.testing.assert_allclose(gram_of(A), np.einsum("bni,bnj->bij", A, A))


def test_one_hot_rows_have_a_single_one() -> None:
    assert one_hot(np.array([2, 0]), 3, np.float32).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_values_take_the_library_of_the_reference() -> None:
    torch = pytest.importorskip("torch")
    strided = np.broadcast_to(np.arange(3.0), (2, 3))
    assert isinstance(like(strided, torch.zeros(1)), torch.Tensor)
    assert isinstance(like(torch.ones(2), np.zeros(1)), np.ndarray)
    assert to_numpy(torch.ones(2)).tolist() == [1, 1]
