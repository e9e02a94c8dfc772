"""Trials of training methods of others."""

from dataclasses import replace

import numpy as np
import pytest

from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.sample import MADE
from kspr.experiments.reproduce.trials import compute
from kspr.experiments.reproduce.trials.methods import told_rate
from tests.experiments.reproduce.samples import spec

QUICK = {"preset": "cpu", "epochs": 2, "batch_size": 32}
DIGITS = {"source": "digits", "rows": 300}


def test_standard_by_either_way_is_the_same_trial():
    plain = compute(spec("train", DIGITS, Variant("none"), QUICK))
    method = compute(spec("method", DIGITS, Variant("none", method="standard"), QUICK))
    assert method["accuracy"] == plain["accuracy"]
    assert method["accuracy_weights"] == plain["accuracy_weights"]


def test_a_method_is_told_the_true_noise_rate_where_it_must_be():
    variant = Variant("none", method="co-teaching")
    assert 0 < compute(spec("method", DIGITS, variant, QUICK))["accuracy"] <= 1
    sample = spec("method", DIGITS, variant, QUICK).sample()
    assert told_rate(sample) == pytest.approx(np.mean(sample.label != sample.truth))
    # Nobody knows it for WebVision.
    assert told_rate(replace(MADE["digits"](), truth=None)) == 0.2


def test_a_trial_that_was_cut_off_leaves_no_checkpoints_once_it_is_done(tmp_path):
    variant = Variant("none", method="topofilter")
    trial = spec("method", DIGITS, variant, {**QUICK, "epochs": 3}, work=tmp_path / "work")
    found = compute(trial)
    assert not (tmp_path / "work").exists()
    assert found == compute(replace(trial, work=None))
    assert found["fsr"] < 0.4
