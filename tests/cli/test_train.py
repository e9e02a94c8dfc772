"""`kspr train`, and `evaluate` on its runs, as they are typed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kspr.cli import main
from kspr.cli.train import EpochLines, epoch_line, time_left
from kspr.core.metrics import SelectionQuality
from kspr.errors import InputError
from kspr.train.task import Epoch
from tests.cli.commands import fails, run
from tests.conftest import Noisy
from tests.train.conftest import folder, one_thread  # noqa: F401 - fixtures
from tests.train.digits import small_digits

SHORT = "epochs = 3\nwarmup_epochs = 1\nselect_every = 1\nbatch_size = 32\n[selection]\nq = 0.2\n"


@pytest.fixture(scope="module")
def small() -> Noisy:
    return small_digits()


@pytest.fixture(scope="module")
def table(small, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "digits.parquet"
    names = np.array([f"digit-{k}" for k in range(10)])
    columns = {f"emb_{i}": small.X[:, i] for i in range(64)}
    columns |= {"label": names[small.y], "truth": names[small.y_true]}
    pq.write_table(pa.table(columns), path)
    (path.parent / "short.toml").write_text(SHORT)
    return path


def train(table, out, *more):
    short = table.parent / "short.toml"
    return ["train", table, "--settings", short, "--features", "emb_*", "--out", out, *more]


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(*train(table, out))
    return out


def test_a_run_is_a_folder_with_all_that_is_needed(trained):
    lines = (trained / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    assert json.loads(lines[-1])["fsr"] is not None
    assert json.loads((trained / "train.json").read_text())["settings"]["batch_size"] == 32
    assert (trained / "curves.svg").read_text().startswith("<svg")
    assert (trained / "network.pt").exists()


def test_progress_names_what_is_measured(table, tmp_path, capsys):
    said = run(*train(table, tmp_path / "run", "--test", table), capsys=capsys)
    words = ("epoch   3", "kept", "FSR (estimated) 20.0%", "recall", "loss", "selecting", "left")
    for word in words:
        assert word in said
    assert "Network: the" in said
    assert "Which labels to trust: " in said
    assert "Kept" not in said
    assert "Accuracy on the test set" in said
    assert said.splitlines()[-1].startswith("In short: ")
    assert "of 100 test rows." in said.splitlines()[-1]


def test_the_end_of_a_training_promises_no_error_rate_that_is_not_held(table, tmp_path, capsys):
    """The network judges labels that it has learned: the features of the source have not."""
    out, own = tmp_path / "run", tmp_path / "own.toml"
    own.write_text(f'select_on = "network"\n{SHORT}')
    said = run(
        "train", table, "--settings", own, "--features", "emb_*", "--out", out, capsys=capsys
    )
    assert "assumed" not in said
    assert "Which labels to trust: " in said
    assert f"kspr report {out}/frozen" in said
    assert f"{out}/selection" not in said
    for name, held in (("frozen", True), ("selection", False)):
        run("report", out / name, "--out", tmp_path / f"{name}.html", capsys=capsys)
        page = (tmp_path / f"{name}.html").read_text()
        assert ("was asked for and is not held" not in " ".join(page.split())) == held
        assert ("is an estimate that is too low" not in page) == held
        assert held or ">assumed<" not in page


def test_a_selection_by_the_network_alone_holds_no_error_rate(
    folder,  # noqa: F811 - the fixture
    tmp_path,
    capsys,
):
    (tmp_path / "own.toml").write_text(
        'select_on = "network"\nnetwork = "resnet_small"\npretrain_epochs = 0\nepochs = 2\n'
        "warmup_epochs = 1\nbatch_size = 8\npadding = 1\n"
    )
    command = ["train", folder, "--preset", "cifar10", "--settings", tmp_path / "own.toml"]
    said = run(*command, "--out", tmp_path / "run", capsys=capsys)
    assert ", by features of this network.\n" in said
    assert f"kspr report {tmp_path}/run/selection\n  Its error rate is not held." in said


def test_the_folder_of_the_selection_is_a_run(trained, capsys):
    run("report", trained / "selection")
    assert (trained / "selection" / "report.html").exists()


def test_the_run_itself_has_a_page(trained, tmp_path, capsys):
    said = run("report", trained, capsys=capsys)
    assert said.strip() == f"The report: {trained}/report.html"
    page = (trained / "report.html").read_text()
    assert "Rows that changed sides" in page
    assert "Training report" in page
    message = fails("report", trained, "--selfcheck", capsys=capsys)
    assert f"--selfcheck is for the report of one selection, and {trained} is a training" in message


def test_a_run_that_is_not_finished_has_a_page(trained, tmp_path, capsys):
    for name in ("train.json", "metrics.jsonl"):
        (tmp_path / name).write_text((trained / name).read_text())
    run("report", tmp_path, capsys=capsys)
    assert "This training is not finished: 3 epochs" in (tmp_path / "report.html").read_text()
    (tmp_path / "metrics.jsonl").unlink()
    assert "in its first epoch" in fails("report", tmp_path, capsys=capsys)


def test_a_method_of_others_has_a_page_without_a_selection(table, tmp_path, capsys):
    said = run(*train(table, tmp_path / "run", "--method", "forward"), capsys=capsys)
    # Forward runs its epochs twice.
    assert "epoch   6" in said
    assert said.count("done") == 1
    assert "none of them was judged" in said.splitlines()[-1]
    run("report", tmp_path / "run", capsys=capsys)
    assert "Rows that changed" not in (tmp_path / "run" / "report.html").read_text()


def test_evaluate_tells_of_network_and_selection(trained, capsys):
    said = run("evaluate", trained, "--truth", "truth", capsys=capsys)
    assert "network: the" in said
    assert "FSR" in said
    found = json.loads(run("evaluate", trained, "--truth", "truth", "--json", capsys=capsys))
    assert found["network"]["model_choice"]
    assert found["quality"]["recall"] > 0.3


def test_evaluate_tells_of_a_network_without_truth(trained, tmp_path, capsys, monkeypatch):
    def no_truth(*_):
        raise InputError("data.parquet has no column of true labels.")

    monkeypatch.setattr("kspr.runs.evaluate.evaluate_run", no_truth)
    said = run("evaluate", trained, capsys=capsys)
    assert "network: the" in said
    assert "not compared: data.parquet has no column of true labels." in said
    assert json.loads(run("evaluate", trained, "--json", capsys=capsys))["network"]["epoch"]
    message = fails("evaluate", trained, "--truth", "nothing", capsys=capsys)
    assert "has no column of true labels" in message


def test_a_preset_for_images_refuses_features(table, tmp_path, capsys):
    message = fails(
        "train", table, "--preset", "cifar10", "--features", "emb_*", "--out", tmp_path / "run",
        capsys=capsys,
    )  # fmt: skip
    assert "holds features, not images. Choose --preset cpu" in message


def test_an_interrupt_says_how_to_go_on(table, tmp_path):
    out = tmp_path / "run"
    command = [*map(str, train(table, out)), "--epochs", "2000"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-m", "kspr", *command],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    deadline = time.monotonic() + 60
    while not (out / "checkpoints").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(4):
        # Python drops an interrupt that comes inside a destructor; a person presses again.
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=20)
            break
    _, said = child.communicate(timeout=20)
    assert child.returncode == 130
    assert said.strip() == (f"kspr: interrupted; the same command with --resume continues {out}")


def test_a_precision_that_does_not_work_is_one_sentence(table, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("kspr.models.device._PROBE", "raise SystemExit(1)")
    (table.parent / "half.toml").write_text('precision = "bfloat16"\n' + SHORT)
    command = train(table, tmp_path / "run")
    command[command.index(table.parent / "short.toml")] = table.parent / "half.toml"
    main([str(part) for part in command])
    said = capsys.readouterr().err.strip()
    assert said == (
        "kspr: bfloat16 does not work on this processor: a test in a child process failed with "
        "exit code 1. Computing in float32 instead."
    )


def test_a_test_set_needs_no_column_of_the_truth(table, small, tmp_path, capsys):
    """`--truth` speaks of the training rows; where the test set has it too, it is used."""
    names = np.array([f"digit-{k}" for k in range(10)])
    columns = {f"emb_{i}": small.X[:, i] for i in range(64)}
    right = {**columns, "label": names[small.y_true]}
    both = {**columns, "label": names[small.y], "truth": names[small.y_true]}
    found = []
    for name, content in (("right", right), ("both", both)):
        pq.write_table(pa.table(content), tmp_path / f"{name}.parquet")
        how = ("--truth", "truth", "--test", tmp_path / f"{name}.parquet", "--json")
        found.append(json.loads(run(*train(table, tmp_path / name, *how), capsys=capsys)))
    assert found[0]["test_accuracy"] == found[1]["test_accuracy"]


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


def test_a_handful_of_rows_is_trained_on(tmp_path, capsys):
    """No row can be held out; the share of predicted ones was nan, and the last line failed."""
    rows = "".join(f"{k},{k % 2},{'ab'[k % 2]}\n" for k in range(6))
    (tmp_path / "few.csv").write_text(f"x,z,label\n{rows}")
    said = run(
        "train", tmp_path / "few.csv", "--epochs", "2", "--out", tmp_path / "run", capsys=capsys
    )
    assert "In short:" in said
    assert json.loads((tmp_path / "run" / "result.json").read_text())["held_out"] == {}
