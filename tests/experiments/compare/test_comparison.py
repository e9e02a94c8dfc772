"""The result of a comparison: printed, stored and drawn, and the file to continue from."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kspr.experiments.compare import comparison
from kspr.experiments.compare.comparison import (
    TrialLog,
    comparison_figure,
    spread,
    write_comparison,
)
from tests.experiments.compare.samples import FEW


def test_the_table_names_who_was_told(found):
    text = str(found)
    assert "small-loss*" in text
    assert "* is told the true share of wrong labels" in text
    assert "accuracy" in text
    assert json.loads(json.dumps(found.to_dict()))["trials"][2]["method"] == "kspr"


def test_the_table_has_no_column_for_a_test_that_was_not_made(found):
    untested = replace(found, trials=tuple(replace(t, accuracy=None) for t in found.trials))
    assert "accuracy" not in str(untested)


def test_a_trial_is_found_by_the_name_of_its_method(found):
    assert found["neighbours"].method == "neighbours"
    with pytest.raises(KeyError, match="magic"):
        found["magic"]


def test_a_log_gives_back_the_trials_of_the_same_conditions_only(found, tmp_path):
    path, trial = tmp_path / "deep" / "trials.json", found["kspr"]
    log = TrialLog(path, "q 0.1")
    log.add(log.key("kspr", None), trial)
    again = TrialLog(path, "q 0.1")
    assert again.find(again.key("kspr", None)) == trial
    assert again.find(again.key("kspr", "other settings")) is None
    other = TrialLog(path, "q 0.2")
    assert other.find(other.key("kspr", None)) is None


def test_a_trial_of_another_version_is_run_again_and_the_others_stay(found, tmp_path):
    path = tmp_path / "trials.json"
    log = TrialLog(path, "same")
    log.add("a", found["kspr"])
    path.write_text(json.dumps({**json.loads(path.read_text()), "b": {"old": 1}}))
    again = TrialLog(path, "same")
    assert again.find("a") == found["kspr"]
    assert again.find("b") is None


def test_without_a_file_nothing_is_stored(found):
    log = TrialLog(None, "same")
    log.add("a", found["kspr"])
    assert TrialLog(None, "same").find("a") is None


def test_names_in_a_figure_keep_order_and_distance():
    wanted = np.array([0.9, 0.1, 0.9, 0.91, 0.5])
    heights = spread(wanted, 0.1)
    assert np.diff(np.sort(heights)).min() >= 0.1 - 1e-9
    assert heights.min() >= 0
    assert heights.max() <= 1
    assert np.all(np.diff(heights[np.argsort(wanted, kind="stable")]) > 0)
    assert heights[1] == pytest.approx(0.1)


def test_the_figure_shows_every_method(found):
    drawn = comparison_figure(found)
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    for name in FEW:
        assert name in drawn
    assert "oracle" not in drawn


def test_json_and_figure_are_written_beside_each_other(found, tmp_path):
    command = ("kspr", "compare", "a file.npz")
    data, picture = write_comparison(found, tmp_path / "out", command)
    stored = json.loads(data.read_text())
    assert stored["command"] == "kspr compare 'a file.npz'"
    assert [trial["method"] for trial in stored["trials"]] == [t.method for t in found.trials]
    assert picture.read_text() == comparison_figure(found)


def test_without_matplotlib_the_json_is_written_all_the_same(found, tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "is_installed", lambda _: False)
    assert write_comparison(found, tmp_path, ()) == (tmp_path / "comparison.json",)
