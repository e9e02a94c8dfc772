"""Networks: sizes as published, features and logits of one pass, seeds that touch nothing else."""

import copy

import pytest
import torch
from torch import nn

from kspr.errors import InputError
from kspr.models.build import NAMES, build_network


@pytest.mark.parametrize(
    ("name", "n_classes", "size", "published"),
    [
        ("cifar_resnet18", 10, 32, 11_173_962),
        ("resnet50", 1000, 32, 25_557_032),
        ("inception_resnet_v2", 1000, 75, 55_843_464),
    ],
)
def test_the_papers_networks_have_the_published_number_of_weights(name, n_classes, size, published):
    with torch.device("meta"):
        network = build_network(name, n_classes, in_shape=(3, size, size))
    assert sum(p.numel() for p in network.parameters()) == published


@pytest.mark.parametrize("name", ["mlp", "resnet_small"])
def test_logits_are_the_heads_view_of_the_features(name):
    shape = (6,) if name == "mlp" else (3, 8, 8)
    network = build_network(name, 3, in_shape=shape)
    outputs = network(torch.rand(5, *shape))
    torch.testing.assert_close(network.head(outputs.features), outputs.logits)


def test_the_seed_decides_the_weights_and_torchs_own_state_stays():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (
        build_network("resnet_small", 3, in_shape=(3, 8, 8), seed=seed) for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.body.conv1.weight, again.body.conv1.weight)
    assert not torch.equal(first.body.conv1.weight, other.body.conv1.weight)


def test_features_may_come_from_an_inner_layer():
    plain = build_network("resnet_small", 3, in_shape=(3, 8, 8)).eval()
    inner = build_network("resnet_small", 3, in_shape=(3, 8, 8), feature_layer="body.layer2").eval()
    x = torch.rand(2, 3, 8, 8)
    assert inner.n_features == 64
    assert inner(x).features.shape == (2, 64)
    torch.testing.assert_close(inner(x).logits, plain(x).logits)


def test_a_copy_of_a_network_is_its_own():
    network = build_network("mlp", 3, in_shape=(4,)).eval()
    other = copy.deepcopy(network)
    nn.init.zeros_(other.head.weight)
    assert network(torch.ones(1, 4)).logits.std() > 0


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("vgg", {"in_shape": (3, 8, 8)}, "no network 'vgg'. Choose from mlp,"),
        ("timm:", {"in_shape": (3, 8, 8)}, "no network 'timm:'"),
        ("mlp:x", {"in_shape": (3,)}, "no network 'mlp:x'"),
        ("mlp", {"in_shape": (3, 8, 8)}, "mlp takes vectors"),
        ("resnet_small", {"in_shape": (64,)}, "resnet_small takes images"),
        ("mlp", {"in_shape": ()}, "in_shape must be the shape of one sample"),
        ("mlp", {"in_shape": (0,)}, "in_shape must be the shape of one sample"),
        ("mlp", {"in_shape": (3,), "n_classes": 1}, "n_classes must be at least 2, got 1"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_sentence(name, options, says):
    with pytest.raises(InputError, match=says):
        build_network(name, **{"n_classes": 3, **options})


def test_every_own_name_can_be_built():
    for name in (n for n in NAMES if ":" not in n):
        shape = (4,) if name in ("mlp", "linear") else (3, 80, 80)
        with torch.device("meta"):
            assert build_network(name, 2, in_shape=shape).n_features > 0


def test_linear_is_logistic_regression_on_the_vectors():
    network = build_network("linear", 3, in_shape=(5,))
    x = torch.randn(4, 5)
    found = network(x)
    assert torch.equal(found.features, x)
    torch.testing.assert_close(found.logits, x @ network.head.weight.T + network.head.bias)
    with pytest.raises(InputError, match="linear takes vectors"):
        build_network("linear", 3, in_shape=(3, 8, 8))
