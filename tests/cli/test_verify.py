"""`kspr verify`: rows for a person to check, and what the answers say."""

import csv
import json
import re

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


def test_rows_are_drawn_from_those_that_could_be_kept(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    text = run("verify", copy, "--checks", 50, "--out", out, capsys=capsys)
    assert f"kspr verify {copy} --answers {out}" in text
    assert "50 rows drawn, for q = 0.05" in text
    selection, rows = Selection.load(copy), read(out)
    numbers = [int(entry["row"]) for entry in rows]
    assert numbers == selection.draw_checks(50).tolist()
    for entry, number in zip(rows, numbers, strict=True):
        assert entry["id"] == str(number)
        assert entry["label"] == selection.label[number]
        assert entry["suggested_label"] == selection.suggested_label[number]
        assert (entry["true_label"], entry["drawn_from"]) == ("", "pool")


def test_the_file_is_named_after_the_run(copy, tmp_path):
    run("verify", copy, "--checks", 5)
    assert len(read(tmp_path / "run-checks.csv")) == 5


def test_answers_move_the_cut_of_the_same_run(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    out = tmp_path / "checks.csv"
    before = Selection.load(copy)
    run("verify", copy, "--checks", 100, "--q", 0.1, "--out", out)
    rows = np.array([int(entry["row"]) for entry in fill(out, truth)])
    wrong = noisy[rows] != truth[rows]
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    assert (found["n_counted"], found["n_wrong"]) == (100, wrong.sum())
    kept = before.at(0.1).clean_mask
    n_checked, n_wrong = kept[rows].sum(), (kept[rows] & wrong).sum()
    assert (found["n_checked_before"], found["n_wrong_before"]) == (n_checked, n_wrong)
    low = beta.ppf(0.025, n_wrong, n_checked - n_wrong + 1) if n_wrong else 0.0
    high = beta.ppf(0.975, n_wrong + 1, n_checked - n_wrong)
    assert found["interval_before"] == pytest.approx([low, high])
    # Everybody who loads the run has the answers, whatever was asked for when it was made.
    after = Selection.load(copy)
    expected = before.with_checks(rows, truth[rows], q=0.1)
    assert np.array_equal(after.clean_mask, expected.clean_mask)
    assert after.clean_mask.sum() == found["n_kept"]
    assert np.array_equal(after.suggested_label[rows], truth[rows])
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert "at most 10.0% of the kept labels are wrong on average, whatever the noise is" in text
    assert f"100 of 100 drawn rows checked, {wrong.sum()} wrong" in text


def test_a_draw_goes_on(copy, digits, tmp_path, capsys):
    """40 rows and then 60 give what 100 rows give, and the forecast names more checks."""
    _X, truth, _noisy = digits
    before = Selection.load(copy)
    for name, n in (("a.csv", 40), ("b.csv", 100)):
        text = run("verify", copy, "--checks", n, "--out", tmp_path / name, capsys=capsys)
        fill(tmp_path / name, truth)
        run("verify", copy, "--answers", tmp_path / name)
        capsys.readouterr()
    assert "60 more rows drawn" in text
    assert "% with 100 checks" in text
    rows = before.draw_checks(100)
    expected = before.with_checks(rows, truth[rows])
    assert np.array_equal(Selection.load(copy).clean_mask, expected.clean_mask)


def test_what_is_passed_over_counts_as_wrong(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 100, "--out", out)
    rows = fill(out, digits[1], n=60)
    rows[3]["true_label"] = rows[7]["true_label"] = ""
    rows[9]["true_label"] = "?"
    rewrite(out, rows)
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    assert (found["n_drawn"], found["n_counted"], found["n_passed_over"]) == (100, 60, 2)
    assert found["n_cannot_tell"] == 3
    kept = Selection.load(copy).clean_mask
    # The draw is not finished: so far, answers decide on their own rows alone.
    assert not kept[int(rows[9]["row"])]
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert text.startswith("58 of 100 drawn rows checked,")
    assert "Empty rows above the last answer: 2. They count as wrong" in text
    # A rate of rows that nobody has answered would mislead.
    assert "Without checks" not in text
    text = run("verify", copy, "--checks", 110, "--out", tmp_path / "more.csv", capsys=capsys)
    assert f"42 rows that were drawn before have no answer yet: `kspr review {copy}`" in text


def test_rows_that_vanish_from_the_file_count_as_wrong(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 50, "--out", out)
    rows = fill(out, digits[1])
    rewrite(out, [*rows[:10], *rows[20:]])
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    assert (found["n_counted"], found["n_passed_over"]) == (50, 10)


def test_answers_about_all_rows_also_give_the_noise(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    out = tmp_path / "all.csv"
    run("verify", copy, "--checks", 300, "--drawn", "all", "--out", out)
    rows = [int(entry["row"]) for entry in fill(out, truth)]
    capsys.readouterr()
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    rate = float(np.mean(noisy[rows] != truth[rows]))
    noise = found["estimates"]["noise_rate"]
    assert noise["value"] == pytest.approx(rate, abs=0.03)
    assert noise["low"] < rate < noise["high"]
    after = Selection.load(copy)
    # One noise rate, wherever the run is shown.
    assert after.noise.rate == pytest.approx(noise["value"])
    assert after.noise.rate_interval == pytest.approx((noise["low"], noise["high"]))
    assert (after.checked.drawn, len(after.checked.rows)) == ("all", 300)


def test_rows_from_elsewhere_need_a_declaration(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(["row,true_label", *(f"{r},{truth[r]}" for r in range(0, 900, 9))]))
    message = fails("verify", copy, "--answers", file, capsys=capsys)
    assert "--drawn all if they were drawn at random from all rows" in message
    assert not (copy / "checks.json").exists()
    before = Selection.load(copy)
    run("verify", copy, "--answers", file, "--drawn", "chosen")
    after = Selection.load(copy)
    rows, others = np.arange(0, 900, 9), np.flatnonzero(np.arange(900) % 9)
    assert np.array_equal(after.clean_mask[others], before.clean_mask[others])
    assert np.array_equal(after.clean_mask[rows], (noisy == truth)[rows])
    run("verify", copy, "--answers", file, "--drawn", "all")
    assert Selection.load(copy).checked.calibrate


def test_chosen_answers_leave_a_draw_as_it_is(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    out, file = tmp_path / "checks.csv", tmp_path / "mine.csv"
    run("verify", copy, "--checks", 100, "--out", out)
    drawn = {entry["row"] for entry in fill(out, truth)}
    run("verify", copy, "--answers", out)
    before = Selection.load(copy)
    other = [r for r in np.flatnonzero(before.clean_mask & (noisy != truth)) if str(r) not in drawn]
    file.write_text("\n".join(["row,true_label", *(f"{r},{truth[r]}" for r in other)]))
    run("verify", copy, "--answers", file, "--drawn", "chosen")
    after = Selection.load(copy)
    assert np.array_equal(np.flatnonzero(after.clean_mask != before.clean_mask), other)
    assert after.checked.counted.sum() == 100


def test_what_a_draw_is_for_is_set_before(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 50, "--guarantee", "confidence", "--q", 0.2, "--out", out)
    fill(out, digits[1])
    capsys.readouterr()
    for flag, value in (("--q", 0.3), ("--guarantee", "mean"), ("--confidence", 0.5)):
        message = fails("verify", copy, "--answers", out, flag, value, capsys=capsys)
        assert f"{flag} {value} differs from the draw" in message
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert "With 95% confidence, at most 20.0% of the kept labels are wrong" in text


def test_known_answers_are_filled_in(copy, digits, tmp_path):
    """Another draw asks again for rows that were checked: their answers stand there already."""
    run("verify", copy, "--checks", 400, "--out", tmp_path / "a.csv")
    fill(tmp_path / "a.csv", digits[1])
    run("verify", copy, "--answers", tmp_path / "a.csv")
    run("verify", copy, "--checks", 400, "--seed", 1, "--new-draw", "--out", tmp_path / "b.csv")
    known = {entry["row"]: entry["true_label"] for entry in read(tmp_path / "a.csv")}
    again = [entry for entry in read(tmp_path / "b.csv") if entry["row"] in known]
    assert again
    assert all(entry["true_label"] == known[entry["row"]] for entry in again)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"true_label": "digit-77"}, "Did you mean 'digit-7'"),
        ({"label": "digit-x"}, "The file was changed, or is about other data"),
        ({"id": "9999"}, "The file was changed, or is about other data"),
        ({"row": "9999"}, "no row with the row '9999'"),
        ({"row": "", "id": "", "label": ""}, "no row with the row ''"),
        ({"drawn_from": "somewhere"}, "must say 'pool' or 'all'"),
    ],
)
def test_a_changed_file_is_refused(change, words, copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 20, "--out", out)
    rows = read(out)
    for entry in rows:
        entry["true_label"] = entry["label"]
    rows[3].update(change)
    rewrite(out, rows)
    capsys.readouterr()
    noted = (copy / "checks.json").read_text()
    assert words in fails("verify", copy, "--answers", out, capsys=capsys)
    assert (copy / "checks.json").read_text() == noted


def test_a_row_that_was_not_drawn_is_refused(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 20, "--out", out)
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
    assert "--drawn chosen" in message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "needs --checks N, to draw rows, or --answers"),
        (["--checks", "5", "--answers", "b.csv"], "needs --checks N, to draw rows, or --answers"),
        (["--checks", "0", "--out", "a.csv"], "--checks must be at least 1"),
        (["--checks", "5", "--out", "a.csv", "--seed", "-1"], "--seed must be a whole number"),
        (["--checks", "5", "--out", "a.csv", "--drawn", "chosen"], "goes with --answers"),
        (["--checks", "5", "--out", "a.csv", "--q", "2"], "q must"),
        (["--checks", "5", "--out", "a.csv", "--confidence", "2"], "confidence must"),
        (["--checks", "5", "--out", "a.csv", "--confidence", "0"], "confidence must"),
        (["--answers", "no.csv"], "no.csv does not exist"),
    ],
)
def test_bad_arguments_are_one_sentence(given, words, copy, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in fails("verify", copy, *given, capsys=capsys)
    assert not (tmp_path / "a.csv").exists()
    assert not (copy / "checks.json").exists()


def test_a_file_that_may_hold_answers_is_not_written_over(copy, tmp_path, capsys):
    (tmp_path / "checks.csv").write_text("mine")
    message = fails("verify", copy, "--checks", 5, "--out", tmp_path / "checks.csv", capsys=capsys)
    assert "may hold answers" in message
    assert (tmp_path / "checks.csv").read_text() == "mine"


def test_empty_answers_are_said_to_be_empty(copy, tmp_path, capsys):
    run("verify", copy, "--checks", 20, "--out", tmp_path / "checks.csv")
    capsys.readouterr()
    message = fails("verify", copy, "--answers", tmp_path / "checks.csv", capsys=capsys)
    assert "has no answers yet" in message


def test_more_rows_than_there_are_means_all_of_them(copy, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    said = ("verify", copy, "--drawn", "all", "--checks", 5000)
    text = run(*said, "--out", out, "--json", capsys=capsys)
    assert json.loads(text)["n_drawn"] == 900
    assert len(read(out)) == 900
    assert "were drawn from" in fails(*said, "--out", tmp_path / "b.csv", capsys=capsys)


def test_a_run_without_an_error_rate_gets_one_by_checks(table, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    folder, out = tmp_path / "spr", tmp_path / "c.csv"
    run("select", table, *SAID, "--preset", "spr", "--out", folder)
    capsys.readouterr()
    assert "Give one with --q" in fails("verify", folder, "--checks", 5, capsys=capsys)
    run("verify", folder, "--checks", 200, "--q", 0.1, "--out", out)
    fill(out, truth)
    run("verify", folder, "--answers", out)
    selection = Selection.load(folder)
    assert (noisy != truth)[selection.clean_mask].mean() < 0.15
    assert selection.clean_mask.mean() > 0.4


def test_more_checks_go_on_with_the_draw_that_is_there(copy, digits, tmp_path, capsys):
    """Without --q they once replaced a draw for another q, and the filled-in file was refused."""
    out = tmp_path / "a.csv"
    run("verify", copy, "--checks", 100, "--q", 0.2, "--guarantee", "anytime", "--out", out)
    fill(out, digits[1])
    run("verify", copy, "--answers", out)
    kept = Selection.load(copy).clean_mask
    more = run("verify", copy, "--checks", 150, "--out", tmp_path / "b.csv", capsys=capsys)
    assert "50 more rows drawn, for q = 0.2" in more
    assert (Selection.load(copy).clean_mask == kept).all()
    run("verify", copy, "--answers", out)
    fewer = fails("verify", copy, "--checks", 50, "--out", tmp_path / "c.csv", capsys=capsys)
    assert "--checks must be at least 150, got 50. It counts the 150 rows that were drawn" in fewer
    command = ("verify", copy, "--checks", 50, "--q", 0.05, "--out", tmp_path / "c.csv")
    assert "--new-draw begins another" in fails(*command, capsys=capsys)
    assert "50 rows drawn, for q = 0.05" in run(*command, "--new-draw", capsys=capsys)


def test_a_draw_that_does_not_reach_q_says_so_and_what_would(copy, digits, tmp_path, capsys):
    out = tmp_path / "a.csv"
    run("verify", copy, "--checks", 15, "--q", 0.05, "--out", out)
    fill(out, digits[1])
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert "q = 0.05 was not reached: of the rows that nobody checked, none are kept." in text
    more = re.search(r"About ([\d,]+) more checks reach it: kspr verify .* --checks (\d+)\.", text)
    assert int(more[2]) == 15 + int(more[1].replace(",", ""))
    run("export", copy, "--out", tmp_path / "clean.csv")
    assert "q = 0.05 was not reached" in capsys.readouterr().err


def test_rows_of_all_that_are_passed_over_count_as_wrong_too(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    out = tmp_path / "all.csv"
    run("verify", copy, "--checks", 200, "--drawn", "all", "--out", out)
    rows = fill(out, truth)
    passed = [k for k, entry in enumerate(rows[:-1]) if entry["label"] == entry["true_label"]][:20]
    for k in passed:
        rows[k]["true_label"] = ""
    rewrite(out, rows)
    capsys.readouterr()
    before = Selection.load(copy, answers=False).clean_mask
    found = json.loads(run("verify", copy, "--answers", out, "--json", capsys=capsys))
    numbers = [int(entry["row"]) for entry in rows]
    wrong = (noisy != truth)[numbers].sum() + 20
    assert found["n_passed_over"] == 20
    assert found["n_wrong"] + found["n_other"] >= wrong
    # They do not move the cut before they are filled in.
    assert found["estimates"] is None
    assert found["notes"][0].startswith(
        "180 of 200 checks are done; they move the threshold once all"
    )
    passed = [numbers[k] for k in passed]
    assert (Selection.load(copy).clean_mask[passed] == before[passed]).all()


def test_chosen_answers_are_no_part_of_a_draw_from_all(copy, digits, tmp_path, capsys):
    _X, truth, noisy = digits
    out, file = tmp_path / "all.csv", tmp_path / "mine.csv"
    run("verify", copy, "--checks", 200, "--drawn", "all", "--out", out)
    drawn = {int(entry["row"]) for entry in fill(out, truth)}
    run("verify", copy, "--answers", out)
    before = Selection.load(copy)
    other = [r for r in np.flatnonzero(noisy != truth).tolist() if r not in drawn]
    file.write_text("\n".join(["row,true_label", *(f"{r},{truth[r]}" for r in other)]))
    run("verify", copy, "--answers", file, "--drawn", "chosen")
    after = Selection.load(copy)
    assert after.noise.rate == before.noise.rate
    rest = np.setdiff1d(np.arange(900), other)
    assert np.array_equal(after.q_value[rest], before.q_value[rest])


def test_a_draw_says_beforehand_how_many_checks_are_needed(copy, tmp_path, capsys):
    text = run("verify", copy, "--checks", 50, "--out", tmp_path / "a.csv", capsys=capsys)
    needed = Selection.load(copy).checks_needed(q=0.05)
    assert f"About {needed} checks reach q = 0.05" in text


def test_a_training_run_is_verified_by_its_selection(digits, tmp_path, capsys):
    """Its selection is the referees', which a hundred answers move to q, on average over draws.

    The mean FSR of 40 draws is below q + 3 standard errors.
    """
    X, truth, noisy = digits
    np.savez(tmp_path / "digits.npz", X=X, y=noisy)
    (tmp_path / "short.toml").write_text("epochs = 2\nbatch_size = 32\n")
    trained = tmp_path / "trained"
    run("train", tmp_path / "digits.npz", "--settings", tmp_path / "short.toml", "--out", trained)
    before = Selection.load(trained / "selection")
    run("verify", trained, "--checks", 100)
    rows = fill(tmp_path / "trained-checks.csv", truth)
    assert len(rows) == 100
    capsys.readouterr()
    answers = tmp_path / "trained-checks.csv"
    found = json.loads(run("verify", trained, "--answers", answers, "--json", capsys=capsys))
    assert found["n_counted"] == 100
    after = Selection.load(trained / "selection")
    assert after.checked is not None
    assert "whatever the noise is" in after.assumption
    rates = []
    for seed in range(40):
        drawn = before.draw_checks(100, seed=seed)
        kept = before.with_checks(drawn, truth[drawn], seed=seed).clean_mask
        rates.append((noisy != truth)[kept].mean())
    assert np.mean(rates) < 0.1 + 3 * np.std(rates) / 40**0.5


def test_an_answer_that_is_emptied_in_the_file_is_withdrawn(copy, digits, tmp_path, capsys):
    out = tmp_path / "checks.csv"
    run("verify", copy, "--checks", 60, "--out", out)
    assert "has no answers yet" in fails("verify", copy, "--answers", out, capsys=capsys)
    rows = fill(out, digits[1])
    run("verify", copy, "--answers", out)
    rows[-1]["true_label"] = ""
    rewrite(out, rows)
    text = run("verify", copy, "--answers", out, capsys=capsys)
    assert "59 of 60 checks are done; they move the threshold once all of them are." in text
    before = Selection.load(copy, answers=False).clean_mask
    unanswered = np.setdiff1d(np.arange(900), [int(entry["row"]) for entry in rows[:-1]])
    assert (Selection.load(copy).clean_mask[unanswered] == before[unanswered]).all()


def test_a_file_without_answers_is_refused_before_a_selection(table, tmp_path, capsys):
    (tmp_path / "a.csv").write_text("row,true_label,drawn_from\n2,,all\n")
    command = ("select", table, *SAID, "--out", tmp_path / "r", "--checked", tmp_path / "a.csv")
    assert "has no answers yet" in fails(*command, capsys=capsys)
    assert not (tmp_path / "r").exists()
