"""The result of a recipe, stored and read back."""

import json

import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import load_recipe
from kspr.experiments.reproduce.reproduction import Reproduction, Trial, read_reproduction
from kspr.experiments.reproduce.running import reproduce
from tests.experiments.reproduce.samples import QUICK, values


def test_the_result_can_be_read_back(once, tmp_path):
    reproduce(QUICK, "smoke", tmp_path, command=("kspr", "reproduce"))
    path = tmp_path / "figure4-smoke.json"
    found = read_reproduction(path)
    assert values(found) == values(once)
    assert found.command == ("kspr", "reproduce")
    assert json.loads(path.read_text())["data"] == {"CIFAR-10": "scikit-learn's digits"}
    with pytest.raises(InputError, match="holds no result"):
        read_reproduction(tmp_path / "none.json")


def test_a_variant_may_be_read_from_anothers_run(tmp_path):
    found = reproduce(load_recipe("table6"), "smoke", tmp_path)
    full = found.of(None, "Sym. 40 %", "Knockoffs-SPR")[0].values
    without = found.estimate(None, "Sym. 40 %", "Knockoffs-SPR - EMA", "accuracy").mean
    assert without == full["accuracy_weights"]


def trial(seed, **values):
    return Trial("CIFAR-10", "Sym. 40 %", "10 classes", seed, values, 1.0, "", "", str(seed))


def result(*trials):
    return Reproduction("figure4", "smoke", (), {}, {"CIFAR-10": "digits"}, {}, trials)


def test_an_estimate_is_the_mean_over_seeds_with_its_standard_error():
    found = result(*(trial(seed, fsr=fsr) for seed, fsr in enumerate((0.1, 0.2, 0.3))))
    estimate = found.estimate(None, "Sym. 40 %", "10 classes", "fsr")
    assert estimate.mean == pytest.approx(0.2)
    assert estimate.spread == pytest.approx(0.1 / 3**0.5)
    assert estimate.seeds == found.seeds == 3
    assert found.seconds == 3.0


def test_one_seed_has_no_standard_error_and_a_missing_measure_no_estimate():
    found = result(trial(0, fsr=0.1, recall=None))
    assert found.estimate(None, "Sym. 40 %", "10 classes", "fsr").spread is None
    assert found.estimate(None, "Sym. 40 %", "10 classes", "recall") is None
    assert found.estimate(None, "Asy. 40 %", "10 classes", "fsr") is None


def test_the_spread_of_q_is_that_over_cut_groups():
    found = result(*(trial(seed, q=0.1, q_spread=0.04) for seed in range(2)))
    assert found.estimate(None, "Sym. 40 %", "10 classes", "q").spread == pytest.approx(0.04)
