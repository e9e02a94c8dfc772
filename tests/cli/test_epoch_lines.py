"""Lines of epochs."""

from dataclasses import replace

import pytest

from kspr.cli._epoch_lines import EpochLines, epoch_line, time_left
from kspr.core.metrics import SelectionQuality

pytest.importorskip("torch", reason="torch is not installed")
from kspr.train.metrics import Epoch

FIRST = Epoch(
    epoch=1,
    loss=1.25,
    reference_loss=None,
    rate=0.05,
    accuracy=0.91,
    accuracy_average=0.93,
    reference_accuracy=None,
    reference_accuracy_average=None,
    held_out=0.87,
    reference_held_out=None,
    kept=0.892,
    used=0.892,
    q_reached=0.098,
    q_spread=None,
    quality=None,
    notes=("a message",),
    seconds=10.0,
    select_seconds=1.0,
)


def test_a_line_has_what_people_watch():
    assert epoch_line(FIRST, 95) == (
        "epoch   1  accuracy 91.0%  averaged 93.0%  held-out labels 87.0%  kept 89.2%  "
        "FSR (estimated) 9.8%  loss 1.250  10.0 s (10% selecting)  2 min left"
    )


def test_what_was_not_measured_is_left_out_and_the_truth_is_named():
    bare = replace(FIRST, accuracy=None, accuracy_average=None, held_out=None, q_reached=None)
    assert epoch_line(bare, 0).startswith("epoch   1  kept 89.2%  loss")
    known = epoch_line(replace(bare, quality=SelectionQuality(0.05, 0.9, 0.92)), 0)
    assert "FSR 5.0%  recall 90.0%" in known


def test_the_time_left_is_that_of_the_epochs_before(capsys):
    lines = EpochLines(5)
    lines(FIRST)
    lines(replace(FIRST, epoch=2, seconds=20.0, notes=()))
    lines(replace(FIRST, epoch=5, notes=()))
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("40 s left")
    assert said[1].strip() == "a message"
    assert said[2].endswith("45 s left")
    assert said[3].endswith("done")


def test_a_resumed_run_counts_the_epochs_that_are_left(capsys):
    EpochLines(10)(replace(FIRST, epoch=9))
    assert "10 s left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "done"), (-1, "done"), (0.2, "1 s left"), (59, "59 s left"), (3601, "1 h 0 min left")],
)
def test_time_is_said_in_words(seconds, words):
    assert time_left(seconds) == words
