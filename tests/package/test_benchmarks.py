"""The helpers of the benchmarks: stored trials, and what a change of the code leaves valid."""

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
def restamp(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import restamp

    return restamp


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


def test_trials_of_changed_code_are_stamped_where_their_values_are_equal(
    restamp, tmp_path, monkeypatch
):
    """Seed 0 is the quickest of each variant; that of SPR has other values now."""
    trials = [
        {
            "data": "CIFAR-10",
            "noise": "Sym. 40 %",
            "variant": variant,
            "seed": seed,
            "seconds": 1.0 + seed,
            "values": {"accuracy": 0.5},
            "fingerprint": "old",
            "source": "old",
        }
        for variant in ("Standard", "SPR", "kspr default")
        for seed in (0, 1)
    ]
    path = tmp_path / "table1-smoke.json"
    path.write_text(json.dumps({"recipe": "table1", "scale": "smoke", "trials": trials}))
    monkeypatch.setattr(restamp, "ProcessPoolExecutor", InThisProcess)
    asked = []

    def compute(spec):
        asked.append((spec.variant_name, spec.seed))
        return {"accuracy": 0.4 if spec.variant_name == "SPR" else 0.5}

    monkeypatch.setattr(restamp, "compute", compute)
    rows = restamp.restamp(path, ROOT, {"kspr default"}, 1)
    assert asked == [("Standard", 0), ("SPR", 0)]
    assert [row["equal"] for row in rows] == [True, False]
    found = json.loads(path.read_text())["trials"]
    assert [trial["fingerprint"] == "old" for trial in found] == [False] * 2 + [True] * 4
    assert len({trial["fingerprint"] for trial in found[:2]}) == 2
    assert [trial["values"] for trial in found] == [trial["values"] for trial in trials]
    # Stamped trials are of the code of now: only the other one is compared again.
    asked.clear()
    restamp.restamp(path, ROOT, {"kspr default"}, 1)
    assert asked == [("SPR", 0)]


class InThisProcess:
    """In the place of a pool of processes, which would not see what a test has replaced."""

    def __init__(self, jobs, max_tasks_per_child):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def map(self, function, values):
        return map(function, values)


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
