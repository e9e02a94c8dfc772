"""Operations on arrays: ranks, blocks of rows, products row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core.arrays import gram_of, one_hot, rank_within, row_blocks, rows_times, to_numpy


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


@given(
    n=st.integers(0, 300),
    first=st.integers(0, 300),
    p=st.sampled_from([1, 2, 3, 8, 17, 64, 200, 512]),
    c=st.sampled_from([1, 2, 3, 5, 10, 16, 17, 33, 100]),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 100),
)
def test_the_product_of_a_row_does_not_depend_on_other_rows(
    n: int, first: int, p: int, c: int, dtype: type, seed: int
) -> None:
    """To the bit: neither on their number, nor on the place of the row among them."""
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((300, p)).astype(dtype), rng.standard_normal((p, c)).astype(dtype)
    whole = rows_times(A, B)
    assert whole.dtype == dtype
    np.testing.assert_array_equal(rows_times(A[first : first + n], B), whole[first : first + n])
    order = rng.permutation(300)[:n]
    np.testing.assert_array_equal(rows_times(A[order], B), whole[order])
    np.testing.assert_allclose(whole, A @ B, rtol=0, atol=2e-4 if dtype == np.float32 else 1e-11)


def test_tensors_become_arrays() -> None:
    torch = pytest.importorskip("torch")
    assert to_numpy(torch.ones(2)).tolist() == [1, 1]
    assert to_numpy([1, 2]).tolist() == [1, 2]
