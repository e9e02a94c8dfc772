"""States of a long selection: whoever goes on from them gets the same answer."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.selectors import checkpoint
from kspr.selectors.checkpoint import Checkpoint, once, resumable

CONTROLS = ("transition", "exchangeable", "paper")


class StoppedError(Exception):
    """Stands for a process that was killed."""


class Killed(Checkpoint):
    """Ends the process right after a number of states were saved."""

    def __init__(self, *args, after: int, **more):
        super().__init__(*args, **more)
        self._left = after

    def save(self, name, arrays):
        super().save(name, arrays)
        self._left -= 1
        if not self._left:
            raise StoppedError


def columns(selection):
    names = ("clean_mask", "q_value", "statistic", "selection_time", "suggested_label", "cut_group")
    return [getattr(selection, name).tobytes() for name in names]


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("after", [1, 2])
def test_a_selection_goes_on_after_each_pass_with_the_same_bytes(
    digits40, tmp_path, control, after, monkeypatch
):
    model = KnockoffsSPR(q=0.2, control=control)
    whole = columns(model.fit(digits40.X, digits40.y).selection_)
    killed = Killed(tmp_path / "part", "data", patience=0, after=after)
    with pytest.raises(StoppedError), resumable(killed):
        model.fit(digits40.X, digits40.y)
    assert len(list((tmp_path / "part").iterdir())) == after
    # What an earlier start has done is not done again.
    monkeypatch.setattr("kspr.selectors.knockoffs_spr.fit_whole", None)
    if after == 2:
        monkeypatch.setattr("kspr.selectors.knockoffs_spr.judge_rows", None)
    again = Checkpoint(tmp_path / "part", "data", patience=0)
    with resumable(again):
        assert columns(model.fit(digits40.X, digits40.y).selection_) == whole
    again.remove()
    assert not (tmp_path / "part").exists()


def test_sparse_counts_of_anchors_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr("kspr.core.anchors.MANY_CLASSES", 2)
    rng = np.random.default_rng(0)
    code = rng.integers(6, size=600)
    X = 4 * np.eye(6)[code] + rng.standard_normal((600, 6))
    found = []
    for _ in range(2):
        with resumable(Checkpoint(tmp_path / "part", "data", patience=0)):
            found.append(columns(KnockoffsSPR(q=0.1).fit(X, code).selection_))
    assert found[0] == found[1]


def test_states_of_other_data_and_damaged_ones_do_not_count(tmp_path):
    mine = Checkpoint(tmp_path, "mine", patience=0)
    mine.save("fit", {"a": np.arange(3)})
    assert mine.load("fit")["a"].tolist() == [0, 1, 2]
    assert Checkpoint(tmp_path, "other").load("fit") is None
    assert mine.load("judged") is None
    path = tmp_path / "fit.npz"
    path.write_bytes(path.read_bytes()[:50])
    assert mine.load("fit") is None


def test_a_short_selection_leaves_no_files(tmp_path, digits40):
    with resumable(Checkpoint(tmp_path / "part", "data")):
        KnockoffsSPR().fit(digits40.X, digits40.y)
    assert not (tmp_path / "part").exists()
    assert checkpoint._CURRENT.get() is None


def test_without_a_checkpoint_work_is_done_each_time():
    calls = []
    for _ in range(2):
        once("pass", lambda: calls.append(1), dict, dict)
    assert len(calls) == 2


def test_what_cannot_be_packed_is_done_again(tmp_path):
    calls = []
    with resumable(Checkpoint(tmp_path / "part", "data", patience=0)):
        for _ in range(2):
            once("fit", lambda: calls.append(1), lambda _: None, dict)
    assert len(calls) == 2
    assert not (tmp_path / "part").exists()
