"""Trials that train a network: by our cycle, and by methods of others."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from kspr.experiments.baselines import method
from kspr.experiments.reproduce.data import GENERATED
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.running import compute
from kspr.experiments.reproduce.training import measured, one_thread, settings_of, told_rate
from kspr.train import fit
from tests.experiments.reproduce.samples import IMAGES, spec

QUICK = {"preset": "cpu", "epochs": 2, "batch_size": 32}
DIGITS = {"source": "digits", "rows": 300}


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

    fit = method.fit
    monkeypatch.setattr(method, "fit", cut_off)
    with pytest.raises(KeyboardInterrupt):
        compute(trial)
    monkeypatch.setattr(method, "fit", fit)
    assert (tmp_path / "work" / "checkpoints").is_dir()
    assert compute(trial) == straight


def test_training_on_all_labels_is_a_warm_up_that_never_ends():
    settings = settings_of(spec("train", {"source": "digits"}, Variant("none"), QUICK))
    assert settings.warmup_epochs == settings.epochs == 2
    assert not settings.guard


def test_settings_of_the_variant_override_those_of_the_scale():
    variant = Variant("default", {"q": 0.3}, train={"epochs": 5})
    settings = settings_of(spec("train", {"source": "digits"}, variant, QUICK))
    assert settings.epochs == 5
    assert settings.selection["q"] == 0.3
    # Of the preset, whose selector this is.
    assert settings.selection["cut"] == "pooled"


def test_the_right_class_is_first_less_often_than_among_the_first_five():
    trial = spec("train", {"source": "digits", "rows": 200}, Variant("none"), QUICK)
    sample = trial.sample()
    trained = fit(sample.X, sample.label, settings=settings_of(trial), test=sample.test)
    found = measured(trained, sample)
    right = trained.predict(sample.test[0]) == sample.test[1]
    assert found["top1"] == right.mean() == pytest.approx(found["accuracy"])
    assert found["top1"] < found["top5"] <= 1
    assert [line["epoch"] for line in found["course"]] == [1, 2]


def test_one_thread_is_given_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_standard_by_either_way_is_the_same_trial():
    plain = compute(spec("train", DIGITS, Variant("none"), QUICK))
    method = compute(spec("train", DIGITS, Variant("none", method="standard"), QUICK))
    assert method["accuracy"] == plain["accuracy"]
    assert method["accuracy_weights"] == plain["accuracy_weights"]


def test_a_method_is_told_the_true_noise_rate_where_it_must_be():
    variant = Variant("none", method="co-teaching")
    assert 0 < compute(spec("train", DIGITS, variant, QUICK))["accuracy"] <= 1
    sample = spec("train", DIGITS, variant, QUICK).sample()
    assert told_rate(sample) == pytest.approx(np.mean(sample.label != sample.truth))
    # Nobody knows it for WebVision.
    assert told_rate(replace(GENERATED["digits"](), truth=None)) == 0.2


def test_a_trial_says_that_the_noise_rate_was_assumed(monkeypatch):
    unknown = replace(GENERATED["digits"](), truth=None)
    monkeypatch.setattr("kspr.experiments.reproduce.trials.TrialSpec.sample", lambda _: unknown)
    told = compute(spec("train", DIGITS, Variant("none", method="co-teaching"), QUICK))
    assert told["assumed_rate"] == 0.2
    plain = compute(spec("train", DIGITS, Variant("none", method="standard"), QUICK))
    assert "assumed_rate" not in plain


def test_a_trial_that_was_cut_off_leaves_no_checkpoints_once_it_is_done(tmp_path):
    variant = Variant("none", method="topofilter")
    trial = spec("train", DIGITS, variant, {**QUICK, "epochs": 3}, work=tmp_path / "work")
    found = compute(trial)
    assert not (tmp_path / "work").exists()
    assert found == compute(replace(trial, work=None))
    assert found["fsr"] < 0.4
