"""Known noise has exact counts and keeps to its rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr import InputError
from kspr.core.noise import pair_flip, symmetric


@given(st.integers(2, 6), st.integers(5, 80), st.floats(0, 0.99), st.integers(0, 9))
def test_symmetric_noise_has_the_exact_count(c, n, rate, seed):
    y = np.arange(n) % c
    noisy = symmetric(y, rate, seed)
    assert (noisy != y).sum() == round(rate * n)
    assert set(noisy) <= set(y)


def test_symmetric_noise_spreads_evenly():
    """Chi-square over the 4 other classes of 20,000 flips: fails by chance once in 10,000."""
    from scipy.stats import chisquare

    noisy = symmetric(np.zeros(40000, int) + np.repeat(np.arange(5), 8000), 0.5, seed=0)
    changed = noisy[:8000][noisy[:8000] != 0]
    assert chisquare(np.bincount(changed, minlength=5)[1:]).pvalue > 1e-4


def test_noise_depends_on_its_seed_alone():
    y = np.array(list("abcd") * 25)
    assert np.array_equal(symmetric(y, 0.3, 1), symmetric(y, 0.3, 1))
    assert not np.array_equal(symmetric(y, 0.3, 1), symmetric(y, 0.3, 2))


def test_pair_flips_only_go_to_the_partner():
    y = np.repeat([0, 1, 2], 50)
    noisy = pair_flip(y, 0.4, {0: 1, 1: 0}, seed=3)
    assert np.bincount(noisy[y == 0], minlength=3).tolist() == [30, 20, 0]
    assert np.bincount(noisy[y == 1], minlength=3).tolist() == [20, 30, 0]
    assert (noisy[y == 2] == 2).all()


@pytest.mark.parametrize("rate", [-0.1, 1, 40])
def test_a_rate_is_a_share(rate):
    with pytest.raises(InputError, match="40 %"):
        symmetric([0, 1], rate, 0)
