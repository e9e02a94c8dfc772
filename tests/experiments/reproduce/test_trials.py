"""Trials: their description, and what selections and single pieces give."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from kspr import SPR, PaperKnockoffsSPR
from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.running import compute, plain
from kspr.experiments.reproduce.trials import (
    levels,
    name_of,
    plan,
    principal,
    selected,
    selector_of,
)
from tests.experiments.reproduce.samples import FEATURES, QUICK, spec

DIGITS = {"source": "digits", "rows": 300}
MORE_DIGITS = {"source": "digits", "rows": 600}


def test_another_seed_or_data_is_another_trial():
    names = {name_of(spec.description()) for spec in plan(QUICK, "smoke", seeds=2)}
    assert len(names) == 2 * len(plan(QUICK, "smoke"))
    assert names.isdisjoint(name_of(spec.description()) for spec in plan(QUICK, "mini"))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "time"},
        {"source": {"source": "digits", "rows": 301}},
        {"noise": "Sym. 20 %"},
        {"variant": Variant(selection={"q": 0.2})},
        {"variant": Variant(train={"epochs": 3})},
        {"variant": Variant("none", method="gce")},
        {"settings": {"epochs": 4}},
        {"seed": 1},
    ],
)
def test_whatever_the_recipe_changes_is_another_trial(changes):
    trial = spec("select", DIGITS, Variant(), {"epochs": 3})
    assert replace(trial, **changes).description() != trial.description()


def test_names_for_the_page_and_places_on_disk_do_not_count(tmp_path):
    trial = spec("select", DIGITS, Variant())
    other = replace(trial, data="C", variant_name="V", folder=tmp_path, work=tmp_path)
    assert other.description() == trial.description()


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="no kind of trial 'magic'; there are examples"):
        compute(spec("magic", DIGITS, Variant()))


def test_values_are_rounded_to_six_digits_and_ready_for_json():
    value = {"a": np.float64(1 / 3), "b": [math.inf, math.nan], 3: np.arange(2), "c": "text"}
    assert plain(value) == {"a": 0.333333, "b": [None, None], "3": [0, 1], "c": "text"}


def test_a_trial_has_the_noise_of_its_seed():
    first, again = (spec("select", DIGITS, Variant()).sample() for _ in range(2))
    assert np.array_equal(first.label, again.label)
    assert (first.label != first.truth).mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("name", "kind"), [("spr", SPR), ("paper", PaperKnockoffsSPR)])
def test_a_variant_names_its_selector_and_parameters(name, kind):
    selector = selector_of(spec("select", DIGITS, Variant(name, {"min_class_size": 3})))
    assert type(selector) is kind
    assert selector.min_class_size == 3
    assert selector.random_state == 0


def test_principal_components_keep_distances_in_the_leading_directions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 9)) + 5
    reduced = principal(X, 4)
    assert reduced.shape == (30, 4)
    assert np.linalg.norm(reduced[0] - reduced[1]) == pytest.approx(np.linalg.norm(X[0] - X[1]))


def test_examples_show_the_images_behind_the_features(folder):
    variant = Variant("spr", {"clean_ratio": 0.8})
    trial = spec("examples", FEATURES, variant, {"shown": 3}, folder=folder)
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


@pytest.fixture(scope="module")
def solved():
    return compute(spec("path", MORE_DIGITS, Variant("spr"), {"per_class": 8, "steps": 12}))


def test_the_path_has_a_norm_for_every_row_at_every_level(solved):
    norms = np.array(solved["norms"])
    assert norms.shape == (80, 12) == (len(solved["wrong"]), len(solved["lams"]))
    # Shifts grow as the penalty falls.
    assert np.all(norms[:, -1] >= norms[:, 0])
    assert 0 < sum(solved["wrong"]) < 80


def test_wrong_labels_leave_zero_at_larger_penalties(solved):
    wrong, entered = np.array(solved["wrong"]), np.array(solved["norms"]) > 0
    assert entered[wrong].sum(axis=1).mean() > entered[~wrong].sum(axis=1).mean() + 1


def test_every_piece_has_a_median_irrepresentable_value():
    variant = Variant("spr", {"samples_per_class": 20})
    found = compute(spec("theory", MORE_DIGITS, variant))
    assert len(found["medians"]) >= 2
    assert found["median"] == pytest.approx(np.median(found["medians"]), rel=1e-5)
    assert 0 <= found["fsr"] <= 1
