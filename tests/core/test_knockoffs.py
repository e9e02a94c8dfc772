"""The class that comes next to a label."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kspr.core.regression import most_confident

# --- Labels -----------------------------------------------------------------------------------


@given(
    c=st.integers(2, 8),
    rows=st.integers(1, 20),
    data=st.data(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_most_confident_knockoff_is_the_best_other_class(
    c: int, rows: int, data: st.DataObject, dtype: type
) -> None:
    """Scores may tie."""
    value = st.one_of(st.integers(-2, 2), st.floats(-1e3, 1e3, width=32))
    scores = data.draw(arrays(dtype, (rows, c), elements=value))
    labels = data.draw(arrays(np.int64, rows, elements=st.integers(0, c - 1)))
    knockoff = most_confident(scores, labels)
    for row, label, found in zip(scores, labels, knockoff, strict=True):
        assert found != label
        assert row[found] == max(np.delete(row, label))


def test_most_confident_knockoff_of_a_certain_label_is_another_class() -> None:
    """A classifier that is sure has log-probabilities of minus infinity for all others."""
    scores = np.where(np.eye(4, dtype=bool), 0.0, -np.inf)
    labels = np.arange(4)
    assert (most_confident(scores, labels) != labels).all()


def test_most_confident_works_on_pieces() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((3, 10, 4)), rng.integers(0, 4, (3, 10))
    together = most_confident(scores, labels)
    for b in range(3):
        np.testing.assert_array_equal(together[b], most_confident(scores[b], labels[b]))
