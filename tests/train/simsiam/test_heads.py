"""SimSiam's settings, heads and loss."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from kspr.errors import InputError
from kspr.train.simsiam import Heads, SimSiamSettings, disagreement, spread


def test_spread_is_one_for_a_cloud_and_nothing_for_a_point():
    cloud = torch.randn(4000, 64, generator=torch.Generator().manual_seed(0))
    assert spread(cloud).item() == pytest.approx(1, abs=0.02)
    assert spread(cloud[:1].expand(50, 64)).item() < 1e-3


def test_no_gradient_passes_to_the_target():
    predicted, target = (torch.rand(5, 3, requires_grad=True) for _ in range(2))
    loss = disagreement(predicted, target)
    loss.backward()
    expected = -functional.cosine_similarity(predicted, target).mean()
    torch.testing.assert_close(loss, expected)
    assert target.grad is None
    assert predicted.grad.abs().sum() > 0


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_projector_has_its_layers_and_the_predictor_two(layers):
    heads = Heads(5, width=8, bottleneck=3, layers=layers)
    linear = [part for part in heads.projector if isinstance(part, nn.Linear)]
    assert [(part.in_features, part.out_features) for part in linear] == [
        (5 if k == 0 else 8, 8) for k in range(layers)
    ]
    assert sum(isinstance(part, nn.Linear) for part in heads.predictor) == 2


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"batch_size": 1}, {"rate": 0.0}, {"width": 0}])
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=f"{next(iter(wrong))} must be"):
        SimSiamSettings(**wrong)
