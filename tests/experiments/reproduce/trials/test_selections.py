"""Trials of selectors on fixed features."""

import shutil

import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.trials import compute
from kspr.experiments.reproduce.trials.selections import levels
from kspr.experiments.reproduce.trials.trial import selected
from tests.experiments.reproduce.samples import FEATURES, spec

DIGITS = {"source": "digits", "rows": 300}


def test_examples_show_the_images_behind_the_features(folder):
    trial = spec("examples", FEATURES, Variant("spr"), {"shown": 3}, folder=folder)
    found = compute(trial)
    assert 0 < len(found["examples"]) <= 3
    assert {"given", "true", "png"} <= set(found["examples"][0])
    assert all(example["given"] != example["true"] for example in found["examples"])


def test_features_without_images_have_no_examples_to_show(folder, tmp_path):
    home = tmp_path / "cifar10"
    home.mkdir()
    shutil.copy(folder / "cifar10" / "features.npz", home)
    with pytest.raises(InputError, match="features but no images to show"):
        compute(spec("examples", FEATURES, Variant("spr"), {"shown": 3}, folder=tmp_path))


def test_a_selection_is_measured_against_the_truth():
    trial = spec("select", DIGITS, Variant("default", {"q": 0.1}))
    sample, selection = selected(trial)
    found = compute(trial)
    wrong = (selection.label != sample.truth)[selection.clean_mask]
    assert found["fsr"] == pytest.approx(wrong.mean(), rel=1e-5)
    assert found["kept"] == pytest.approx(selection.clean_mask.mean(), rel=1e-5)
    assert found["fallback"] == 0


def test_timing_repeats_the_selection_and_keeps_its_quality():
    variant = Variant("spr")
    timed = compute(spec("time", DIGITS, variant, {"repeats": 2}))
    once = compute(spec("select", DIGITS, variant))
    assert timed["seconds"] > 0
    assert timed["rows"] == 300
    assert {k: timed[k] for k in ("fsr", "recall", "f1")} == {
        k: once[k] for k in ("fsr", "recall", "f1")
    }


def test_spr_has_no_levels():
    _, selection = selected(spec("select", DIGITS, Variant("spr")))
    assert levels(selection) == {"q": None, "q_spread": None, "fallback": None}
