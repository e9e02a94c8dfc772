"""The networks of this package on images of any size."""

import pytest
import torch

from kspr.errors import InputError
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


def test_inception_takes_its_smallest_image_and_refuses_a_smaller_one():
    network = build_network("inception_resnet_v2", 3, in_shape=(3, 75, 75)).eval()
    with torch.no_grad():
        assert network(torch.rand(1, 3, 75, 75)).features.shape == (1, 1536)
    with pytest.raises(InputError, match="at least 75 x 75 pixels"):
        build_network("inception_resnet_v2", 3, in_shape=(3, 74, 75))
