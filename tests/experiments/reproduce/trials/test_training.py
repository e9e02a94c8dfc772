"""Trials that train a network."""

from dataclasses import replace

import pytest

from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.trials import compute
from tests.experiments.reproduce.samples import IMAGES, spec


def test_a_whole_network_learns_from_the_images(folder, tmp_path):
    settings = {
        "preset": "cifar10",
        "network": "resnet_small",
        "epochs": 1,
        "pretrain_epochs": 0,
        "batch_size": 30,
    }
    variant = Variant("spr", {"reduction": 5}, train={"guard": False})
    trial = spec("train", IMAGES, variant, settings, folder=folder, work=tmp_path / "work")
    found = compute(trial)
    assert 0 <= found["accuracy"] <= found["top5"] <= 1
    assert len(found["course"]) == 1
    # What a trial needs to continue is gone once it is done.
    assert not (tmp_path / "work").exists()


def test_a_training_that_was_cut_off_goes_on_to_the_same_network(tmp_path, monkeypatch):
    from kspr.experiments.reproduce.trials import training

    settings = {"preset": "cpu", "epochs": 3, "batch_size": 32, "select_every": 1}
    source = {"source": "digits", "rows": 300}
    trial = spec("train", source, Variant("paper", train={"guard": False}), settings)
    straight = compute(trial)
    trial = replace(trial, work=tmp_path / "work")

    def cut_off(*given, **named):
        def stop(epoch):
            if epoch.epoch == 2:
                raise KeyboardInterrupt

        return fit(*given, **named, on_epoch=stop)

    fit = training.fit
    monkeypatch.setattr(training, "fit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        compute(trial)
    monkeypatch.setattr(training, "fit", fit)
    assert (tmp_path / "work" / "checkpoints").is_dir()
    assert compute(trial) == straight
