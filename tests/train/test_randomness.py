"""Random numbers by seed and place."""

import pytest
import torch
from scipy import stats

from kspr.train.world import (
    beta,
    chance,
    deterministic,
    generator_for,
    integers_below,
    seed_for,
    uniform,
)

CPU = torch.device("cpu")


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_seeds_differ_by_purpose_and_place_and_repeat_otherwise():
    places = [("order",), ("batch",), ("batch", 0), ("batch", 1), ("batch", 0, 1), ("batch", 1, 0)]
    seeds = [seed_for(5, *place) for place in places]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [seed_for(5, *place) for place in places]
    assert seed_for(6, "order") != seeds[0]


def test_generators_of_one_place_draw_the_same_numbers():
    first, again = (torch.rand(4, generator=generator_for(1, "split", 2)) for _ in range(2))
    assert torch.equal(first, again)


def test_integers_stay_below_their_bounds_and_reach_every_value():
    bounds = torch.tensor([1, 2, 5]).repeat(2000, 1)
    draws = integers_below(bounds, rng())
    assert (draws >= 0).all()
    assert (draws < bounds).all()
    assert [len(draws[:, k].unique()) for k in range(3)] == [1, 2, 5]


def test_uniform_and_chance_have_their_bounds_and_rates():
    """2,000 draws: within 4 standard errors."""
    draws = uniform((2000,), rng(), CPU, -1.0, 3.0)
    assert -1 <= draws.min() < draws.max() < 3
    assert stats.kstest(draws.numpy(), stats.uniform(-1, 4).cdf).pvalue > 1e-3
    assert abs(chance(2000, 0.3, rng(), CPU).float().mean() - 0.3) < 4 * (0.21 / 2000) ** 0.5


@pytest.mark.parametrize("alpha", [0.05, 0.5, 2.0])
def test_beta_has_its_distribution_and_no_nan(alpha):
    draws = beta(2000, alpha, rng(), CPU)
    assert torch.isfinite(draws).all()
    if alpha >= 0.5:
        assert stats.kstest(draws.numpy(), stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_deterministic_ends_with_the_block_even_after_an_error():
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ZeroDivisionError), deterministic():
        raise ZeroDivisionError
    assert not torch.are_deterministic_algorithms_enabled()
