"""`kspr reproduce`: every recipe at the scale smoke, with what it writes."""

import json

import pytest

from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import read_reproduction
from kspr.experiments.reproduce.trials import plan
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
        assert claim.says.replace("*-", "\\*-") in page
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
    assert list(dict.fromkeys(entry["recipe"] for entry in listed)) == list(recipe_names())


def test_slips_end_in_one_sentence(capsys, tmp_path):
    assert "no recipe 'table9'" in fails("reproduce", "table9", capsys=capsys)
    assert "no scale 'huge'" in fails("reproduce", "table1", "--scale", "huge", capsys=capsys)
    assert "Name a recipe" in fails("reproduce", capsys=capsys)
    message = fails("reproduce", "table4", "--scale", "mini", "--data", tmp_path, capsys=capsys)
    assert "cifar10 is not on this machine" in message


def test_a_part_of_a_recipe_can_be_asked_for(capsys, tmp_path):
    asked = ("--methods", "2 classes", "5 classes", "--noises", "Sym. 40 %", "--shard", "1/2")
    text = run("reproduce", "figure4", "--out", tmp_path, *asked, capsys=capsys)
    assert "1 of 6 trials are stored." in text
    assert "shard must be K/N" in fails("reproduce", "figure4", "--shard", "9/8", capsys=capsys)


def test_trials_that_cannot_run_end_with_exit_code_1(capsys, tmp_path, monkeypatch):
    from kspr.experiments.reproduce import running

    def compute(spec):
        if spec.variant_name == "5 classes":
            raise MemoryError("too large")
        return {"fsr": 0.5}

    monkeypatch.setattr(running, "compute", compute)
    message = fails("reproduce", "figure4", "--out", tmp_path, capsys=capsys, code=1)
    assert message == "kspr: 1 trial could not be run; the page says why.\n"
    page = (tmp_path / "figure4-smoke.md").read_text()
    assert "could not be run: MemoryError: too large" in page
