"""The commands from file to settled data set, as a user runs them."""

import json

import numpy as np
import pytest

from kspr import Selection
from tests.cli.commands import SAID, run


def test_select_writes_a_run_that_python_can_load(made, digits):
    selection = Selection.load(made)
    _X, truth, noisy = digits
    assert np.array_equal(selection.label, noisy)
    right = noisy == truth
    assert (selection.clean_mask & ~right).sum() <= 0.05 * selection.clean_mask.sum()
    assert (selection.clean_mask & right).sum() > 0.7 * right.sum()
    about = json.loads((made / "run.json").read_text())
    assert about["options"] == {"label": "species", "features": "emb_*", "id": "id"}


def test_the_same_command_reproduces_the_run(made, table, tmp_path):
    again = tmp_path / "again"
    run("select", table, *SAID, "--q", "0.05", "--out", again)
    first, second = Selection.load(made), Selection.load(again)
    assert np.array_equal(first.statistic, second.statistic)
    assert first.manifest == second.manifest


def test_select_speaks_json_when_asked(table, tmp_path, capsys):
    out = run("select", table, *SAID, "--json", "--out", tmp_path / "r", capsys=capsys)
    answer = json.loads(out)
    assert answer["rows"] == 900
    assert answer["summary"]["n_kept"] == int(Selection.load(tmp_path / "r").clean_mask.sum())


@pytest.mark.parametrize("preset", ["paper", "spr"])
def test_presets_choose_the_method(table, tmp_path, preset):
    run("select", table, *SAID, "--preset", preset, "--out", tmp_path / "r")
    manifest = Selection.load(tmp_path / "r").manifest
    assert manifest.method == ("SPR" if preset == "spr" else "KnockoffsSPR")
    if preset == "paper":
        assert manifest.parameters["samples_per_class"] == 75


def test_options_come_from_a_file_and_a_flag_wins(table, tmp_path):
    config = tmp_path / "kspr.toml"
    config.write_text('[select]\nq = 0.2\nseed = 7\nlabel = "species"\nfeatures = "emb_*"\n')
    run("select", table, "--config", config, "--out", tmp_path / "a")
    run("select", table, "--config", config, "--q", "0.1", "--out", tmp_path / "b")
    first, second = (Selection.load(tmp_path / name).manifest.parameters for name in "ab")
    assert (first["q"], first["random_state"]) == (0.2, 7)
    assert (second["q"], second["random_state"]) == (0.1, 7)


def test_report_is_one_file(made, tmp_path):
    run("report", made, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "digit-7" in page
    assert "kspr select" in page
    run("report", made, "--truth", "truth")
    assert (made / "report.html").is_file()


def test_report_does_without_a_source_that_is_gone(digits, tmp_path):
    X, _truth, noisy = digits
    np.savez(tmp_path / "gone.npz", X=X, y=noisy)
    run("select", tmp_path / "gone.npz", "--out", tmp_path / "r")
    (tmp_path / "gone.npz").unlink()
    run("report", tmp_path / "r")
    assert "gone.npz" in (tmp_path / "r" / "report.html").read_text()


@pytest.mark.parametrize(
    "command",
    [
        *("demo", "embed", "select", "report", "evaluate", "export", "noise", "datasets"),
        *("selfcheck", "verify"),
    ],
)
def test_every_command_teaches_by_example(command, capsys):
    text = run(command, "--help", capsys=capsys)
    assert f"Example: kspr {command}" in text
