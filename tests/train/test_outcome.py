"""The folder of a training run, read without torch."""

import json

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.train.run_folder import (
    check_out,
    classes_from_json,
    classes_to_json,
    is_training_run,
    read_about,
    read_metrics,
    read_result,
    read_sides,
    write_curves,
    write_sides,
)

LINE = {
    **dict.fromkeys(("accuracy_average", "reference_held_out", "reference_loss", "fsr", "recall")),
    **{"epoch": 1, "accuracy": 0.5, "held_out": 0.4, "kept": 0.6, "f1": None, "q_reached": None},
    "loss": 1.0,
}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.json").write_text(json.dumps({"rows": 3}))
    return tmp_path


@pytest.mark.parametrize(
    "classes",
    [np.array(["ä", "b"]), np.array([1, 5]), np.array([1.5, 2.0]), np.array([True, False])],
)
def test_classes_come_back_from_json_with_their_type(classes):
    found = classes_from_json(json.loads(json.dumps(classes_to_json(classes))))
    assert found.dtype == classes.dtype
    assert np.array_equal(found, classes)


def test_an_unfinished_run_says_how_to_continue(run):
    assert is_training_run(run)
    assert read_about(run) == {"rows": 3}
    with pytest.raises(InputError, match="is not finished; continue it with `kspr train"):
        read_result(run)
    with pytest.raises(InputError, match=r"has no metrics\.jsonl"):
        read_metrics(run)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_damaged_file_is_named(run, content):
    (run / "result.json").write_text(content)
    with pytest.raises(InputError, match=r"result\.json is missing or damaged"):
        read_result(run)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is no training run\. Make one with `kspr train`"):
        read_about(tmp_path)


def test_a_new_run_needs_an_empty_folder_and_a_resumed_one_a_run(run, tmp_path):
    check_out(tmp_path / "new", resume=False)
    check_out(run, resume=True)
    with pytest.raises(InputError, match="already holds a training run"):
        check_out(run, resume=False)
    with pytest.raises(InputError, match="no training run to resume"):
        check_out(tmp_path / "new", resume=True)


def test_curves_of_a_single_epoch_are_drawn(run):
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    (run / "metrics.jsonl").write_text(json.dumps(LINE) + "\n")
    path = write_curves(run)
    assert path == run / "curves.svg"
    assert "<svg" in path.read_text()


@pytest.mark.parametrize("line", ["7", '"x"', "{}", '{"epoch": "x"}', "[" * 100_000])
def test_lines_that_are_no_metrics_are_one_sentence(run, line):
    (run / "metrics.jsonl").write_text(json.dumps(LINE) + "\n" + line + "\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged"):
        read_metrics(run)


def test_the_same_metrics_give_the_same_curves_and_gaps_stay_empty(run):
    pytest.importorskip("matplotlib", reason="the extra 'report' is not installed")
    lines = [LINE, {"epoch": 2, "loss": "x", "kept": float("inf")}, {**LINE, "epoch": 3}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert write_curves(run).read_bytes() == write_curves(run, run / "b.svg").read_bytes()


@pytest.mark.parametrize("n", [1, 8, 1001])
def test_sides_come_back_by_epoch_from_a_bit_a_row(run, n):
    masks = {epoch: np.random.default_rng(epoch).random(n) < 0.5 for epoch in (2, 10)}
    for epoch, kept in masks.items():
        write_sides(run, epoch, kept)
    found = read_sides(run, n)
    assert list(found) == [2, 10]
    assert all(np.array_equal(found[epoch], masks[epoch]) for epoch in masks)
    assert (run / "sides" / "000002.npy").stat().st_size < 128 + n / 8 + 1


def test_a_run_without_sides_has_none_and_damaged_ones_are_named(run):
    assert read_sides(run, 10) == {}
    write_sides(run, 1, np.ones(10, dtype=bool))
    with pytest.raises(InputError, match=r"000001\.npy is damaged; remove it"):
        read_sides(run, 100)
    (run / "sides" / "000001.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="is damaged"):
        read_sides(run, 10)
