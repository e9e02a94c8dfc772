"""The helpers of the benchmarks: stored trials, and what many machines take."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import _trials

    return _trials


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
