"""What a recipe would run."""

import sys

import pytest

from kspr.errors import MissingExtraError
from kspr.experiments.reproduce.planning import list_recipes, plan, trial_fingerprint
from kspr.experiments.reproduce.recipes import SCALES, load_recipe, recipe_names
from kspr.experiments.reproduce.running import reproduce
from tests.experiments.reproduce.samples import QUICK


def test_another_seed_data_or_code_is_another_trial(monkeypatch):
    first, *_ = plan(QUICK, "smoke", seeds=2)
    names = {trial_fingerprint(spec) for spec in plan(QUICK, "smoke", seeds=2)}
    assert len(names) == 2 * len(plan(QUICK, "smoke"))
    assert trial_fingerprint(first) not in {trial_fingerprint(spec) for spec in plan(QUICK, "mini")}
    before = trial_fingerprint(first)
    monkeypatch.setattr("kspr.experiments.fingerprint.code_digest", lambda *_, **__: "other")
    assert trial_fingerprint(first) != before


def test_a_trial_of_a_method_depends_on_its_own_rule_only(monkeypatch):
    from kspr.experiments import fingerprint

    recipe = load_recipe("table1")
    own = {s.variant_name: s for s in plan(recipe, "smoke") if s.kind == "method"}
    before = {name: trial_fingerprint(spec) for name, spec in own.items()}
    digest = fingerprint.code_digest

    def changed(*modules, **rest):
        return digest(*modules, **rest) + (
            "!" if "kspr.experiments.baselines.small_loss" in modules else ""
        )

    monkeypatch.setattr(fingerprint, "code_digest", changed)
    after = {name: trial_fingerprint(spec) for name, spec in own.items()}
    assert after["GCE"] == before["GCE"]
    assert after["Co-teaching"] != before["Co-teaching"]


def test_seeds_come_one_after_the_other():
    seeds = [spec.seed for spec in plan(QUICK, "smoke", seeds=3)]
    assert seeds == sorted(seeds)
    assert set(seeds) == {0, 1, 2}


def test_settings_of_a_data_set_override_those_of_the_scale():
    specs = plan(load_recipe("table1"), "smoke")
    for spec in specs:
        own = load_recipe("table1").scale("smoke").data[spec.data].get("settings", {})
        assert own.items() <= spec.settings.items()
        assert "settings" not in spec.source


def test_a_variant_that_is_read_from_another_is_not_run():
    recipe = load_recipe("table6")
    read = {name for name, variant in recipe.variants.items() if variant.of}
    assert read
    assert read.isdisjoint(spec.variant_name for spec in plan(recipe, "smoke"))


def test_the_list_has_every_recipe_at_every_scale_with_what_it_lacks(tmp_path):
    listed = list_recipes(tmp_path)
    assert [entry.name for entry in listed] == list(recipe_names())
    for entry in listed:
        assert [scale.name for scale in entry.scales] == list(SCALES)
        assert entry.scales[0].state == "can be run here"
        assert entry.scales[0].trials == len(plan(load_recipe(entry.name), "smoke"))
        assert entry.scales[2].state.startswith("needs ")


def test_a_recipe_whose_packages_are_missing_says_so_before_it_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    states = {entry.name: entry.scales[0].state for entry in list_recipes(tmp_path)}
    assert states["table1"] == "needs torch"
    assert states["table5"] == "can be run here"
    with pytest.raises(MissingExtraError, match=r"table1 at scale smoke needs .*pip install"):
        reproduce(load_recipe("table1"), "smoke", tmp_path, jobs=2)
    assert not list(tmp_path.iterdir())
