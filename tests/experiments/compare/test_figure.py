"""The figure of a comparison."""

import json

import numpy as np
import pytest

from kspr.experiments.compare import figure
from kspr.experiments.compare.figure import comparison_figure, spread, write_comparison
from tests.experiments.compare.samples import FEW


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
    monkeypatch.setattr(figure, "find_spec", lambda _: None)
    assert write_comparison(found, tmp_path, ()) == (tmp_path / "comparison.json",)
