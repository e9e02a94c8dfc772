"""`kspr select`: how the error rate is estimated, and rows that were checked."""

import csv
import json

import numpy as np
import pytest

from kspr import Selection
from tests.cli.commands import SAID, fails, run


def write_answers(path, rows, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


@pytest.fixture
def answers(digits, tmp_path):
    """The truth about 200 rows, drawn at random."""
    _X, truth, _noisy = digits
    rows = np.random.default_rng(5).choice(900, 200, replace=False)
    return write_answers(tmp_path / "a.csv", [(r, truth[r]) for r in rows], ["row", "true_label"])


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_the_control_is_chosen_and_its_assumption_repeated(control, table, tmp_path, capsys):
    text = run(
        *("select", table, *SAID, "--q", "0.3", "--control", control, "--out", tmp_path / "r"),
        capsys=capsys,
    )
    selection = Selection.load(tmp_path / "r")
    assert selection.control == control
    assert f"Assumed: {selection.assumption}" in text


def test_choices_reach_the_selector(table, tmp_path):
    out = tmp_path / "r"
    run("select", table, *SAID, "--cut", "pooled", "--n-splits", "2", "--out", out)
    chosen = Selection.load(out).manifest.parameters
    assert (chosen["cut"], chosen["n_splits"]) == ("pooled", 2)
    run(
        *("select", table, *SAID, "--control", "exchangeable", "--remove-floor", "--overwrite"),
        *("--out", out),
    )
    assert Selection.load(out).manifest.parameters["remove_floor"] is True


def test_help_teaches_each_controls_assumption(capsys):
    text = " ".join(run("select", "--help", capsys=capsys).replace("│", " ").split())
    for words in ("depends on the true class only", "any wrong class with equal chance"):
        assert words in text
    assert "Theorem 2" in text


def test_checked_rows_move_the_cut(table, answers, digits, tmp_path, capsys):
    text = run(
        *("select", table, *SAID, "--q", "0.1", "--checked", answers, "--out", tmp_path / "r"),
        capsys=capsys,
    )
    selection = Selection.load(tmp_path / "r")
    assert "200 checked rows were drawn at random" in text
    assert len(selection.checked.rows) == 200
    assert set(selection.cut_groups.status) <= {"checked", "empty"}
    _X, truth, noisy = digits
    assert (noisy != truth)[selection.clean_mask].mean() < 0.1


def test_checked_rows_are_found_by_their_id(table, digits, tmp_path):
    _X, truth, _noisy = digits
    file = write_answers(
        tmp_path / "a.csv", [(r, truth[r]) for r in range(0, 900, 6)], ["id", "true_label"]
    )
    run("select", table, *SAID, "--q", "0.2", "--checked", file, "--out", tmp_path / "r")
    rows = Selection.load(tmp_path / "r").checked.rows
    assert np.array_equal(np.sort(rows), np.arange(0, 900, 6))


@pytest.mark.parametrize(
    ("columns", "row", "words"),
    [
        (["row", "true_label"], (900, "digit-1"), "no row with the row '900'"),
        (["row", "true_label"], (1, "digit-11"), "Did you mean 'digit-1'"),
        (["row", "true_label"], (1, ""), "has no answers yet"),
        (["row", "truth"], (1, "digit-1"), "no column 'true_label'"),
        (["line", "true_label"], (1, "digit-1"), "no column 'row' or 'id'"),
        (["row", "label", "true_label"], (1, "digit-12", "digit-1"), "about other data"),
        (["row", "drawn_from", "true_label"], (1, "kept", "digit-1"), "--from all"),
        (["row", "drawn_from", "true_label"], (1, "some", "digit-1"), "'kept' or 'all'"),
    ],
)
def test_answers_that_do_not_fit_are_refused(columns, row, words, table, tmp_path, capsys):
    file = write_answers(tmp_path / "a.csv", [row], columns)
    message = fails(
        *("select", table, *SAID, "--checked", file, "--out", tmp_path / "r"), capsys=capsys
    )
    assert words in message
    assert not (tmp_path / "r").exists()


def test_two_answers_for_a_row_are_refused(table, tmp_path, capsys):
    rows = [(7, "digit-1"), (3, "digit-1"), (7, "digit-2")]
    file = write_answers(tmp_path / "a.csv", rows, ["row", "true_label"])
    message = fails(
        *("select", table, *SAID, "--checked", file, "--out", tmp_path / "r"), capsys=capsys
    )
    assert "two answers for the row 7" in message


def test_a_spreadsheets_way_to_write_is_read(table, digits, tmp_path):
    """Semicolons, a byte-order mark, whole numbers with a point."""
    _X, truth, _noisy = digits
    lines = [f"{r}.0;{truth[r]} " for r in range(0, 900, 3)]
    file = tmp_path / "a.csv"
    file.write_text("\ufeffrow;true_label\r\n" + "\r\n".join(lines), encoding="utf-8")
    run("select", table, *SAID, "--q", "0.2", "--checked", file, "--out", tmp_path / "r")
    assert len(Selection.load(tmp_path / "r").checked.rows) == 300


def test_quoted_answers_may_run_over_lines(table, tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text('row,note,true_label\r\n1,"two\r\nlines",digit-1\r\n2,"x\u2028y",odd\r\n')
    message = fails(
        *("select", table, *SAID, "--checked", file, "--out", tmp_path / "r"), capsys=capsys
    )
    assert "line 4: the data has no label 'odd'. It has 'digit-0', 'digit-1'" in message


def test_what_needs_an_error_rate_is_refused_without_one(table, answers, tmp_path, capsys):
    said = ["select", table, *SAID, "--preset", "spr", "--out", tmp_path / "r"]
    for name, given in {"--checked": answers, "control": "paper", "n_splits": 2}.items():
        flag = f"--{name.strip('-').replace('_', '-')}"
        message = fails(*said, flag, given, capsys=capsys)
        assert f"{name} goes with an error rate, which the preset 'spr' does not have" in message


def test_choices_that_do_not_go_together_are_one_sentence(table, tmp_path, capsys):
    message = fails(
        *("select", table, *SAID, "--control", "paper", "--n-splits", "3", "--out", tmp_path / "r"),
        capsys=capsys,
    )
    assert "n_splits=3 goes with control='transition'" in message


def test_json_carries_assumption_and_advice(table, tmp_path, capsys):
    out = run("select", table, *SAID, "--json", "--out", tmp_path / "r", capsys=capsys)
    summary = json.loads(out)["summary"]
    assert "true class only" in summary["assumption"]
    assert "advice" in summary


def test_select_writes_a_run_that_python_can_load(made, digits):
    selection = Selection.load(made)
    _X, truth, noisy = digits
    assert np.array_equal(selection.label, noisy)
    right = noisy == truth
    assert (selection.clean_mask & ~right).sum() <= 0.08 * selection.clean_mask.sum()
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
