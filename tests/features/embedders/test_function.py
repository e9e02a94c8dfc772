"""Functions of the user's own as embedders."""

import sys

import numpy as np
import pytest

from kspr.errors import InputError
from tests.features.fakes import embedder_identity, load_embedder


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


def test_a_function_or_a_module_that_ends_the_process_is_told_so(own):
    embedder = load_embedder(own("__import__('sys').exit(3)").name, "text")
    with pytest.raises(InputError, match=r"failed on a batch of 2: SystemExit: 3$"):
        embedder(["t1", "t2"])
    with pytest.raises(InputError, match=r"failed with SystemExit: 4\.$"):
        load_embedder(own(after="raise SystemExit(4)").name, "text")


def test_the_current_directory_does_not_stay_on_the_path(own):
    before = list(sys.path)
    load_embedder(own().name, "text")
    assert sys.path == before
