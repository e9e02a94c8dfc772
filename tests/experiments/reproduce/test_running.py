"""Trials planned and run: the same answer in one sitting or many, by one process or two."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from kspr.errors import InputError, MissingExtraError
from kspr.experiments.reproduce import running
from kspr.experiments.reproduce.recipes import SCALES, load_recipe, recipe_names
from kspr.experiments.reproduce.rendering import render_markdown
from kspr.experiments.reproduce.running import reproduce
from kspr.experiments.reproduce.trials import Part, forecast, list_recipes, plan
from tests.experiments.reproduce.samples import QUICK, values


def test_two_jobs_give_the_answer_of_one(once, tmp_path):
    assert values(reproduce(QUICK, "smoke", tmp_path, jobs=2)) == values(once)


@pytest.mark.slow
def test_training_does_not_depend_on_the_number_of_jobs(tmp_path):
    recipe = load_recipe("table3")
    one, two = (reproduce(recipe, "smoke", tmp_path / str(n), jobs=n) for n in (1, 2))
    assert values(one) == values(two)


def test_a_killed_run_goes_on_with_what_is_missing(once, tmp_path):
    code = (
        "from pathlib import Path; from kspr.experiments.reproduce.recipes import load_recipe\n"
        "from kspr.experiments.reproduce.running import reproduce\n"
        f"reproduce(load_recipe('figure4'), 'smoke', Path({str(tmp_path)!r}))"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while len(list(tmp_path.glob("trials/*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trials/[!.]*.json")}
    assert kept
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_second_run_computes_nothing(tmp_path, monkeypatch):
    first = reproduce(QUICK, "smoke", tmp_path)
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("was computed again"))
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(first)


def test_a_stored_result_goes_on_without_the_files_of_its_trials(tmp_path, monkeypatch):
    first = reproduce(QUICK, "smoke", tmp_path)
    for path in tmp_path.glob("trials/*.json"):
        path.unlink()
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("was computed again"))
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(first)


def test_a_changed_recipe_is_run_again(tmp_path, monkeypatch):
    reproduce(QUICK, "smoke", tmp_path)
    variants = dict(QUICK.variants)
    variants["2 classes"] = replace(variants["2 classes"], selection={"classes_per_group": 4})
    asked = []

    def compute(spec):
        asked.append(spec.variant_name)
        return {"fsr": 0.0}

    monkeypatch.setattr(running, "compute", compute)
    reproduce(replace(QUICK, variants=variants), "smoke", tmp_path)
    assert asked == ["2 classes"]


def test_again_runs_the_trials_of_another_commit_anew(once, tmp_path, monkeypatch):
    def run(commit, **given):
        monkeypatch.setattr(running, "source_commit", lambda: commit)
        result = reproduce(QUICK, "smoke", tmp_path, **given)
        return {trial.commit for trial in result.trials}, result

    assert run("aaa")[0] == {"aaa"}
    kept, result = run("bbb")
    assert kept == {"aaa"}
    assert len(result.older) == 6
    kept, result = run("bbb", again=True)
    assert kept == {"bbb"}
    assert result.older == ()
    assert values(result) == values(once)
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("was computed again"))
    assert run("bbb", again=True)[0] == {"bbb"}
    with pytest.raises(pytest.fail.Exception, match="computed again"):
        run("bbb-changed", again=True)


def test_a_long_trial_is_continued_by_the_code_that_began_it_only(tmp_path, monkeypatch):
    works = []

    def compute(spec):
        works.append(spec.work)
        assert "checkpoints" not in spec.settings
        return {"fsr": 0.0}

    monkeypatch.setattr(running, "compute", compute)
    settings = {"checkpoints": True}
    scales = {"smoke": replace(QUICK.scale("smoke"), settings=settings, variants=("2 classes",))}
    for commit in ("aaa", "bbb"):
        monkeypatch.setattr(running, "source_commit", lambda commit=commit: commit)
        reproduce(replace(QUICK, scales=scales), "smoke", tmp_path, again=True)
    assert len(set(works)) == 2
    assert all(work.parent == tmp_path / "trials" for work in works)


def test_trials_of_before_descriptions_were_stored_are_run_again(once, tmp_path):
    reproduce(QUICK, "smoke", tmp_path)
    path = tmp_path / "figure4-smoke.json"
    stored = json.loads(path.read_text())
    for trial in stored["trials"]:
        del trial["description"]
    path.write_text(json.dumps(stored))
    shutil.rmtree(tmp_path / "trials")
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)


def test_a_trial_that_was_cut_off_is_run_again(once, tmp_path):
    reproduce(QUICK, "smoke", tmp_path)
    damaged = sorted(tmp_path.glob("trials/*.json"))[0]
    damaged.write_text(damaged.read_text()[:40])
    (tmp_path / "figure4-smoke.json").unlink()
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)


def test_more_seeds_add_trials_and_keep_the_others(once, tmp_path):
    more = reproduce(QUICK, "smoke", tmp_path, seeds=2)
    assert values(more)[: len(once.trials)] == values(once)
    estimate = more.estimate(None, "Sym. 40 %", "10 classes", "fsr")
    assert estimate.seeds == 2
    assert estimate.spread > 0


def test_an_interrupt_says_how_to_go_on(tmp_path, monkeypatch):
    done = []

    def compute(*_):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return {"fsr": 0.0}

    monkeypatch.setattr(running, "compute", compute)
    with pytest.raises(KeyboardInterrupt, match=r"1 of 6 trials were run and are kept"):
        reproduce(QUICK, "smoke", tmp_path)


def test_data_that_is_not_here_is_named_in_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"table2 at scale mini cannot be run: webvision-mini is "):
        reproduce(load_recipe("table2"), "mini", tmp_path, folder=tmp_path)
    with pytest.raises(InputError, match="jobs must be 1 or more"):
        reproduce(QUICK, "smoke", tmp_path, jobs=0)


def test_a_trial_that_cannot_run_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    def compute(spec):
        if spec.variant_name == "5 classes":
            raise InputError("five is too many.")
        return {"fsr": 0.5}

    monkeypatch.setattr(running, "compute", compute)
    result = reproduce(QUICK, "smoke", tmp_path)
    assert len(result.trials) == 5
    name = "5 classes on CIFAR-10, Sym. 40 %, seed 0"
    assert result.failed == {name: "five is too many."}
    assert f"{name} could not be run: five is too many." in render_markdown(result)
    # It is not stored: the next call tries it again.
    monkeypatch.setattr(running, "compute", lambda _: {"fsr": 0.25})
    again = reproduce(QUICK, "smoke", tmp_path)
    assert (len(again.trials), again.failed) == (6, {})


def test_features_that_cannot_be_computed_stop_only_the_trials_that_need_them(
    tmp_path, monkeypatch
):
    def broken(*_):
        raise InputError("there is no embedder.")

    monkeypatch.setattr(running, "prepare", broken)
    assert len(reproduce(QUICK, "smoke", tmp_path).trials) == 6


def test_a_recipe_of_which_no_trial_can_run_is_an_error(tmp_path, monkeypatch):
    def compute(_):
        raise RuntimeError("no memory")

    monkeypatch.setattr(running, "compute", compute)
    with pytest.raises(InputError, match=r"No trial of figure4 .*: RuntimeError: no memory"):
        reproduce(QUICK, "smoke", tmp_path)


def test_the_linear_model_of_table_1_learns_from_features_where_others_see_images(folder):
    specs = plan(load_recipe("table1"), "paper", folder=folder)
    for spec in specs:
        linear = spec.variant_name == "Logistic regression"
        assert spec.source["source"] == ("features" if linear else "images")
    (linear,) = [s for s in specs if s.variant_name == "Logistic regression"][:1]
    values = running.compute(replace(linear, data="CIFAR-10", noise="Sym. 40 %"))
    assert 0 < values["accuracy"] <= 1


def test_a_part_runs_what_was_asked_for_and_shows_all_that_is_stored(once, tmp_path):
    part = Part(methods=("2 classes", "5 classes"))
    assert {t.variant for t in reproduce(QUICK, "smoke", tmp_path, part=part).trials} == {
        "2 classes",
        "5 classes",
    }
    other = reproduce(QUICK, "smoke", tmp_path, part=Part(methods=("10 classes",)))
    assert len(other.trials) == 3
    assert "3 of 6 trials are stored" in render_markdown(other)
    assert values(reproduce(QUICK, "smoke", tmp_path)) == values(once)


def test_shards_share_the_trials_without_overlap_and_merge_in_one_folder(once, tmp_path):
    both = tmp_path / "both"
    for shard in ("1/2", "2/2"):
        out = tmp_path / shard[0]
        assert len(reproduce(QUICK, "smoke", out, part=Part(shard=shard)).trials) == 3
        shutil.copytree(out, both, dirs_exist_ok=True)
    nothing = Part(methods=("2 classes",))
    assert values(reproduce(QUICK, "smoke", both, part=nothing)) == values(once)


def test_a_part_is_named_as_in_the_table():
    recipe = load_recipe("table6")
    specs = plan(recipe, "mini")
    rows = {spec.variant_name for spec in Part(("Knockoffs-SPR - EMA",)).of(specs, recipe)}
    assert rows == {"Knockoffs-SPR"}
    assert {s.noise for s in Part(noises=("Asy. 40 %",)).of(specs, recipe)} == {"Asy. 40 %"}
    with pytest.raises(InputError, match=r"methods must be one of .*'Knockoffs-SPR'.*, got 'ours'"):
        Part(("ours",)).of(specs, recipe)
    for wrong in ("0/2", "3/2", "a/b", "3"):
        with pytest.raises(InputError, match="shard must be K/N with K from 1 to N"):
            Part(shard=wrong).of(specs, recipe)


def test_the_time_is_told_before_a_long_run_by_stored_trials(tmp_path, monkeypatch, capsys):
    reproduce(QUICK, "smoke", tmp_path, seeds=1)
    for path in tmp_path.glob("trials/*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "seconds": 120.0}))
    (tmp_path / "figure4-smoke.json").unlink()
    said = []
    monkeypatch.setattr(running, "compute", lambda _: said.append(capsys.readouterr().err) or {})
    reproduce(QUICK, "smoke", tmp_path, seeds=2)
    expected = "figure4 smoke: 6 trials to run, about 12 minutes with 1 at a time, by the seconds"
    assert said[0].startswith(f"{expected} of 6 stored trials.")


def test_without_stored_trials_the_first_one_tells_the_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(running, "_PATIENCE", 0.0)
    reproduce(QUICK, "smoke", tmp_path)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("figure4 smoke: 5 trials to run, about ")
    assert line.endswith("by the seconds of the first trial.")


def test_a_forecast_counts_each_trial_like_those_of_its_method_and_data():
    first, second, *_ = plan(QUICK, "smoke")
    assert forecast([first, first], [(first, 3.0)]) == 6.0
    assert forecast([first, second], [(first, 3.0)]) == 6.0
    assert forecast([first, second], [(first, 3.0), (second, 1.0)]) == 4.0


def test_devices_are_shared_by_the_jobs_and_do_not_change_the_trial(tmp_path, monkeypatch):
    recipe = load_recipe("table3")
    used = []
    monkeypatch.setattr(running, "compute", lambda spec: used.append(spec.device) or {})
    monkeypatch.setattr(running, "_worker_number", lambda: len(used))
    monkeypatch.setattr(running, "_finished", lambda work, _: (running._run_one(*w) for w in work))
    two = reproduce(recipe, "smoke", tmp_path, devices=("cpu", "cpu:0"))
    assert used == ["cpu", "cpu:0", "cpu", "cpu:0", "cpu"]
    assert two.trials[1].machine.endswith(" cores, cpu:0")
    reproduce(recipe, "smoke", tmp_path)
    assert len(used) == 5


def test_devices_must_be_there_and_of_use(tmp_path):
    with pytest.raises(InputError, match="device 'cuda:77' is not there"):
        reproduce(load_recipe("table3"), "smoke", tmp_path, devices=("cuda:77",))
    with pytest.raises(InputError, match="device goes with recipes that train networks; figure4"):
        reproduce(QUICK, "smoke", tmp_path, devices=("cpu",))
    with pytest.raises(InputError, match="jobs must be 2 or more, got 1: a device needs a job"):
        reproduce(load_recipe("table3"), "smoke", tmp_path, jobs=1, devices=("cpu", "cpu"))


def test_weights_that_are_not_here_are_missed_before_anything_is_read(tmp_path, monkeypatch):
    recipe = load_recipe("table3")
    settings = {**recipe.scale("smoke").settings, "weights": "resnet50.pt"}
    scales = {"smoke": replace(recipe.scale("smoke"), settings=settings)}
    monkeypatch.setattr(running, "compute", lambda *_: pytest.fail("has begun"))
    with pytest.raises(InputError, match=r"There is no file resnet50\.pt in "):
        reproduce(replace(recipe, scales=scales), "smoke", tmp_path)


WORKER = """
import os, sys, time
from kspr.experiments.reproduce.running import _begin_worker
_begin_worker(os.getppid())
print("begun", flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_worker_ends_with_its_parent_even_if_that_is_killed():
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, WORKER], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout.readline() == "begun\n"
    parent.kill()
    # The worker holds the other end of the pipe: it is closed when both have ended.
    rest, _ = parent.communicate(timeout=60)
    assert rest == ""


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
    places = [(name, scale) for name in recipe_names() for scale in SCALES]
    assert [(entry.recipe, entry.scale) for entry in listed] == places
    for entry in listed:
        if entry.scale == "smoke":
            assert entry.state == "can be run here"
            assert entry.trials == len(plan(load_recipe(entry.recipe), "smoke"))
        if entry.scale == "paper":
            assert entry.state.startswith("needs ")


def test_a_recipe_whose_packages_are_missing_says_so_before_it_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", None)
    states = {(entry.recipe, entry.scale): entry.state for entry in list_recipes(tmp_path)}
    assert states["table1", "smoke"] == "needs torch"
    assert states["table5", "smoke"] == "can be run here"
    with pytest.raises(MissingExtraError, match=r"table1 at scale smoke needs .*pip install"):
        reproduce(load_recipe("table1"), "smoke", tmp_path, jobs=2)
    assert not list(tmp_path.iterdir())
