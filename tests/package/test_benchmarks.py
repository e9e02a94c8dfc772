"""Benchmarks: every script runs on small data, and stored results carry their stamp."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
OF_OTHERS = {"clusters": "distributed", "review": "playwright", "screenshots": "playwright"}
"""Packages that a script needs, and that may be missing here."""


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("_common")


def test_every_script_of_the_makefile_is_there():
    named = re.findall(r"benchmarks/(\w+)\.py", (ROOT / "Makefile").read_text())
    assert set(named) <= set(SCRIPTS)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(s, marks=[pytest.mark.browser] * (OF_OTHERS.get(s) == "playwright"))
        for s in SCRIPTS
    ],
)
def test_a_benchmark_runs_on_small_data_and_keeps_nothing(script, tmp_path):
    pytest.importorskip(OF_OTHERS.get(script, "numpy"))
    # One thread: two workers of tests would wait for each other's.
    quiet = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    before = contents()
    done = subprocess.run(
        [sys.executable, FOLDER / f"{script}.py", "--smoke"],
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert contents() == before


def contents() -> dict[Path, bytes]:
    folders = (FOLDER / "results", ROOT / "docs")
    files = (file for folder in folders for file in folder.glob("*.*") if file.is_file())
    return {file: file.read_bytes() for file in files}


def test_a_benchmark_names_the_files_that_it_measures(monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.syspath_prepend(FOLDER)
    stale = importlib.import_module("stale")
    stale.import_all()
    for bench in stale.BENCHES:
        assert bench.files
        assert [file for file in bench.files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("script", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_a_benchmark_uses_public_names_only(script):
    text = (FOLDER / f"{script}.py").read_text()
    assert re.findall(r"kspr[\w.]*\._\w+|from kspr[\w.]* import _\w+|\bpatch\(", text) == []


@pytest.fixture
def store(common, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path / "deep")
    return common.Store("trials")


def test_a_stored_trial_carries_commit_date_and_machine(store):
    assert store.trials() == []
    store.add({"name": "a", "value": 1})
    store.add({"name": "b", "value": 2})
    store.add({"name": "a", "value": 3}, ["name"])
    assert [(t["name"], t["value"]) for t in store.trials()] == [("b", 2), ("a", 3)]
    assert len(store.path.read_text().splitlines()) == 2
    for trial in store.trials():
        assert {"commit", "date", "machine"} <= set(trial)
        assert {"cpu", "cores", "versions"} <= set(trial["machine"])


def test_measuring_again_keeps_only_results_of_this_commit(common, store, tmp_path, monkeypatch):
    store.add({"name": "new"})
    old = '{"name": "old", "commit": "0"}\n{"name": "older"}\n'
    store.path.write_text(old + store.path.read_text())
    page, given = tmp_path / "page.md", []
    page.write_text("<!-- measured by `make it` -->\n")
    bench = common.Bench("make it", page, (store,), lambda: "| 1 |", given.append, shared=False)
    common.BENCHES.remove(bench)
    monkeypatch.setattr(sys, "argv", ["script", "--again"])
    bench.run("Measure.")
    assert list(store.named()) == ["new"]
    assert given[0].again
    assert "\n| 1 |\n\nMeasured 20" in page.read_text()


def test_a_page_without_the_mark_is_named(common, tmp_path):
    bench = common.Bench("make it", tmp_path / "page.md", (), lambda: {"a": "1"})
    common.BENCHES.remove(bench)
    with pytest.raises(ValueError, match=r"page\.md has no mark <!-- measured by `make it`: when"):
        bench.filled("text")


def square(x: int) -> dict:
    return {"x": x, "square": x * x}


def test_trials_of_processes_are_stored(store):
    store.run(square, [(2,), (3,)], workers=1)
    assert sorted(trial["square"] for trial in store.trials()) == [4, 9]


def test_a_page_says_when_and_where_its_numbers_were_measured(common):
    machine = {"cpu": "A", "cores": 2}
    new = {"commit": "abc", "date": "2026-11-20T10:00:00+00:00", "machine": machine}
    assert common.measured_when([new]) == "Measured 2026-11-20 at abc (A, 2 cores)."
    old = {"date": "2026-11-16T10:00:00+00:00"}
    mixed = "Measured 2026-11-16 to 2026-11-20 at abc (1 of 2 results before stamps) (A, 2 cores)."
    assert common.measured_when([new, old]) == mixed
    assert common.measured_when([{}]) == "Measured before stamps, at no stored commit."


def test_a_page_is_stale_where_measured_files_have_changed(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    stale = importlib.import_module("stale")
    monkeypatch.setattr(stale, "changes", lambda commit, files: {"old": 2, "new": 0}.get(commit))
    files = ("src/kspr/core",)
    assert stale.state([{"commit": "new"}], files) == ""
    assert stale.state([{"commit": "new"}, {"commit": "old"}], files).startswith("2 commits")
    assert stale.state([{}, {"commit": None}, {"commit": "new"}], files) == "2 of 3 before stamps"
    assert stale.state([{"commit": "gone"}], files) == "gone: unknown here"


def test_a_forecast_for_many_machines_follows_from_one_worker(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    clusters = importlib.import_module("clusters")
    tasks = {"look": [16, 0.5, 0.1], "judge": [16, 1.5, 0.1], "fit": [2, 3.0, 2.0]}
    each, rest = clusters.split_work({"rows": 1_000_000, "tasks": tasks})
    assert each == pytest.approx(2e-6)
    assert rest == 2.0
    assert (clusters.size(1.5e6), clusters.size(12)) == ("1.5 MB", "12 bytes")


def test_every_stored_line_is_json():
    for path in (FOLDER / "results").glob("*.jsonl"):
        assert all(isinstance(json.loads(line), dict) for line in path.read_text().splitlines())
