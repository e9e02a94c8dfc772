"""`kspr reproduce`: every recipe at the scale smoke, with what it writes."""

import json

import pytest

from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import read_reproduction
from kspr.experiments.reproduce.running import plan
from tests.cli.commands import fails, run

TABLES = [name for name in recipe_names() if load_recipe(name).shows == "table"]


FIGURES = [name for name in recipe_names() if name not in TABLES]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("reproduced")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_runs_at_smoke(name, out, capsys):
    text = run("reproduce", name, "--out", out, capsys=capsys)
    recipe = load_recipe(name)
    found = read_reproduction(out / f"{name}-smoke.json")
    assert len(found.trials) == len(plan(recipe, "smoke"))
    assert text.startswith(f"{recipe.place}: {recipe.title}")
    assert "Scale smoke" in text
    assert "digits" in text or "made data" in text
    page = (out / f"{name}-smoke.md").read_text()
    for claim in recipe.claims:
        assert claim in page
    for rows in recipe.reported.values():
        assert all(entry in page for entries in rows.values() for entry in entries) or (
            name == "table4"  # one noise of three is run at this scale
        )
    if name in FIGURES:
        assert f"({name}-smoke.svg)" in page
        assert (out / f"{name}-smoke.svg").read_text().rstrip().endswith("</svg>")


def test_json_is_the_whole_result(out, capsys):
    answer = json.loads(run("reproduce", "figure4", "--out", out, "--json", capsys=capsys))
    assert answer["recipe"] == "figure4"
    assert len(answer["trials"]) == 6


def test_the_list_names_every_recipe_and_what_it_needs(capsys, tmp_path):
    text = run("reproduce", "--list", "--data", tmp_path, capsys=capsys)
    assert all(f"\n{name}: " in f"\n{text}" for name in recipe_names())
    assert "needs WebVision" in text
    listed = json.loads(run("reproduce", "--list", "--json", capsys=capsys))
    assert [entry["name"] for entry in listed] == list(recipe_names())


def test_slips_end_in_one_sentence(capsys, tmp_path):
    assert "no recipe 'table9'" in fails("reproduce", "table9", capsys=capsys)
    assert "no scale 'huge'" in fails("reproduce", "table1", "--scale", "huge", capsys=capsys)
    assert "Name a recipe" in fails("reproduce", capsys=capsys)
    message = fails("reproduce", "table4", "--scale", "mini", "--data", tmp_path, capsys=capsys)
    assert "cifar10 is not on this machine" in message
