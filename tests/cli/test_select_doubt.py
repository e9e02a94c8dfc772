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
        (("--cut", "per_class"), "--cut goes with features. With a doubt"),
        (("--preset", "spr"), "--preset goes with features"),
        (("--doubt", "nothing"), "nothing"),
    ],
)
def test_options_that_a_doubt_has_no_use_for_are_refused(boxes, tmp_path, capsys, more, words):
    doubt = () if "--doubt" in more else ("--doubt", "quality")
    message = fails("select", boxes[0], *doubt, *more, "--out", tmp_path / "run", capsys=capsys)
    assert words in message


def test_groups_are_drawn_whole_and_only_drawn_rows_give_the_rate(boxes, tmp_path, capsys):
    path, wrong = boxes
    image = np.arange(N) // 4
    pd.read_parquet(path).assign(image=[f"photo-{k}" for k in image]).to_parquet(path)
    made, file = tmp_path / "run", tmp_path / "c.csv"
    said = ("--doubt", "quality", "--doubtful", "low", "--q", 0.1, "--groups", "image")
    run("select", path, *said, "--out", made)
    capsys.readouterr()
    text = run("verify", made, "--checks", 60, "--whole-groups", "--out", file, capsys=capsys)
    checks = pd.read_csv(file, dtype=str)
    rows = checks["row"].astype(int).to_numpy()
    drawn = checks["drawn_from"].to_numpy() == "pool"
    expected = Selection.load(made).draw_checks(60)
    assert rows[drawn].tolist() == expected.tolist()
    assert set(rows) == set(np.flatnonzero(np.isin(image, image[expected])))
    assert set(checks["drawn_from"]) == {"pool", "group"}
    assert f"60 rows drawn, with {len(rows) - 60} more of their groups" in text
    # The others of an image stand behind its first drawn box.
    starts = np.flatnonzero(drawn)
    assert all(image[r] == image[rows[starts[starts <= k][-1]]] for k, r in enumerate(rows))
    checks["true_label"] = np.where(wrong[rows], "wrong", "right")
    checks.to_csv(file, index=False)
    run("verify", made, "--answers", file)
    selection = Selection.load(made)
    assert selection.checked.sampled.sum() == 60
    assert (selection.clean_mask[rows] == ~wrong[rows]).all()
    alone = Selection.load(made, answers=False)
    answers = np.where(wrong[expected], "wrong", "right")
    cut = alone.with_checks(expected, answers).q_value
    other = np.setdiff1d(np.arange(N), rows)
    assert selection.q_value[other].tolist() == cut[other].tolist()
    # Later draws of the run are of whole groups, too.
    run("verify", made, "--checks", 65, "--out", tmp_path / "more.csv")
    more = pd.read_csv(tmp_path / "more.csv")
    assert (more["drawn_from"] == "pool").sum() == 5
    assert len(more) > 5


def test_groups_that_nobody_named_are_asked_for(boxes, tmp_path, capsys):
    made = tmp_path / "run"
    run("select", boxes[0], "--doubt", "quality", "--out", made)
    capsys.readouterr()
    command = ("verify", made, "--checks", 5, "--whole-groups", "--out", tmp_path / "c.csv")
    assert "--groups COLUMN" in fails(*command, capsys=capsys)
    command = ("verify", made, "--answers", tmp_path / "c.csv", "--whole-groups")
    assert "goes with --checks" in fails(*command, capsys=capsys)
