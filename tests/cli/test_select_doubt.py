"""`kspr select --doubt`: from anybody's score to a run like any other."""

import numpy as np
import pandas as pd
import pytest

from kspr import Selection
from tests.cli.commands import fails, run

N = 2000


@pytest.fixture
def boxes(tmp_path):
    """A table of boxes with a quality, and which of them are wrong."""
    rng = np.random.default_rng(0)
    quality = rng.random(N)
    wrong = rng.random(N) < (1 - quality) ** 2
    names = [f"box-{k}" for k in range(N)]
    table = pd.DataFrame({"id": names, "width": rng.random(N), "quality": quality})
    table["kind"] = np.where(np.arange(N) % 3, "car", "bus")
    table.to_parquet(tmp_path / "boxes.parquet")
    return tmp_path / "boxes.parquet", wrong


def test_checked_rows_give_a_doubt_its_rate(boxes, tmp_path, capsys):
    table, wrong = boxes
    text = run(
        *("select", table, "--doubt", "quality", "--doubtful", "low"),
        *("--q", 0.1, "--out", tmp_path / "run"),
        capsys=capsys,
    )
    assert "DoubtSelector: 0 of 2,000 labels kept" in text
    assert "A doubt alone has no error rate." in " ".join(text.split())
    run("verify", tmp_path / "run", "--checks", 100, "--out", tmp_path / "checks.csv")
    checks = pd.read_csv(tmp_path / "checks.csv", dtype=str)
    assert (checks["label"] == "right").all()
    checks["true_label"] = np.where(wrong[checks["row"].astype(int)], "wrong", "right")
    checks.to_csv(tmp_path / "checks.csv", index=False)
    run("verify", tmp_path / "run", "--answers", tmp_path / "checks.csv")
    (tmp_path / "run").rename(tmp_path / "moved")
    clean = Selection.load(tmp_path / "moved").clean_mask
    assert clean.mean() > 0.4
    assert wrong[clean].mean() < 0.15
    run("export", tmp_path / "moved", "--out", tmp_path / "clean.parquet")
    written = pd.read_parquet(tmp_path / "clean.parquet")
    assert written["id"].tolist() == [f"box-{k}" for k in np.flatnonzero(clean)]
    gate = ("gate", tmp_path / "moved", "--min-kept", 0.2)
    run(*gate, "--max-wrong", 0.1)
    run("report", tmp_path / "moved")


def test_first_answers_join_several_scores(boxes, tmp_path, capsys):
    table, wrong = boxes
    first = tmp_path / "first.csv"
    rows = np.arange(0, N, 30)
    truth = np.where(wrong[rows], "wrong", "right")
    pd.DataFrame({"row": rows, "true_label": truth, "drawn_from": "all"}).to_csv(first, index=False)
    # The width tells nothing, and which way the quality points is told by the answers.
    text = run(
        *("select", table, "--doubt", "quality", "--doubt", "width", "--checked", first),
        *("--q", 0.1, "--out", tmp_path / "run"),
        capsys=capsys,
    )
    assert "A doubt alone has no error rate." in " ".join(text.split())
    run("report", tmp_path / "run")
    run("verify", tmp_path / "run", "--checks", 100, "--out", tmp_path / "checks.csv")
    checks = pd.read_csv(tmp_path / "checks.csv", dtype=str)
    position = checks["row"].astype(int)
    assert not np.isin(position, rows).any()
    checks["true_label"] = np.where(wrong[position], "wrong", "right")
    checks.to_csv(tmp_path / "checks.csv", index=False)
    run("verify", tmp_path / "run", "--answers", tmp_path / "checks.csv")
    clean = Selection.load(tmp_path / "run").clean_mask
    assert clean.mean() > 0.4
    assert wrong[clean].mean() < 0.15
    assert (clean[rows] == ~wrong[rows]).all()
    run("gate", tmp_path / "run", "--max-wrong", 0.1, "--min-kept", 0.2)
    run("report", tmp_path / "run")


def test_without_checks_a_gate_does_not_pass(boxes, tmp_path, capsys):
    run("select", boxes[0], "--doubt", "quality", "--out", tmp_path / "run")
    run("report", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "A doubt alone has no error rate" in page
    assert "SPR keeps a fixed share" not in page
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        run("gate", tmp_path / "run", "--max-wrong", 0.1, "--min-kept", 0.1)
    assert stop.value.code == 1
    assert "'DoubtSelector' holds no error rate" in capsys.readouterr().out


def test_labels_are_classes_where_they_are_named(boxes, tmp_path, capsys):
    run("select", boxes[0], "--doubt", "quality", "--label", "kind", "--out", tmp_path / "run")
    assert Selection.load(tmp_path / "run").classes.tolist() == ["bus", "car"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--probabilities", "width"), "--doubt takes the place of"),
        (("--groups", "kind"), "--doubt takes the place of"),
        (("--cut", "per_class"), "--cut goes with features. With a doubt"),
        (("--preset", "spr"), "--preset goes with features"),
        (("--doubt", "nothing"), "nothing"),
    ],
)
def test_options_that_a_doubt_has_no_use_for_are_refused(boxes, tmp_path, capsys, more, words):
    doubt = () if "--doubt" in more else ("--doubt", "quality")
    message = fails("select", boxes[0], *doubt, *more, "--out", tmp_path / "run", capsys=capsys)
    assert words in message
