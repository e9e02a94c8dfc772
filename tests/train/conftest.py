"""Small data that the tests of training share."""

import numpy as np
import pytest
import torch
from PIL import Image

from kspr.train import TrainSettings, fit
from tests.conftest import Noisy
from tests.train.digits import small_digits


@pytest.fixture(autouse=True)
def one_thread():
    """Two cores, shared: a thread each would be slower, and bits must not depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small() -> Noisy:
    """300 digits, 30 % of the labels wrong."""
    return small_digits()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep the verdict on bfloat16 out of the user's cache folder; test once per session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def quick() -> TrainSettings:
    """Four short epochs of Alg. 3: the network's own features are judged."""
    return TrainSettings.from_preset(
        "cpu",
        epochs=4,
        warmup_epochs=1,
        select_on="network",
        select_every=1,
        batch_size=32,
        selection={"q": 0.2},
    )


@pytest.fixture
def refereed(quick) -> TrainSettings:
    """Four short epochs on what referees say."""
    return quick.changed(select_on="referees", warmup_epochs=0, referee_parts=3)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Forty images in two classes, dark and bright."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for k in range(40):
        shade = rng.integers(0, 90, (8, 8, 3)) + (120 if k % 2 else 0)
        (root / ["dark", "bright"][k % 2]).mkdir(exist_ok=True)
        Image.fromarray(shade.astype(np.uint8)).save(root / ["dark", "bright"][k % 2] / f"{k}.png")
    return root


@pytest.fixture(scope="session")
def parts(digits40):
    train, rest = slice(0, 1200), slice(1200, None)
    X, y, truth = digits40.X, digits40.y, digits40.y_true
    return X[train], y[train], truth[train], (X[rest], truth[rest])


@pytest.fixture(scope="session")
def cycled(parts):
    X, y, truth, test = parts
    torch.set_num_threads(1)
    settings = TrainSettings.from_preset("cpu", epochs=10, batch_size=32)
    return fit(X, y, settings=settings, truth=truth, test=test)
