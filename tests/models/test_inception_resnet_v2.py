"""Inception-ResNet-v2: its features and its smallest image."""

import pytest
import torch

from kspr.errors import InputError
from kspr.models.build import build_network


def test_inception_takes_its_smallest_image_and_refuses_a_smaller_one():
    network = build_network("inception_resnet_v2", 3, in_shape=(3, 75, 75)).eval()
    with torch.no_grad():
        assert network(torch.rand(1, 3, 75, 75)).features.shape == (1, 1536)
    with pytest.raises(InputError, match="at least 75 x 75 pixels"):
        build_network("inception_resnet_v2", 3, in_shape=(3, 74, 75))
