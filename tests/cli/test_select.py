"""`kspr select`: how the error rate is estimated, and rows that were checked."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kspr import KnockoffsSPR, Selection
from kspr.cli.select import select
from kspr.errors import InputError
from kspr.report import report_run
from kspr.runs.run import load_run
from kspr.selectors.options import SelectorOptions
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
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
    columns = ["row", "true_label", "drawn_from"]
    return write_answers(tmp_path / "a.csv", [(r, truth[r], "all") for r in rows], columns)


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_the_control_is_chosen_and_its_assumption_repeated(control, table, tmp_path, capsys):
    preset = "paper" if control in ("paper", "theorem") else "default"
    text = run(
        *("select", table, *SAID, "--q", "0.3", "--preset", preset, "--control", control),
        *("--out", tmp_path / "r"),
        capsys=capsys,
    )
    selection = Selection.load(tmp_path / "r")
    assert selection.control == control
    assert selection.assumption in " ".join(text.split())


def test_choices_reach_the_selector(table, tmp_path):
    out = tmp_path / "r"
    run("select", table, *SAID, "--cut", "pooled", "--n-splits", "2", "--out", out)
    chosen = Selection.load(out).manifest.parameters
    assert (chosen["cut"], chosen["n_splits"]) == ("pooled", 2)
    run("select", table, *SAID, "--duplicates", "ignore", "--overwrite", "--out", out)
    assert Selection.load(out).manifest.parameters["duplicates"] == "ignore"


def test_help_teaches_each_controls_assumption(capsys):
    text = " ".join(run("select", "--help", capsys=capsys).replace("│", " ").split())
    for words in ("by the true class only", "any wrong class with equal chance"):
        assert words in text
    assert "Theorem 2" in text


def test_checked_rows_move_the_cut(table, answers, digits, tmp_path, capsys):
    text = run(
        *("select", table, *SAID, "--q", "0.1", "--checked", answers, "--out", tmp_path / "r"),
        capsys=capsys,
    )
    selection = Selection.load(tmp_path / "r")
    assert f"{selection.checked.counted.sum()} checked rows were drawn at random" in text
    assert len(selection.checked.rows) == 200
    assert set(selection.cut_groups.status) <= {"checked", "empty"}
    _X, truth, noisy = digits
    assert (noisy != truth)[selection.clean_mask].mean() < 0.15


def test_checked_rows_are_found_by_their_id(table, digits, tmp_path):
    _X, truth, _noisy = digits
    file = write_answers(
        tmp_path / "a.csv", [(r, truth[r]) for r in range(0, 900, 6)], ["id", "true_label"]
    )
    run("select", table, *SAID, "--q", "0.2", "--checked", file, "--out", tmp_path / "r")
    rows = Selection.load(tmp_path / "r").checked.rows
    assert np.array_equal(np.sort(rows), np.arange(0, 900, 6))
    assert not Selection.load(tmp_path / "r").checked.calibrate


@pytest.mark.parametrize(
    ("columns", "row", "words"),
    [
        (["row", "true_label"], (900, "digit-1"), "no row with the row '900'"),
        (["row", "true_label"], (1, "digit-11"), "Did you mean 'digit-1'"),
        (["row", "true_label"], (1, ""), "has no answers yet"),
        (["row", "truth"], (1, "digit-1"), "no column 'true_label'"),
        (["line", "true_label"], (1, "digit-1"), "no column 'row' or 'id'"),
        (["row", "label", "true_label"], (1, "digit-12", "digit-1"), "about other data"),
        (["row", "drawn_from", "true_label"], (1, "some", "digit-1"), "'pool' or 'all'"),
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
    message = fails(*said, "--checked", answers, capsys=capsys)
    assert "--checked goes with an error rate, which the preset 'spr' does not have" in message
    message = fails(*said, "--control", "paper", capsys=capsys)
    assert "--control goes with the preset 'default' or 'paper', got 'spr'" in message
    message = fails(*said, "--n-splits", 2, capsys=capsys)
    assert "--n-splits goes with the preset 'default', got 'spr'" in message


def test_choices_that_do_not_go_together_are_one_sentence(table, tmp_path, capsys):
    message = fails(
        *("select", table, *SAID, "--control", "exchangeable", "--neighbours", "5"),
        *("--out", tmp_path / "r"),
        capsys=capsys,
    )
    assert "--neighbours 5 goes with --control people or transition" in message
    message = fails(
        "select", table, *SAID, "--control", "paper", "--out", tmp_path / "r", capsys=capsys
    )
    assert "the preset 'paper'" in message


def test_json_carries_assumption_and_notices(table, tmp_path, capsys):
    out = run("select", table, *SAID, "--json", "--out", tmp_path / "r", capsys=capsys)
    summary = json.loads(out)["summary"]
    assert summary["basis"].startswith(summary["assumption"])
    assert summary["verdict"]["sentences"][0].endswith(" labels are probably wrong.")
    assert summary["notices"] == []


def test_select_writes_a_run_that_python_can_load(made, digits):
    selection = Selection.load(made)
    _X, truth, noisy = digits
    assert np.array_equal(selection.label, noisy)
    right = noisy == truth
    # One draw: what is promised is a mean.
    assert (selection.clean_mask & ~right).sum() <= 0.08 * selection.clean_mask.sum()
    assert (selection.clean_mask & right).sum() > 0.7 * right.sum()
    about = json.loads((made / "run.json").read_text())
    assert about["options"] == {"label": "species", "features": "emb_*", "id": "id"}


def test_the_same_command_reproduces_the_run(made, table, tmp_path):
    again = tmp_path / "again"
    run("select", table, *SAID, "--q", "0.05", "--out", again)
    first, second = Selection.load(made), Selection.load(again)
    assert np.array_equal(first.doubt, second.doubt)
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
    assert manifest.method == ("SPR" if preset == "spr" else "PaperKnockoffsSPR")
    if preset == "paper":
        assert manifest.parameters["samples_per_class"] == 75


@pytest.fixture
def tiny_classes(tmp_path):
    """300 classes of 5, which cannot reach any level of use."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 5)
    np.savez(tmp_path / "tiny.npz", X=rng.standard_normal((len(y), 8)).astype(np.float32), y=y)
    return tmp_path / "tiny.npz"


def test_many_classes_print_few_lines_and_say_where_the_rest_is(tiny_classes, tmp_path, capsys):
    text = run("select", tiny_classes, "--out", tmp_path / "r", capsys=capsys)
    assert len(text.splitlines()) < 50
    assert "Shown are the 10 of 300 classes with most suspects. All of them:" in text


def test_the_command_line_shows_the_warnings_of_the_page(tiny_classes, tmp_path, capsys):
    out = tmp_path / "r"
    text = run("select", tiny_classes, "--cut", "per_class", "--out", out, capsys=capsys)
    page = report_run(out)[0].read_text(encoding="utf-8")
    (notice,) = Selection.load(out).summary().notices
    for words in (notice.headline, notice.meaning):
        assert words in " ".join(text.split())
        assert words in page
    assert "--cut pooled holds q over all classes" in text
    assert "cut=&#39;pooled&#39; holds q over all classes" in page


def test_hints_name_flags(table, tmp_path, capsys):
    said = ["select", table, *SAID, "--out", tmp_path / "r"]
    assert "--min-class-size 1 " in one_row_class(tmp_path, capsys)
    assert "--control people or transition" in fails(
        *said, "--level", "f1", "--control", "exchangeable", capsys=capsys
    )


def one_row_class(tmp_path, capsys):
    y = np.repeat(["a", "b", "c"], [20, 20, 1])
    np.savez(tmp_path / "one.npz", X=np.random.default_rng(0).standard_normal((41, 4)), y=y)
    return fails("select", tmp_path / "one.npz", "--out", tmp_path / "r", capsys=capsys)


HOSTILE = "ant\x1b[31m\nbee   999\u202egniht"


def test_labels_and_folders_cannot_act_on_the_terminal(digits, tmp_path, capsys):
    X, _truth, noisy = digits
    labels = np.where(noisy == "digit-3", HOSTILE, noisy)
    np.savez(tmp_path / "d.npz", X=X, y=labels)
    out = tmp_path / "run\x1b[2J"
    text = run("select", tmp_path / "d.npz", "--out", out, capsys=capsys)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert not [line for line in text.splitlines() if line.startswith("bee")]
    assert "\\u001b[31m" in text
    message = fails("select", tmp_path / "d.npz", "--out", out, capsys=capsys)
    assert "\x1b" not in message
    text = run("select", tmp_path / "d.npz", "--json", "--out", tmp_path / "j", capsys=capsys)
    assert "\u202e" not in text
    assert json.loads(text)["summary"]["per_class"][0]["label"] == HOSTILE


def test_what_to_do_next_can_be_copied(table, tmp_path, capsys):
    text = run("select", table, *SAID, "--out", tmp_path / "my run", capsys=capsys)
    assert f"kspr report '{tmp_path / 'my run'}' --open" in text


@pytest.fixture
def predictions(tmp_path):
    """Three hundred rows of three classes, of which every tenth label is wrong."""
    truth = np.arange(300) % 3
    rng = np.random.default_rng(0)
    P = np.eye(3)[truth] + 0.2 * rng.random((300, 3))
    P /= P.sum(axis=1, keepdims=True)
    y = np.where(np.arange(300) % 10 == 0, (truth + 1) % 3, truth)
    names = np.array(["ant", "bee", "cow"])
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(names)}
    pq.write_table(pa.table({"label": names[y], **columns}), tmp_path / "p.parquet")
    np.save(tmp_path / "p.npy", P)
    (tmp_path / "y.csv").write_text("label\n" + "\n".join(names[y]))
    return tmp_path


def test_probabilities_of_a_model_of_ones_own(predictions, capsys):
    out = predictions / "a"
    text = run(
        *("select", predictions / "p.parquet", "--probabilities", "p_*", "--q", "0.01"),
        *("--out", out),
        capsys=capsys,
    )
    assert "ProbabilitySelector: 27" in text
    found = Selection.load(out)
    assert sorted(np.argsort(-found.suspicion)[:30].tolist()) == list(range(0, 300, 10))
    run(
        *("select", predictions / "p.npy", "--kind", "probabilities", "--q", "0.01"),
        *("--labels", predictions / "y.csv", "--out", predictions / "b"),
    )
    other = Selection.load(predictions / "b")
    assert np.array_equal(other.clean_mask, found.clean_mask)
    assert other.manifest.fingerprint == found.manifest.fingerprint


def test_answers_decide_with_probabilities_too(predictions, capsys):
    names = ["ant", "bee", "cow"]
    rows = [(row, names[row % 3], "all") for row in range(0, 300, 3)]
    columns = ["row", "true_label", "drawn_from"]
    file = write_answers(predictions / "a.csv", rows, columns)
    said = ["select", predictions / "p.parquet", "--probabilities", "p_*", "--checked", file]
    text = run(*said, "--q", "0.1", "--out", predictions / "r", capsys=capsys)
    assert "The 100 checked rows were drawn at random" in text
    found = Selection.load(predictions / "r")
    assert np.array_equal(found.clean_mask[::3], np.arange(0, 300, 3) % 10 != 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("p.parquet", "--kind", "probabilities"), "--kind probabilities is for an npy file"),
        (("p.parquet", "--probabilities", "q_*"), "q_*"),
        (("p.parquet", "--probabilities", "p_[ab]*"), "do not name the class 'cow'"),
        (("p.parquet", "--probabilities", "p_*", "--dimensions", "3"), "goes with features"),
        (("p.parquet", "--probabilities", "p_*", "--checked", "y.csv"), "true_label"),
    ],
)
def test_bad_probabilities_end_in_one_sentence(
    predictions, arguments, message, capsys, monkeypatch
):
    monkeypatch.chdir(predictions)
    assert message in fails("select", *arguments, "--out", "r", capsys=capsys)
    assert not (predictions / "r").exists()


@pytest.fixture
def scans(digits, tmp_path):
    """A table with a column of numbers that say which rows belong together."""
    X, _truth, noisy = digits
    columns = {f"emb_{i}": X[:, i] for i in range(64)}
    path = tmp_path / "scans.parquet"
    pq.write_table(pa.table({"patient": np.arange(900) // 3, "species": noisy, **columns}), path)
    return path


def test_rows_of_a_group_are_judged_by_a_fit_without_them(scans, digits, tmp_path, capsys):
    out = tmp_path / "r"
    run("select", scans, "--label", "species", "--groups", "patient", "--out", out)
    X, _truth, noisy = digits
    expected = KnockoffsSPR().fit(X, noisy, groups=np.arange(900) // 3).selection_
    found = Selection.load(out)
    np.testing.assert_array_equal(found.clean_mask, expected.clean_mask)
    assert (found.doubt != KnockoffsSPR().fit(X, noisy).selection_.doubt).any()
    assert "groups 'patient'" in capsys.readouterr().err
    assert load_run(out).groups().tolist() == [str(k // 3) for k in range(900)]


def test_groups_are_refused_where_there_are_no_halves(scans, tmp_path, capsys):
    said = (scans, "--label", "species", "--groups", "patient", "--out", tmp_path / "r")
    for preset in ("spr", "paper"):
        assert f"no halves with the preset '{preset}'" in fails(
            "select", *said, "--preset", preset, capsys=capsys
        )
    assert "goes with `kspr select`" in fails("embed", *said, capsys=capsys)
    assert "no column 'person'" in fails("select", *said[:-3], "person", *said[-2:], capsys=capsys)


def test_what_does_not_go_with_a_cluster_is_refused_before_anything_is_read():
    for choices, words in (
        ({"kind": "probabilities"}, "--scheduler goes with features and one label a row"),
        ({"chosen": SelectorOptions(preset="spr")}, "the preset 'default', got 'spr'"),
        ({"chosen": SelectorOptions(preset="paper")}, "the preset 'default', got 'paper'"),
    ):
        with pytest.raises(InputError, match=words):
            select(Path("none"), out=Path("run"), scheduler="tcp://x:1", **choices)


@pytest.fixture
def batches(digits, tmp_path):
    """Two batches of digits in random order; two rows of the second were in the first."""
    X, _, noisy = digits
    order = np.random.default_rng(0).permutation(len(noisy))
    for name, rows in (("old", order[:600]), ("new", order[598:])):
        columns = {f"emb_{k}": X[rows, k] for k in range(64)}
        table = pa.table({"id": [f"r{i}" for i in rows], "species": noisy[rows], **columns})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def test_a_new_batch_is_judged_by_the_fit_of_a_run(batches):
    old, new, out = batches / "run", batches / "new.parquet", batches / "new-run"
    run("select", batches / "old.parquet", *SAID, "--q", 0.1, "--out", old)
    known = pq.read_table(batches / "old.parquet")[0:1].to_pylist()[0]
    (batches / "a.csv").write_text(f"id,true_label\n{known['id']},{known['species']}\n")
    run("verify", old, "--answers", batches / "a.csv", "--drawn", "chosen")
    run("select", new, "--with", old, "--out", out)
    found = load_run(out)
    assert any("set no rate for these" in note for note in found.origin.notes)
    table = pq.read_table(new)
    columns = [name for name in table.column_names if name.startswith("emb_")]
    first = pq.read_table(batches / "old.parquet")
    X, Xnew = (np.column_stack([t[c] for c in columns]) for t in (first, table))
    model = KnockoffsSPR(q=0.1).fit(X, first["species"].to_numpy())
    expected = model.judge(Xnew, table["species"].to_numpy())
    np.testing.assert_array_equal(found.selection.clean_mask, expected.clean_mask)
    assert found.row_id.tolist() == table["id"].to_pylist()
    assert any("2 of these rows have an id of" in note for note in found.origin.notes)


def test_a_batch_that_looks_otherwise_is_warned_of_in_a_sentence(batches, capsys):
    run("select", batches / "old.parquet", *SAID, "--out", batches / "run", capsys=capsys)
    table = pq.read_table(batches / "new.parquet")
    for place, name in enumerate(table.column_names):
        if name.startswith("emb_"):
            table = table.set_column(place, name, pc.multiply(table[name], 0.3))
    pq.write_table(table, batches / "new.parquet")
    new, out = batches / "new.parquet", batches / "new-run"
    run("select", new, "--with", batches / "run", "--out", out)
    said = capsys.readouterr().err
    assert "kspr: The new rows look otherwise than those of fit" in said
    assert ".py:" not in said


def test_a_new_batch_takes_its_options_from_the_run(batches, capsys):
    run("select", batches / "old.parquet", *SAID, "--out", batches / "run", capsys=capsys)
    new, out = batches / "new.parquet", batches / "new-run"
    message = fails(
        *("select", new, "--with", batches / "run", "--q", 0.2, "--out", out), capsys=capsys
    )
    assert "--with takes all options of the selection from the run" in message
    (batches / "old.parquet").unlink()
    message = fails("select", new, "--with", batches / "run", "--out", out, capsys=capsys)
    assert "cannot judge new rows" in message
    assert not out.exists()


def test_a_new_batch_of_mixed_columns_is_encoded_as_the_run(tmp_path, capsys):
    rng = np.random.default_rng(0)
    job = np.array(["clerk", "nurse", "driver"])[rng.integers(0, 3, 400)]
    table = pa.table(
        {
            "age": pa.array(rng.normal(40, 9, 400), mask=rng.random(400) < 0.1),
            "grade": rng.integers(1, 4, 400).astype(str),
            "since": np.datetime64("2020-01-01") + rng.integers(0, 99, 400),
            "job": job,
            "y": np.where(rng.random(400) < 0.1, "b", np.where(job == "nurse", "b", "a")),
        }
    )
    pq.write_table(table[:300], tmp_path / "old.parquet")
    new = table[300:].to_pandas()
    new.loc[[0, 1], "job"] = "pilot"
    new.to_csv(tmp_path / "new.csv", index=False)
    old, out = tmp_path / "run", tmp_path / "new-run"
    run("select", tmp_path / "old.parquet", "--label", "y", "--out", old)
    run("select", tmp_path / "new.csv", "--with", old, "--out", out, capsys=capsys)
    found, first = load_run(out), load_run(old)
    # A file of text, in which a grade looks like a number, and with another mean of ages.
    assert found.origin.encoder == first.origin.encoder
    assert any("of no column, is 'pilot' in 'job'." in note for note in found.origin.notes)
    assert found.features().shape == (100, first.features().shape[1])
    again = open_source(tmp_path / "old.parquet", ReadOptions(label="y"))
    np.testing.assert_array_equal(again.features, first.features())
    new.to_csv(tmp_path / "new.csv", index=False, columns=["age", "since", "job", "y"])
    message = fails("select", tmp_path / "new.csv", "--with", old, "--out", "x", capsys=capsys)
    assert "has no column 'grade'" in message


def test_a_run_that_is_given_as_a_source_is_answered_by_its_source(table, tmp_path, capsys):
    run("select", table, *SAID, "--out", tmp_path / "r")
    capsys.readouterr()
    message = fails("select", tmp_path / "r", "--out", tmp_path / "again", capsys=capsys)
    assert f"r is a run of kspr; its source is {table}. Name the data, not the run." in message
    assert not (tmp_path / "again").exists()


def test_help_has_titles_and_names_what_matters_first(capsys):
    text = run("select", "--help", capsys=capsys)
    for title in ("How to judge, and what to keep", "What to read", "Images and texts"):
        assert f"─ {title} ─" in text
    first = text[: text.index("Example:")]
    assert all(name in first for name in ("--q", "--label", "--probabilities", "--checked"))


def test_columns_beside_probabilities_are_no_reason_to_warn(digits, tmp_path, capsys):
    _X, _truth, noisy = digits
    chance = np.full((900, 10), 0.02)
    chance[np.arange(900), np.unique(noisy, return_inverse=True)[1]] = 0.82
    columns = {f"p_{name}": chance[:, k] for k, name in enumerate(np.unique(noisy).tolist())}
    table = pa.table({**columns, "zip": np.arange(900) + 1000, "label": noisy})
    pq.write_table(table, tmp_path / "p.parquet")
    command = ("select", tmp_path / "p.parquet", "--probabilities", "p_*", "--out", tmp_path / "r")
    run(*command)
    assert "looks like an id" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("labels", "noted"),
    [
        (["a|b", "b", "a|c", "b|c", "a|b|c"], True),
        # Names of one class each, as ImageNet has them.
        (["tench, Tinca tinca", "goldfish, Carassius auratus", "great white shark"], False),
    ],
)
def test_a_column_of_several_labels_a_row_is_noticed(tmp_path, capsys, labels, noted):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=200) for name in "wxyz"} | {"tags": rng.choice(labels, 200)}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    run("select", tmp_path / "rows.parquet", "--label", "tags", "--out", tmp_path / "run")
    said = " ".join(capsys.readouterr().err.split())
    assert ("--labels-separator '|' judges each" in said) == noted
