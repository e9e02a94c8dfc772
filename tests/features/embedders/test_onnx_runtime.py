"""Networks exported for ONNX Runtime."""

import numpy as np
import pytest

from kspr.features.embedders import onnx_runtime
from kspr.features.embedders.onnx_runtime import EngineWarning, onnx_run

torch = pytest.importorskip("torch", reason="torch is not installed")
for package in onnx_runtime._NEEDED:
    pytest.importorskip(package, reason="the extra 'onnx' is not installed")


class Colours(torch.nn.Module):
    """Maps the mean colour of an image to five features."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 5)

    def forward(self, inputs):
        return self.layer(inputs["pixels"].float().mean((1, 2)))


class Words(torch.nn.Module):
    """Adds up the vectors of the tokens that are not masked."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(10, 4)

    def forward(self, inputs):
        return (self.table(inputs["ids"]) * inputs["attention_mask"].unsqueeze(-1)).sum(1)


class Choosy(Colours):
    """Does something else for bright images: no graph can hold that."""

    def forward(self, inputs):
        found = super().forward(inputs)
        return found if inputs["pixels"].float().mean() > 100 else -found


def by_torch(module):
    def run(piece):
        with torch.inference_mode():
            return module({name: torch.from_numpy(a) for name, a in piece.items()}).numpy()

    return run


def pixels(n, seed=0):
    shape = (n, 6, 6, 3)
    return {"pixels": np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kspr" / "onnx"


@pytest.fixture
def exports(monkeypatch):
    """Count exports."""
    made, export = [], onnx_runtime._export
    monkeypatch.setattr(onnx_runtime, "_export", lambda *a: made.append(a) or export(*a))
    return made


def test_an_export_is_made_once_and_computes_the_same(cache, exports, capfd):
    module = Colours()
    capfd.readouterr()
    for first in (1, 8):
        run = onnx_run("x", lambda: module, pixels(first), by_torch(module))
        for rows in (1, 2, 9):
            piece = pixels(rows, seed=rows)
            np.testing.assert_allclose(run(piece), by_torch(module)(piece), rtol=1e-5)
    assert len(exports) == 1
    assert capfd.readouterr() == ("", "")
    assert sorted(path.name for path in cache.glob("*/*")) == ["model.onnx", "probe.npz"]


def test_other_weights_and_other_sizes_are_other_exports():
    module = Colours()
    larger = {"pixels": np.zeros((2, 7, 7, 3), np.uint8)}
    before, weights = onnx_runtime._key("a", pixels(2)), onnx_runtime._weights(module)
    assert onnx_runtime._key("a", pixels(9)) == before
    assert onnx_runtime._key("a", larger) != before
    assert onnx_runtime._key("b", pixels(2)) != before
    with torch.no_grad():
        module.layer.bias += 1
    assert onnx_runtime._weights(module) != weights


def test_a_network_that_is_known_by_name_is_built_for_its_export_only(cache, exports):
    module, built = Colours(), []

    def build():
        built.append(1)
        return module

    runs = [
        onnx_run("x", build, pixels(first), by_torch(module), "weights 1.0") for first in (2, 3)
    ]
    assert len(built) == len(exports) == 1
    for run in runs:
        np.testing.assert_allclose(run(pixels(5)), by_torch(module)(pixels(5)), rtol=1e-5)
    onnx_run("x", build, pixels(2), by_torch(module), "weights 1.1")
    assert len(built) == len(exports) == 2


def test_an_export_is_compared_with_pytorch_whenever_it_is_loaded(cache, exports):
    """Another machine, or another file, may give other features than when it was exported."""
    module = Colours()
    onnx_run("x", lambda: module, pixels(2), by_torch(module), "weights 1.0")
    probe = next(cache.glob("*/probe.npz"))
    with np.load(probe) as stored:
        arrays = dict(stored)
    arrays[onnx_runtime._FEATURES] *= -1
    np.savez(probe, **arrays)
    run = onnx_run("x", lambda: module, pixels(2), by_torch(module), "weights 1.0")
    np.testing.assert_allclose(run(pixels(5)), by_torch(module)(pixels(5)), rtol=1e-5)
    assert len(exports) == 2


@pytest.mark.parametrize("name", ["model.onnx", "probe.npz"])
def test_a_damaged_export_is_made_again(cache, exports, name):
    module = Colours()
    onnx_run("x", lambda: module, pixels(2), by_torch(module))
    next(cache.glob(f"*/{name}")).write_bytes(b"damaged")
    assert onnx_run("x", lambda: module, pixels(2), by_torch(module)) is not None
    assert len(exports) == 2


def test_texts_may_have_any_length_and_padding(cache):
    module = Words()

    def tokens(rows, length):
        ids = np.random.default_rng(rows).integers(0, 10, (rows, length))
        mask = np.arange(length) < np.arange(1, rows + 1)[:, None]
        return {"ids": ids, "attention_mask": mask.astype(np.int64)}

    # The first piece has no padding, as texts of one length have none.
    first = tokens(3, 4) | {"attention_mask": np.ones((3, 4), np.int64)}
    run = onnx_run("x", lambda: module, first, by_torch(module))
    for rows, length in ((1, 2), (4, 4), (5, 7)):
        piece = tokens(rows, length)
        np.testing.assert_allclose(run(piece), by_torch(module)(piece), atol=1e-5)


def test_what_cannot_be_exported_is_said_and_remembered(cache, exports):
    module = Choosy()
    for _ in range(2):
        with pytest.warns(EngineWarning, match=r"^x cannot be run by ONNX Runtime \(.*PyTorch"):
            assert onnx_run("x", lambda: module, pixels(2), by_torch(module)) is None
    assert len(exports) == 1


def test_an_export_with_other_features_is_not_used(cache):
    module = Colours()

    def other(piece):
        return by_torch(module)(piece)[:, ::-1]

    with pytest.warns(EngineWarning, match=r"have a cosine of -?0\.\d+ with PyTorch's"):
        assert onnx_run("x", lambda: module, pixels(4), other) is None


def test_rows_of_zeros_agree_with_themselves_only():
    rows = np.array([[0.0, 0.0], [1.0, 2.0]])
    assert onnx_runtime._smallest_cosine(rows, rows) == pytest.approx(1)
    assert onnx_runtime._smallest_cosine(rows, np.ones((2, 2))) == 0


def test_without_the_packages_pytorch_computes_without_a_word(cache, monkeypatch, recwarn):
    monkeypatch.setattr(onnx_runtime, "is_installed", lambda name: name != "onnxscript")
    module = Colours()
    assert onnx_run("x", lambda: module, pixels(2), by_torch(module)) is None
    assert not [w for w in recwarn if issubclass(w.category, EngineWarning)]
    assert not cache.exists()
