"""What trials that train a network share."""

import pytest
import torch

from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.trials.networks import measured, one_thread, settings_of
from kspr.train import fit
from tests.experiments.reproduce.samples import spec

QUICK = {"preset": "cpu", "epochs": 2, "batch_size": 32}


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
