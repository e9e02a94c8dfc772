"""timm and torchvision by stand-ins: the real packages are not needed."""

import sys
import types

import numpy as np
import pytest

from kspr.errors import InputError
from tests.features.fakes import load_embedder

torch = pytest.importorskip("torch", reason="torch is not installed")


MEAN_AND_STD = {
    "timm": (0.5, 0.5),
    "torchvision": (np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])),
}


class Net(torch.nn.Module):
    """Averages colours and maps them to five features, then to classes."""

    def __init__(self, classes: int = 10):
        super().__init__()
        self.body = torch.nn.Linear(3, 5)
        self.fc = torch.nn.Linear(5, classes) if classes else torch.nn.Identity()
        self.pretrained_cfg = {"classifier": "fc"}

    def forward(self, x):
        return self.fc(self.body(x.mean((2, 3))))


@pytest.fixture
def torchvision(monkeypatch):
    """A stand-in with the three calls that are used; the real one has no CPU build here."""
    models = types.ModuleType("torchvision.models")

    def get_model(name, weights):
        if name != "net":
            raise ValueError(f"Unknown model {name}")
        return Net()

    transform = types.SimpleNamespace(crop_size=[40])
    default = types.SimpleNamespace(transforms=lambda: transform)
    models.get_model = get_model
    models.get_model_weights = lambda name: types.SimpleNamespace(DEFAULT=default)
    package = types.ModuleType("torchvision")
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.fixture
def timm(monkeypatch):
    """A stand-in with the two calls that are used; it needs torchvision."""
    package, data = types.ModuleType("timm"), types.ModuleType("timm.data")

    def create_model(name, pretrained, num_classes):
        if name != "net":
            raise RuntimeError(f"Unknown model ({name})")
        return Net(num_classes)

    config = {"input_size": (3, 40, 40), "mean": (0.5,) * 3, "std": (0.5,) * 3}
    package.create_model, package.data = create_model, data
    data.resolve_model_data_config = lambda model: config
    monkeypatch.setitem(sys.modules, "timm", package)
    monkeypatch.setitem(sys.modules, "timm.data", data)


@pytest.mark.parametrize("family", ["timm", "torchvision"])
def test_backbones_give_what_the_last_layer_sees(family, request, images):
    request.getfixturevalue(family)
    embedder = load_embedder(f"{family}:net", "image", device="cpu")
    assert embedder(images).shape == (3, 5)
    assert embedder.image_size == 40
    assert load_embedder(f"{family}:net", "image", image_size=16).image_size == 16


@pytest.mark.parametrize("family", ["timm", "torchvision"])
@pytest.mark.parametrize("wrap", [lambda s: s, lambda s: {"state_dict": s}])
def test_backbones_take_weights_from_a_file_whatever_their_head(
    family, wrap, request, images, tmp_path
):
    request.getfixturevalue(family)
    trained = Net(classes=7).eval()
    state = {f"module.{name}": tensor for name, tensor in trained.state_dict().items()}
    torch.save(wrap(state), tmp_path / "w.pth")
    embedder = load_embedder(f"{family}:net@{tmp_path / 'w.pth'}", "image", device="cpu")
    mean, std = MEAN_AND_STD[family]
    pixels = np.stack([embedder.prepare(image) for image in images]).mean((1, 2)) / 255
    with torch.inference_mode():
        expected = trained.body(torch.tensor((pixels - mean) / std, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(embedder(images), expected, atol=1e-5)


@pytest.mark.parametrize("family", ["timm", "torchvision"])
def test_an_unknown_backbone_is_told_so(family, request):
    request.getfixturevalue(family)
    with pytest.raises(InputError, match=f"{family}:other cannot be loaded by {family}: Unknown"):
        load_embedder(f"{family}:other", "image")


def test_weights_that_would_run_code_are_refused(torchvision, tmp_path):
    torch.save(Net(), tmp_path / "whole_model.pth")
    with pytest.raises(InputError, match="is not a file of weights"):
        load_embedder(f"torchvision:net@{tmp_path / 'whole_model.pth'}", "image")


def test_weights_that_are_missing_or_do_not_fit_are_refused(torchvision, tmp_path):
    with pytest.raises(InputError, match=r"The weights .*none.pth are not there"):
        load_embedder(f"torchvision:net@{tmp_path / 'none.pth'}", "image")
    torch.save({"body.weight": torch.ones(9, 9)}, tmp_path / "shape.pth")
    with pytest.raises(InputError, match=r"body.weight with \(9, 9\) for \(5, 3\)"):
        load_embedder(f"torchvision:net@{tmp_path / 'shape.pth'}", "image")
    torch.save({"other": torch.ones(2)}, tmp_path / "names.pth")
    with pytest.raises(InputError, match=r"2 tensors are missing, such as body\.weight"):
        load_embedder(f"torchvision:net@{tmp_path / 'names.pth'}", "image")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state_dict"):
        load_embedder(f"torchvision:net@{tmp_path / 'list.pth'}", "image")
