"""A run that is killed goes on to the same weights, bit for bit."""

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from kspr.errors import InputError
from kspr.train import TrainSettings, fit, load_trained
from kspr.train.run_folder import (
    Checkpoints,
    check_out,
    classes_from_json,
    classes_to_json,
    is_training_run,
    read_about,
    read_metrics,
    read_result,
    read_sides,
    read_tensors,
    write_sides,
    write_tensors,
)
from tests.cli.commands import fails

CHILD = """
import os, signal, sys, threading, time
import numpy as np, torch
from pathlib import Path
from kspr.train import TrainSettings, fit

folder, data = Path(sys.argv[1]), np.load(sys.argv[2])
mark = folder / "checkpoints" / "000002.pt"

def kill():
    while not mark.exists():
        time.sleep(0.001)
    time.sleep(float(sys.argv[3]))
    os.kill(os.getpid(), signal.SIGKILL)

torch.set_num_threads(1)
threading.Thread(target=kill, daemon=True).start()
settings = TrainSettings.from_preset(
    "cpu", epochs=6, warmup_epochs=1, select_every=1, batch_size=16, selection={"q": 0.2},
    select_on=sys.argv[4],
)
fit(data["X"], data["y"], settings=settings, out=folder,
    on_epoch=lambda epoch: time.sleep(0.3) if epoch.epoch >= 4 else None)
"""


@pytest.fixture
def settings(quick):
    return quick.changed(epochs=6, batch_size=16)


@pytest.fixture
def data(small, tmp_path):
    np.savez(tmp_path / "data.npz", X=small.X, y=small.y)
    return tmp_path / "data.npz"


def killed(folder: Path, data: Path, delay: float, select_on: str) -> None:
    child = [sys.executable, "-c", CHILD, str(folder), str(data), str(delay), select_on]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(child, env=environment, timeout=120, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize(
    ("delay", "select_on"),
    [(0.0, "referees"), pytest.param(0.03, "network", marks=pytest.mark.slow)],
)
def test_a_killed_run_ends_with_the_same_weights(small, settings, data, tmp_path, delay, select_on):
    settings = settings.changed(select_on=select_on)
    killed(tmp_path / "run", data, delay, select_on)
    assert not (tmp_path / "run" / "result.json").exists()
    resumed = fit(small.X, small.y, settings=settings, out=tmp_path / "run", resume=True)
    whole = fit(small.X, small.y, settings=settings, out=tmp_path / "whole")
    for name in ("learner", "reference"):
        found = _last(tmp_path / "run")[name]
        assert _same(found, _last(tmp_path / "whole")[name])
    assert resumed.model_choice == whole.model_choice
    assert np.array_equal(resumed.selection.clean_mask, whole.selection.clean_mask)
    timeless = [_without_times(line) for line in read_metrics(tmp_path / "run")]
    assert timeless == [_without_times(line) for line in read_metrics(tmp_path / "whole")]


def test_a_finished_run_can_be_resumed_and_opened(small, quick, tmp_path):
    first = fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    again = fit(small.X, small.y, settings=quick, out=tmp_path / "run", resume=True)
    opened = load_trained(tmp_path / "run")
    for found in (again, opened):
        assert np.array_equal(found.predict_proba(small.X), first.predict_proba(small.X))
        assert np.array_equal(found.selection.clean_mask, first.selection.clean_mask)
        assert np.array_equal(found.frozen.clean_mask, first.frozen.clean_mask)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 9}, "its epochs is '4', not '9'"),
        ({"seed": 5}, "its seed is '0', not '5'"),
    ],
)
def test_other_settings_are_refused_in_a_sentence(small, quick, tmp_path, changes, message):
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    with pytest.raises(InputError, match=f"is of another run: {message}"):
        fit(small.X, small.y, settings=quick.changed(**changes), out=tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_architecture_is_refused_in_a_sentence(small, quick, tmp_path):
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    other = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 10))
    with pytest.raises(InputError, match="is of another run: its architecture"):
        fit(small.X, small.y, settings=quick, out=tmp_path / "run", resume=True, network=other)


def test_other_labels_are_refused(small, quick, tmp_path):
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    with pytest.raises(InputError, match="is of another run: its labels"):
        fit(small.X, small.y_true, settings=quick, out=tmp_path / "run", resume=True)


def test_a_folder_is_never_written_over(small, quick, tmp_path):
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    with pytest.raises(InputError, match=r"already holds a training run\. Pass --resume"):
        fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="exists and is no training run"):
        fit(small.X, small.y, settings=quick, out=tmp_path / "mine")
    with pytest.raises(InputError, match="no training run to resume"):
        fit(small.X, small.y, settings=quick, out=tmp_path / "nowhere", resume=True)


class Harmful:
    """Unpickling it would run code."""

    def __reduce__(self):
        return (os.mkdir, ("harm",))


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", pickle.dumps(Harmful())])
def test_reading_runs_nothing_and_answers_in_a_sentence(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.pt cannot be read as a file of kspr"):
        read_tensors(tmp_path / "bad.pt")
    torch.save({"format": 1, "harm": Harmful()}, tmp_path / "worse.pt")
    with pytest.raises(InputError, match=r"worse\.pt cannot be read as a file of kspr"):
        read_tensors(tmp_path / "worse.pt")
    assert not (tmp_path / "harm").exists()


def _last(folder):
    return read_tensors(sorted((folder / "checkpoints").glob("*.pt"))[-1])


def _same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[name], b[name]) for name in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return a == b


def _without_times(line):
    return {
        name: value for name, value in line.items() if "seconds" not in name and "share" not in name
    }


def test_other_features_are_refused(small, quick, tmp_path):
    """Equal in shape, and with the same labels."""
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    with pytest.raises(InputError, match="is of another run: its content of X"):
        fit(small.X + 1, small.y, settings=quick, out=tmp_path / "run", resume=True)


def test_another_run_is_refused_even_before_its_first_checkpoint(small, quick, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kspr.train.cycle.Cycle.begin", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    with pytest.raises(InputError, match="is of another run: its seed is '0', not '5'"):
        fit(small.X, small.y, settings=quick.changed(seed=5), out=tmp_path / "run", resume=True)


@pytest.mark.parametrize("left", [0, 1000])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(small, quick, tmp_path, left):
    whole = fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    last = sorted((tmp_path / "run" / "checkpoints").glob("*.pt"))[-1]
    last.write_bytes(last.read_bytes()[:left])
    with pytest.warns(RuntimeWarning, match=r"000004\.pt in .* continuing from 000003\.pt"):
        again = fit(small.X, small.y, settings=quick, out=tmp_path / "run", resume=True)
    assert np.array_equal(again.predict_proba(small.X), whole.predict_proba(small.X))
    assert read_tensors(last)["state"]["epoch"] == 4


def test_without_a_whole_checkpoint_resuming_is_refused(tmp_path):
    for name in ("000001.pt", "000002.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=r"No checkpoint in .* can be read \(000002\.pt, 000001"):
        Checkpoints(tmp_path, {}).newest()
    assert Checkpoints(tmp_path / "none", {}).newest() is None


def test_a_full_disk_is_one_sentence_and_leaves_what_was_there(tmp_path):
    write_tensors(tmp_path / "a.pt", {"value": 1})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(InputError, match=r"a\.pt could not be written .* Make room"):
            write_tensors(tmp_path / "a.pt", {"value": torch.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]
    assert read_tensors(tmp_path / "a.pt")["value"] == 1


def test_a_version_of_another_kind_is_another_version(tmp_path):
    torch.save({"format": torch.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a\.pt is no file of this version of kspr"):
        read_tensors(tmp_path / "a.pt")


@pytest.mark.parametrize("signature", [7, "x", None, []])
def test_a_signature_of_another_kind_is_that_of_another_run(tmp_path, signature):
    write_tensors(tmp_path / "000001.pt", {"signature": signature})
    with pytest.raises(InputError, match="is of another run: its rows is None, not 3"):
        Checkpoints(tmp_path, {"rows": 3}).newest()


def test_a_pipe_is_no_file_of_tensors(tmp_path):
    os.mkfifo(tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"a\.pt cannot be read as a file of kspr"):
        read_tensors(tmp_path / "a.pt")


ODD = torch.ones(7, dtype=torch.bool)


@pytest.mark.parametrize(
    "change",
    [
        *({"state": {"strange": 1}}, {"learner": {}}, {"history": "x"}, {"history": "[]"}),
        *({"state": {"epoch": 1, "keep": ODD}}, {"state": {"epoch": 1, "credit": ODD}}),
        *({"best": {"epoch": 1, "weights": {}}}, {"best": None}, {"reference": 3}),
    ],
)
def test_a_checkpoint_of_another_program_is_one_sentence(small, quick, tmp_path, change):
    fit(small.X, small.y, settings=quick.changed(epochs=1), out=tmp_path / "run")
    path = tmp_path / "run" / "checkpoints" / "000001.pt"
    torch.save({**read_tensors(path), **change}, path)
    with pytest.raises(InputError, match="does not fit this training"):
        fit(small.X, small.y, settings=quick.changed(epochs=1), out=tmp_path / "run", resume=True)


def test_momentum_of_another_shape_is_one_sentence(small, quick, tmp_path):
    """torch takes it, and fails in the next step."""
    fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*.pt"):
        content = read_tensors(path)
        content["learner"]["optimizer"]["state"][0]["momentum_buffer"] = torch.ones(3)
        torch.save(content, path)
    with pytest.raises(InputError, match="does not fit this training"):
        fit(small.X, small.y, settings=quick, out=tmp_path / "run", resume=True)


def test_referees_of_other_shapes_are_one_sentence(small, refereed, tmp_path):
    fit(small.X, small.y, settings=refereed.changed(epochs=2), out=tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    for path in folder.glob("*.pt"):
        path.unlink()
    last = sorted((folder / "referees").glob("*.pt"))[-1]
    torch.save({**read_tensors(last), "probabilities": torch.ones(3, 2)}, last)
    with pytest.raises(InputError, match="referees does not fit this training"):
        fit(
            small.X, small.y, settings=refereed.changed(epochs=2), out=tmp_path / "run", resume=True
        )


@pytest.mark.parametrize(
    "change",
    [
        {"pipeline": {"centre": torch.ones(64, dtype=torch.bool), "scale": torch.tensor(1.0)}},
        {"pipeline": {"centre": torch.ones(64), "scale": torch.ones(1, 1, 1)}},
        {"pipeline": 3},
        {"network": {"body.0.weight": torch.ones(2)}},
    ],
)
def test_a_network_file_of_other_shapes_is_one_sentence_in_predict(small, quick, tmp_path, change):
    fit(small.X, small.y, settings=quick.changed(epochs=1), out=tmp_path / "run")
    path = tmp_path / "run" / "network.pt"
    torch.save({**read_tensors(path), **change}, path)
    with pytest.raises(
        InputError, match=r"cannot be read as a training run|do not fit the network"
    ):
        load_trained(tmp_path / "run").predict(small.X)


def test_selections_by_the_network_leave_the_sides_of_the_rows(small, quick, tmp_path):
    """Four epochs, a selection after each: the last file says what the run's selection says."""
    trained = fit(small.X, small.y, settings=quick, out=tmp_path / "own")
    found = read_sides(tmp_path / "own", len(small.y))
    assert len(found) > 1
    assert max(found) == quick.epochs
    if trained.model_choice.startswith("cycle") and trained.epoch == quick.epochs:
        assert np.array_equal(found[quick.epochs], trained.selection.clean_mask)


def test_referees_judge_once_and_leave_no_sides(small, refereed, tmp_path):
    fit(small.X, small.y, settings=refereed, out=tmp_path / "run")
    assert read_sides(tmp_path / "run", len(small.y)) == {}


LINE = {
    **dict.fromkeys(("accuracy_average", "reference_held_out", "reference_loss", "fsr", "recall")),
    **{"epoch": 1, "accuracy": 0.5, "held_out": 0.4, "kept": 0.6, "f1": None, "q_reached": None},
    **{"loss": 1.0, "seconds": 2.0, "notes": ["said"]},
}
ABOUT = {
    "settings": TrainSettings().as_dict(),
    "classes": classes_to_json(np.array(["a", "b"])),
    **{"shape": [4], "rows": 3, "signature": {}},
}
RESULT = {"model_choice": "cycle average", "epoch": 1, "held_out": {"cycle average": 0.5}}
RESULT |= {"test_accuracy": None, "last_epoch": LINE}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "train.json").write_text(json.dumps(ABOUT))
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
    assert read_about(run) == ABOUT
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


@pytest.mark.parametrize(
    ("file", "read", "whole"),
    [("train.json", read_about, ABOUT), ("result.json", read_result, RESULT)],
)
@pytest.mark.parametrize("wrong", [None, 7.5, "x", [1], {"a": {}}, -1])
def test_an_entry_of_another_kind_is_named(run, file, read, whole, wrong):
    """Each entry in turn; entries that may be this value are left as they are."""
    (run / file).write_text(json.dumps(whole))
    assert read(run) == whole
    fitting = {"test_accuracy": (None, 7.5, -1), "model_choice": ("x",), "settings": ()}
    for name in set(whole) - {"signature"}:
        if wrong in fitting.get(name, ()) or (name, wrong) == ("shape", [1]):
            continue
        (run / file).write_text(json.dumps({**whole, name: wrong}))
        with pytest.raises(InputError, match=rf"{file} is damaged"):
            read(run)
    (run / file).write_text(json.dumps({**whole, "shape": ["x"], "last_epoch": {"epoch": 1}}))
    with pytest.raises(InputError, match=r"its (shape|last_epoch) is"):
        read(run)


@pytest.mark.parametrize(
    "change", [{"rows": None}, {"origin": 3}, {"origin": {"command": "x"}}, {"items": 1}]
)
def test_a_report_of_a_damaged_training_is_one_sentence(run, change, capsys):
    (run / "train.json").write_text(json.dumps({**ABOUT, **change}))
    (run / "metrics.jsonl").write_text(json.dumps(LINE) + "\n")
    assert "train.json is damaged" in fails("report", run, capsys=capsys)


@pytest.mark.parametrize(
    "line",
    [
        *("7", '"x"', "{}", '{"epoch": "x"}', "[" * 100_000),
        *(json.dumps({**LINE, **wrong}) for wrong in ({"loss": "x"}, {"fsr": []}, {"notes": 3})),
        json.dumps({name: value for name, value in LINE.items() if name != "seconds"}),
    ],
)
def test_lines_that_are_no_metrics_are_one_sentence(run, line):
    (run / "metrics.jsonl").write_text(json.dumps(LINE) + "\n" + line + "\n")
    with pytest.raises(InputError, match=r"metrics\.jsonl is damaged"):
        read_metrics(run)


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
