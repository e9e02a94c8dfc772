"""CutMix and mixup: what is in the picture is in the target."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.nn.functional import one_hot

from kspr.train.inputs import cutmix, mixup
from kspr.train.world import beta


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def sides(n, *shape):
    """Return zeros with target (1, 0), and ones with target (0, 1)."""
    zero, one = (one_hot(torch.full((n,), k), 2).float() for k in (0, 1))
    return torch.zeros(n, *shape), zero, torch.ones(n, *shape), one


@settings(max_examples=40)
@given(
    n=st.integers(1, 9),
    height=st.integers(1, 17),
    width=st.integers(1, 17),
    alpha=st.floats(0.05, 5),
    seed=st.integers(0, 999),
)
def test_the_weight_is_exactly_the_share_of_pixels(n, height, width, alpha, seed):
    mixed, target = cutmix(*sides(n, 3, height, width), rng(seed), alpha)
    share = mixed.mean((1, 2, 3))
    torch.testing.assert_close(target, torch.stack([1 - share, share], 1), atol=1e-6, rtol=0)


def test_the_pasted_part_is_one_box_at_the_same_place_in_all_channels():
    mixed, _ = cutmix(*sides(50, 3, 11, 13), rng())
    assert torch.equal(mixed[:, 0], mixed[:, 2])
    inside = mixed[:, 0].bool()
    box = inside.any(2)[:, :, None] & inside.any(1)[:, None, :]
    assert torch.equal(inside, box)
    for lines in (inside.any(2), inside.any(1)):
        runs = lines.float().diff(dim=1).abs().sum(1)
        assert (runs <= 2).all()


def test_each_image_draws_its_own_box():
    mixed, _ = cutmix(*sides(64, 1, 16, 16), rng())
    assert len(torch.unique(mixed.view(64, -1), dim=0)) > 40


def reference_shares(n, size, alpha, seed):
    """Return the share of clean pixels of `n` boxes, one by one as the authors of CutMix do."""
    random = np.random.default_rng(seed)
    shares = []
    for _ in range(n):
        length = int(size * np.sqrt(1 - random.beta(alpha, alpha)))
        area = 1
        for centre in random.integers(size, size=2):
            start = centre - length // 2
            area *= min(start + length, size) - max(start, 0)
        shares.append(1 - area / size**2)
    return np.array(shares)


def test_shares_are_distributed_as_one_box_at_a_time_gives_them():
    """Kolmogorov-Smirnov on 20,000 shares each: wrong by chance for one seed in a thousand."""
    _, target = cutmix(*sides(20_000, 1, 32, 32), rng(3))
    assert stats.ks_2samp(target[:, 0], reference_shares(20_000, 32, 0.5, 4)).pvalue > 1e-3


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_weights_are_beta_distributed(alpha):
    """Kolmogorov-Smirnov on 5,000 draws: wrong by chance for one seed in a thousand."""
    draws = beta(5000, alpha, rng(1), torch.device("cpu"))
    assert stats.kstest(draws, stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_mixup_weighs_vectors_and_targets_alike():
    mixed, target = mixup(*sides(30, 4), rng())
    torch.testing.assert_close(target[:, 1], mixed[:, 2])
    torch.testing.assert_close(target.sum(1), torch.ones(30))
    assert len(target[:, 0].unique()) == 30


@pytest.mark.parametrize(("mix", "shape"), [(cutmix, (1, 8, 8)), (mixup, (5,))])
def test_the_generator_decides_and_torchs_own_state_stays(mix, shape):
    before = torch.get_rng_state()
    first, again, other = (mix(*sides(8, *shape), rng(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_soft_targets_go_in_and_come_out():
    a, b = torch.zeros(5, 1, 8, 8), torch.ones(5, 1, 8, 8)
    soft = torch.rand(5, 3, generator=rng()).softmax(1)
    assert torch.allclose(cutmix(a, soft, b, soft, rng())[1], soft)
