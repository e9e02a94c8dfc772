"""Networks of other packages, made small and local; stand-ins where the package is absent."""

import sys
import types

import pytest
import torch
from torch import nn

from kspr.errors import InputError, MissingExtraError
from kspr.models.build import build_network

SHAPE = (3, 32, 32)


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("timm:x", "timm", "timm"),
        ("torchvision:x", "torchvision.models", "torchvision"),
        ("hf:x", "transformers", "transformers"),
    ],
)
def test_a_missing_package_is_named(monkeypatch, name, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"The network {name} needs {package}"):
        build_network(name, 3, in_shape=SHAPE)


def classifier(n_classes):
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, n_classes)
    )


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in whose models have 1000 classes, as the published ones."""
    models = types.ModuleType("torchvision.models")
    asked = []

    def get_model(name, weights):
        asked.append((name, weights))
        if name == "unknown":
            raise ValueError("Unknown model unknown\nmore")
        return classifier(1000)

    models.get_model = get_model
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return asked


@pytest.fixture
def timm(monkeypatch):
    package = types.ModuleType("timm")
    asked = []

    def create_model(name, *, pretrained, num_classes, in_chans, **size):
        if size:
            raise TypeError("no img_size here")
        if name == "unknown":
            raise RuntimeError("Unknown model (unknown)")
        asked.append((name, pretrained, in_chans))
        return classifier(num_classes)

    package.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", package)
    return asked


@pytest.mark.parametrize("family", ["timm", "torchvision"])
def test_a_named_model_gets_the_classes_and_gives_its_features(family, request):
    request.getfixturevalue(family)
    network = build_network(f"{family}:small", 5, in_shape=SHAPE)
    outputs = network(torch.rand(2, *SHAPE))
    assert network.n_features == 6
    assert outputs.features.shape == (2, 6)
    assert outputs.logits.shape == (2, 5)


@pytest.mark.parametrize("family", ["timm", "torchvision"])
def test_a_file_of_weights_fills_all_but_a_head_of_other_classes(family, request, tmp_path):
    request.getfixturevalue(family)
    source = classifier(1000)
    torch.save(source.state_dict(), tmp_path / "w.pth")
    network = build_network(f"{family}:small", 5, in_shape=SHAPE, weights=tmp_path / "w.pth")
    assert torch.equal(network.module[0].weight, source[0].weight)
    assert network.module[3].out_features == 5


def test_published_weights_are_fetched_only_on_demand(timm, torchvision):
    for name in ("timm:small", "torchvision:small"):
        build_network(name, 5, in_shape=SHAPE)
        build_network(name, 5, in_shape=SHAPE, weights="pretrained")
    assert timm == [("small", False, 3), ("small", True, 3)]
    assert torchvision == [("small", None), ("small", "DEFAULT")]


@pytest.mark.parametrize("family", ["timm", "torchvision"])
def test_an_unknown_model_is_one_line(family, request):
    request.getfixturevalue(family)
    with pytest.raises(InputError, match=f"cannot be loaded by {family}: Unknown model") as caught:
        build_network(f"{family}:unknown", 5, in_shape=SHAPE)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=32,
        patch_size=16,
        num_labels=4,
    )
    path = tmp_path_factory.mktemp("vit")
    transformers.ViTForImageClassification(config).save_pretrained(path)
    return path


def test_a_transformer_keeps_its_weights_and_gets_a_new_head(folder):
    first, again = (build_network(f"hf:{folder}", 3, in_shape=SHAPE, seed=2) for _ in range(2))
    outputs = first.eval()(torch.rand(2, *SHAPE))
    assert outputs.features.shape == (2, 16)
    assert outputs.logits.shape == (2, 3)
    for mine, other in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_transformer_says_which_sizes_it_cannot_take_and_takes_no_file(folder):
    with pytest.raises(InputError, match=r"cannot take samples of in_shape=\(3, 8, 8\)"):
        build_network(f"hf:{folder}", 3, in_shape=(3, 8, 8))
    with pytest.raises(InputError, match="weights must be left out for hf:"):
        build_network(f"hf:{folder}", 3, in_shape=SHAPE, weights="x.pth")
