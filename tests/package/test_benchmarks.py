"""The helpers of the benchmarks: stored trials, and the migration of stored results."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import _trials

    return _trials


@pytest.fixture
def migrate(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import migrate

    return migrate


def square(x: int) -> dict:
    return {"x": x, "square": x * x}


def test_trials_are_stored_one_line_each(trials, tmp_path):
    path = tmp_path / "deep" / "trials.jsonl"
    assert trials.read_trials(path) == []
    trials.run_trials(square, [(2,), (3,)], path, workers=1)
    trials.add_trial(path, {"x": 4})
    found = trials.read_trials(path)
    assert sorted(trial["x"] for trial in found) == [2, 3, 4]
    assert len(path.read_text().splitlines()) == 3


def test_keys_are_renamed_everywhere_and_once(migrate, tmp_path):
    folder = tmp_path / "reproduced"
    folder.mkdir()
    old = {"cells": [{"values": {"handed_over": "cycle"}}], "name": "cells"}
    (folder / "a.json").write_text(json.dumps(old))
    (tmp_path / "b.jsonl").write_text('{"handed_over": 1}\n{"other": 2}\n')
    assert len(migrate.rename_keys(tmp_path)) == 2
    new = {"trials": [{"values": {"model_choice": "cycle"}}], "name": "cells"}
    assert json.loads((folder / "a.json").read_text()) == new
    lines = (tmp_path / "b.jsonl").read_text().splitlines()
    assert lines == ['{"model_choice": 1}', '{"other": 2}']
    assert migrate.rename_keys(tmp_path) == []


def entries(migrate, value=1.5, most=2):
    return [
        {"kind": kind, "trial": f"trial {k}", "values": {"handed_over": [value, k]}}
        for kind in migrate.REQUIRED
        for k in range(most)
    ]


def comparison(migrate, tmp_path, before, after):
    for name, content in (("before", before), ("after", after)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return migrate.compared(tmp_path / "before.json", tmp_path / "after.json")


def test_equal_trials_of_every_kind_are_accepted(migrate, tmp_path):
    before = entries(migrate)
    rows = comparison(migrate, tmp_path, before, migrate.renamed(before))
    assert migrate.objections(rows) == []
    assert {row["values"] for row in rows} == {2}


def test_a_value_that_differs_or_a_kind_that_is_missing_is_refused(migrate, tmp_path):
    before = entries(migrate)
    other = [{**before[0], "values": {"handed_over": [1.6, 0]}}, *before[1:]]
    found = migrate.objections(comparison(migrate, tmp_path, before, other))
    assert any("values differ" in reason for reason in found)
    rows = comparison(migrate, tmp_path, before, entries(migrate, most=1))
    assert len(migrate.objections(rows)) == len(migrate.REQUIRED)


def test_what_many_machines_take_follows_from_what_one_worker_took(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import _clusters_page as page

    names = (*page.PER_ROW, *page.MERGED, "reduce_rows", "join")
    tasks = {name: [16, 0.5, 0.1] for name in names}
    passes = [{"name": "look", "bytes": 1000}, {"name": "fit_part", "bytes": 10**9}]
    line = {"rows": 1_000_000, "tasks": {**tasks, "fit_scores": [2, 3.0, 2.0]}, "passes": passes}
    forecast = page.Forecast(line, 32)
    assert forecast.work == pytest.approx(7 * 0.5 * 100 / 32)
    assert forecast.fit == pytest.approx(0.5 + 2.0 + 0.5)
    assert forecast.merging == pytest.approx(4 * 0.5 * 100)
    assert forecast.state_bytes == 100_000
    parts = forecast.work + forecast.fit + forecast.merging + forecast.travel
    assert forecast.total == pytest.approx(parts)
    assert (page.size(1.5e6), page.size(12), page.duration(90)) == ("1.5 MB", "12 bytes", "90.0 s")
