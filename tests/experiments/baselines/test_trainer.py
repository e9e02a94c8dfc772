"""Training by a method: the same as ours where nothing differs, and resumable."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from kspr.errors import InputError
from kspr.experiments.baselines import METHODS, make_method
from kspr.experiments.baselines.method import fit_method
from kspr.noise import symmetric
from kspr.train import TrainSettings, fit, load_trained

QUICK = TrainSettings.from_preset("cpu", epochs=3, batch_size=32)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return X[:400], symmetric(y[:400], 0.4, seed=0), y[:400], (X[400:600], y[400:600])


def told(name):
    return {"noise_rate": 0.4} if make_method(name).needs_noise_rate else {}


def test_plain_training_gives_the_weights_of_fit_bit_for_bit(digits):
    X, y, _, test = digits
    settings = QUICK.changed(guard=False, select_every=0, warmup_epochs=3)
    ours, theirs = (
        fit(X, y, settings=settings, test=test),
        fit_method(X, y, make_method("standard"), settings=settings, test=test),
    )
    for name, value in ours.network.state_dict().items():
        assert torch.equal(value, theirs.network.state_dict()[name])
    assert ours.test_accuracy == theirs.test_accuracy


@pytest.mark.parametrize("name", METHODS)
def test_every_method_continues_to_the_same_network_after_a_stop(name, digits, tmp_path):
    X, y, truth, test = digits
    given = {"settings": QUICK, "test": test, "truth": truth, **told(name)}
    straight = fit_method(X, y, make_method(name), **given)

    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_method(X, y, make_method(name), out=tmp_path / "run", on_epoch=stop, **given)
    resumed = fit_method(X, y, make_method(name), out=tmp_path / "run", resume=True, **given)
    assert np.array_equal(straight.predict_proba(X), resumed.predict_proba(X))
    assert np.array_equal(load_trained(tmp_path / "run").predict(X), resumed.predict(X))
    assert straight.test_accuracy == resumed.test_accuracy


def test_a_method_that_must_be_told_says_so(digits):
    X, y, *_ = digits
    with pytest.raises(InputError, match="must be told the share of wrong labels"):
        fit_method(X, y, make_method("co-teaching"), settings=QUICK)
    with pytest.raises(InputError, match=r"noise_rate must lie in \[0, 1\), got 20"):
        fit_method(X, y, make_method("co-teaching"), settings=QUICK, noise_rate=20)
    with pytest.raises(InputError, match="GCE is not told the noise rate"):
        fit_method(X, y, make_method("gce"), settings=QUICK, noise_rate=0.2)


def test_a_run_of_one_method_is_not_continued_by_another(digits, tmp_path):
    X, y, *_ = digits
    fit_method(X, y, make_method("gce"), settings=QUICK, out=tmp_path / "run")
    with pytest.raises(InputError, match="is of another run: its method is"):
        fit_method(X, y, make_method("sl"), settings=QUICK, out=tmp_path / "run", resume=True)


def test_resuming_needs_a_folder_and_simsiam_is_ours(digits):
    X, y, *_ = digits
    with pytest.raises(InputError, match="resume=True needs the folder"):
        fit_method(X, y, make_method("gce"), settings=QUICK, resume=True)
    images = TrainSettings.from_preset("cifar10")
    with pytest.raises(InputError, match="pretrain_epochs must be 0 for GCE"):
        fit_method(X, y, make_method("gce"), settings=images)


def test_a_method_trains_a_whole_network_on_images():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = (rng.integers(0, 80, (60, 3, 16, 16)) + 60 * y[:, None, None, None]).astype(np.uint8)
    settings = TrainSettings.from_preset(
        "cifar10", network="resnet_small", epochs=2, pretrain_epochs=0, batch_size=20
    )
    for name in ("dividemix", "rog"):
        trained = fit_method(X, y, make_method(name), settings=settings)
        assert trained.predict_proba(X).shape == (60, 3)


def test_a_network_of_ones_own_is_trained_and_not_changed(digits):
    X, y, *_ = digits
    own = torch.nn.Sequential(torch.nn.Linear(64, 20), torch.nn.ReLU(), torch.nn.Linear(20, 10))
    before = {name: value.clone() for name, value in own.state_dict().items()}
    trained = fit_method(X, y, make_method("gce"), settings=QUICK, network=own)
    assert trained.predict(X).shape == (400,)
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())
