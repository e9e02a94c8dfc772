"""What all networks share: modes, seeds, and the request to build one."""

import pytest
import torch
from torch import nn

from kspr.errors import InputError
from kspr.models.network import BodyNetwork, NetworkRequest, evaluating, image_channels, seeded


def test_evaluating_restores_the_mode_of_every_part():
    network = BodyNetwork(nn.Sequential(nn.BatchNorm1d(3), nn.Dropout()), 3, 2)
    network.body[0].eval()
    before = [part.training for part in network.modules()]
    with evaluating(network):
        assert not any(part.training for part in network.modules())
        assert not network(torch.rand(2, 3)).logits.requires_grad
    assert [part.training for part in network.modules()] == before


def test_seeded_draws_depend_on_the_seed_alone_and_leave_the_state():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    draws = []
    for seed in (7, 7, 8):
        with seeded(seed, torch.device("cpu")):
            draws.append(torch.rand(3))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(3), draws[0])


def test_seeded_restores_the_state_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError), seeded(3):
        torch.rand(1 // 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_channels_are_those_of_images_that_are_large_enough():
    request = NetworkRequest("net", "", 2, (3, 40, 30))
    assert image_channels(request, at_least=30) == 3
    with pytest.raises(InputError, match="net takes images of at least 31 x 31 pixels"):
        image_channels(request, at_least=31)
    with pytest.raises(InputError, match="net takes images"):
        image_channels(NetworkRequest("net", "", 2, (40,)))
