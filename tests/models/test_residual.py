"""The residual networks on images of any size."""

import pytest
import torch

from kspr.models.build import build_network
from kspr.models.network import Outputs

RESIDUAL = ["resnet_small", "cifar_resnet18", "resnet50"]


@pytest.mark.parametrize("name", RESIDUAL)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 8), (3, 33, 20)])
def test_residual_networks_take_small_grey_and_odd_images(name, shape):
    network = build_network(name, 4, in_shape=shape)
    outputs = network(torch.rand(3, *shape))
    assert isinstance(outputs, Outputs)
    assert outputs.features.shape == (3, network.n_features)
    assert outputs.logits.shape == (3, network.n_classes) == (3, 4)
    assert torch.isfinite(outputs.logits).all()


def test_every_weight_gets_a_gradient():
    network = build_network("cifar_resnet18", 3, in_shape=(3, 8, 8))
    network(torch.rand(4, 3, 8, 8)).logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())
