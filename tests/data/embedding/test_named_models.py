"""Models by name, made small and local; timm and torchvision as stand-ins where they are absent."""

import sys
import types

import numpy as np
import pytest
from kspr.features.embedders import embedder_identity, load_embedder

from kspr.errors import InputError

from .fakes import pictures

torch = pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def images():
    items = pictures(3)
    return [items[row] for row in range(3)]


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers", reason="transformers is not installed")


VISION = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "image_size": 32,
    "patch_size": 16,
}


def vit(transformers, folder):
    torch.manual_seed(0)
    model = transformers.ViTModel(transformers.ViTConfig(**VISION), add_pooling_layer=False)
    model.save_pretrained(folder)
    size = {"height": 32, "width": 32}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder)
    return model.eval()


def test_hf_images_are_the_class_token(transformers, images, tmp_path):
    model = vit(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "image", device="cpu")
    pixels = torch.stack([embedder.prepare(image) for image in images])
    with torch.inference_mode():
        expected = model(pixel_values=pixels).last_hidden_state[:, 0].numpy()
    np.testing.assert_allclose(embedder(images), expected, atol=1e-5)
    assert embedder.image_size == 32


def test_hf_images_may_have_another_size(transformers, images, tmp_path):
    vit(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "image", device="cpu", image_size=48)
    assert embedder(images).shape == (3, 16)
    assert embedder.prepare(images[0]).shape == (3, 48, 48)
    assert embedder.image_size == 48


def test_hf_convolutional_images_are_averaged(transformers, images, tmp_path):
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1])
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    transformers.ConvNextImageProcessor(size={"shortest_edge": 32}).save_pretrained(tmp_path)
    assert load_embedder(f"hf:{tmp_path}", "image", device="cpu")(images).shape == (3, 6)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat"]


def bert(transformers, folder):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {k: v for k, v in VISION.items() if k not in ("image_size", "patch_size")}
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(WORDS), max_position_embeddings=12, **sizes)
    transformers.BertModel(config).save_pretrained(folder)


def test_hf_texts_are_averaged_without_the_padding(transformers, tmp_path):
    bert(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "text", device="cpu")
    together = embedder(["a", "a cat sat a cat sat"])
    assert together.shape == (2, 16)
    np.testing.assert_allclose(together[:1], embedder(["a"]), atol=1e-5)


def test_hf_texts_longer_than_the_model_are_cut(transformers, tmp_path):
    bert(transformers, tmp_path)
    assert load_embedder(f"hf:{tmp_path}", "text")(["cat " * 100]).shape == (1, 16)


def test_loading_prints_nothing(transformers, tmp_path, capfd):
    bert(transformers, tmp_path)
    capfd.readouterr()
    load_embedder(f"hf:{tmp_path}", "text")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("family", ["hf", "st"])
def test_a_folder_that_is_not_there_is_named(family, transformers):
    if family == "st":
        pytest.importorskip("sentence_transformers", reason="it is not installed")
    with pytest.raises(InputError, match=r"there is no folder \./nowhere"):
        load_embedder(f"{family}:./nowhere", "text")


def test_a_folder_without_a_model_is_told_so(transformers, tmp_path):
    with pytest.raises(InputError, match="cannot be loaded by transformers' AutoModel"):
        load_embedder(f"hf:{tmp_path}", "text")


def test_a_changed_local_model_is_another_identity(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = embedder_identity(f"hf:{tmp_path}", "text")
    (tmp_path / "config.json").write_text("{ }")
    assert embedder_identity(f"hf:{tmp_path}", "text") != before


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
    with pytest.raises(InputError, match="is no file of weights alone"):
        load_embedder(f"torchvision:net@{tmp_path / 'whole_model.pth'}", "image")


def test_weights_that_are_missing_or_do_not_fit_are_refused(torchvision, tmp_path):
    with pytest.raises(InputError, match=r"The weights .*none.pth are not there"):
        load_embedder(f"torchvision:net@{tmp_path / 'none.pth'}", "image")
    torch.save({"body.weight": torch.ones(9, 9)}, tmp_path / "shape.pth")
    with pytest.raises(InputError, match="does not fit the model: size mismatch"):
        load_embedder(f"torchvision:net@{tmp_path / 'shape.pth'}", "image")
    torch.save({"other": torch.ones(2)}, tmp_path / "names.pth")
    with pytest.raises(InputError, match=r"2 of its tensors are missing, such as body\.weight"):
        load_embedder(f"torchvision:net@{tmp_path / 'names.pth'}", "image")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="holds no state_dict"):
        load_embedder(f"torchvision:net@{tmp_path / 'list.pth'}", "image")
