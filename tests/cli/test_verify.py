"""`kspr verify`: rows for a person to check, and what the answers say."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import beta

from kspr import Selection
from tests.cli.commands import SAID, fails, run


@pytest.fixture
def copy(made, table, tmp_path, capsys):
    """A run of its own: these tests write into it."""
    run("select", table, *SAID, "--q", "0.05", "--out", tmp_path / "run")
    capsys.readouterr()
    return tmp_path / "run"


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def fill(path, truth, n=None):
    """Answer the first `n` rows as they truly are."""
    rows = read(path)
    for entry in rows[:n]:
        entry["true_label"] = truth[int(entry["row"])]
    rewrite(path, rows)
    return rows


def rewrite(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_rows_are_drawn_from_the_kept_ones(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    text = run("verify", copy, "--sample", 50, "--out", out, capsys=capsys)
    assert f"kspr verify {copy} --answers {out}" in text
    selection, rows = Selection.load(copy), read(out)
    numbers = np.array([int(entry["row"]) for entry in rows])
    assert len(set(numbers.tolist())) == 50
    assert selection.clean_mask[numbers].all()
    assert not np.array_equal(numbers, np.sort(numbers))
    for entry, number in zip(rows, numbers, strict=True):
        assert entry["id"] == str(number)
        assert entry["label"] == selection.label[number]
        assert entry["suggested_label"] == selection.suggested_label[number]
        assert (entry["true_label"], entry["drawn_from"]) == ("", "kept")


def test_the_draw_depends_on_the_seed_alone(copy, tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run("verify", copy, "--sample", 30, "--seed", seed, "--out", tmp_path / name)
    first, again, other = ((tmp_path / name).read_text() for name in "abc")
    assert first == again != other


def test_answers_give_the_exact_interval(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 200, "--out", out)
    rows = fill(out, digits[1])
    n_wrong = sum(entry["true_label"] != entry["label"] for entry in rows)
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    assert (found["n_checked"], found["n_missing"]) == (200, 0)
    assert found["n_wrong"] == n_wrong
    assert found["fsr"] == pytest.approx(n_wrong / 200)
    low = beta.ppf(0.025, n_wrong, 201 - n_wrong) if n_wrong else 0.0
    assert found["interval"] == pytest.approx([low, beta.ppf(0.975, n_wrong + 1, 200 - n_wrong)])
    assert found["noise_rate"] is None
    saved = json.loads((copy / "verification.json").read_text())
    assert saved["n_wrong"] == n_wrong
    assert saved["verdict"] == found["verdict"]
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert f"Of 200 kept labels that were checked, {n_wrong} are wrong" in text
    assert "--from all" in text


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "held"), (10, "cannot tell"), (60, "not held")])
def test_the_verdict_follows_the_interval(wrong, verdict, copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 200, "--out", out)
    rows = read(out)
    for k, entry in enumerate(rows):
        entry["true_label"] = "-" if k < wrong else entry["label"]
    rewrite(out, rows)
    capsys.readouterr()
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert f"Asked for at most 5.0%: {verdict}" in text
    assert json.loads((copy / "verification.json").read_text())["verdict"] == verdict


def test_answers_about_all_rows_give_the_noise_and_may_move_the_cut(
    copy, table, digits, tmp_path, capsys
):
    _X, truth, _noisy = digits
    out = tmp_path / "all.csv"
    run("verify", copy, "--sample", 300, "--from", "all", "--out", out)
    fill(out, truth)
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    kept = Selection.load(copy).clean_mask
    checked = [int(entry["row"]) for entry in read(out)]
    assert found["n_answered"] == 300
    assert found["n_checked"] == int(kept[checked].sum())
    low, high = found["noise_interval"]
    assert low < 0.3 < high
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert f"--checked {out}" in text
    new = tmp_path / "new"
    run("select", table, *SAID, "--q", "0.1", "--checked", out, "--out", new)
    assert len(Selection.load(new).checked.rows) == 300
    capsys.readouterr()
    assert "cannot test it too" in fails("verify", new, "--answers", out, capsys=capsys)
    run("verify", new, "--sample", 900, "--out", tmp_path / "other.csv")
    drawn = {entry["row"] for entry in read(tmp_path / "other.csv")}
    assert drawn
    assert drawn.isdisjoint(map(str, checked))


def test_partly_filled_answers_are_counted(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 100, "--out", out)
    fill(out, digits[1], n=40)
    capsys.readouterr()
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert "60 of the drawn rows have no answer yet" in text
    assert "Of 40 kept labels" in text


def test_rows_that_vanish_from_the_file_are_missed(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 100, "--out", out)
    rewrite(out, fill(out, digits[1])[:70])
    capsys.readouterr()
    assert "30 of the drawn rows" in run("verify", copy, "--answers", out, capsys=capsys)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"true_label": "digit-77"}, "Did you mean 'digit-7'"),
        ({"label": "digit-x"}, "The file was changed, or is about other data"),
        ({"id": "9999"}, "The file was changed, or is about other data"),
        ({"row": "9999"}, "no row with the row '9999'"),
        ({"row": "", "id": "", "label": ""}, "no row with the row ''"),
        ({"drawn_from": "somewhere"}, "must say 'kept' or 'all'"),
    ],
)
def test_a_changed_file_is_refused(change, words, copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 20, "--out", out)
    rows = read(out)
    for entry in rows:
        entry["true_label"] = entry["label"]
    rows[3].update(change)
    rewrite(out, rows)
    capsys.readouterr()
    assert words in fails("verify", copy, "--answers", out, capsys=capsys)
    assert not (copy / "verification.json").exists()


def test_a_row_that_was_not_drawn_is_refused(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--sample", 20, "--out", out)
    rows = read(out)
    drawn = {int(entry["row"]) for entry in rows}
    selection = Selection.load(copy)
    other = next(k for k in selection.clean_indices.tolist() if k not in drawn)
    rows[0] |= {"row": other, "id": other, "label": selection.label[other]}
    rows[0]["true_label"] = rows[0]["label"]
    rewrite(out, rows)
    capsys.readouterr()
    message = fails("verify", copy, "--answers", out, capsys=capsys)
    assert f"row {other}, which was not drawn" in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "needs --out, to draw rows, or --answers"),
        (["--out", "a.csv", "--answers", "b.csv"], "needs --out, to draw rows, or --answers"),
        (["--out", "a.csv", "--sample", "0"], "--sample must be at least 1"),
        (["--out", "a.csv", "--seed", "-1"], "--seed must be a whole number"),
        (["--answers", "no.csv"], "no.csv does not exist"),
    ],
)
def test_bad_arguments_are_one_sentence(given, words, copy, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in fails("verify", copy, *given, capsys=capsys)
    assert not (tmp_path / "a.csv").exists()


def test_a_file_that_may_hold_answers_is_not_written_over(copy, tmp_path, capsys):
    (tmp_path / "checks.csv").write_text("mine")
    message = fails("verify", copy, "--out", tmp_path / "checks.csv", capsys=capsys)
    assert "may hold answers" in message
    assert (tmp_path / "checks.csv").read_text() == "mine"


def test_empty_answers_are_said_to_be_empty(copy, tmp_path, capsys):
    run("verify", copy, "--sample", 20, "--out", tmp_path / "checks.csv")
    capsys.readouterr()
    message = fails("verify", copy, "--answers", tmp_path / "checks.csv", capsys=capsys)
    assert "no answers about kept rows yet" in message


def test_more_rows_than_there_are_means_all_of_them(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    text = run(
        "verify", copy, "--from", "all", "--sample", 5000, "--out", out, "--json", capsys=capsys
    )
    assert json.loads(text)["n_drawn"] == 900
    assert len(read(out)) == 900


def test_nothing_kept_cannot_be_drawn_from(tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", X=rng.standard_normal((60, 4)), y=np.arange(60) % 3)
    run("select", tmp_path / "d.npz", "--out", tmp_path / "run")
    capsys.readouterr()
    message = fails("verify", tmp_path / "run", "--out", tmp_path / "c.csv", capsys=capsys)
    assert "Use --from all" in message
