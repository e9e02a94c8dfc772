"""`kspr select --labels-separator`: rows with any number of labels, from the file to the export."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, MultiLabelSelector
from kspr.runs.run import load_run
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from tests.cli.commands import fails, run

NAMES = ("even", "round", "seven")
SAID = ("--labels-separator", "|", "--features", "pixel_*", "--q", "0.05")


@pytest.fixture(scope="module")
def rows():
    """Pixels of digits, their true labels and the given ones, as tables of rows and labels."""
    X, digit = load_digits(return_X_y=True)
    X, digit = X[:900], digit[:900]
    members = ((0, 2, 4, 6, 8), (0, 3, 6, 8, 9), (7,))
    truth = np.column_stack([np.isin(digit, member) for member in members])
    return X, truth, truth ^ (np.random.default_rng(0).random(truth.shape) < 0.1)


def sets_of(table):
    return [[n for n, has in zip(NAMES, row, strict=True) if has] for row in table.tolist()]


def write(path, rows, form):
    """Write the rows in one of four forms; the ids are texts, so that rows are joined by them."""
    X, truth, given = rows
    columns = {"id": [f"d{k}" for k in range(len(X))]}
    columns |= {f"pixel_{k}": column for k, column in enumerate(X.T)}
    if form == "indicators":
        columns |= {name: column.astype(int) for name, column in zip(NAMES, given.T, strict=True)}
    elif form == "lists":
        columns |= {"tags": sets_of(given), "true_tags": sets_of(truth)}
    else:
        columns |= {"tags": ["|".join(s) for s in sets_of(given)]}
        columns |= {"true_tags": ["|".join(s) for s in sets_of(truth)]}
    write = pc.write_csv if path.suffix == ".csv" else pq.write_table
    write(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def made(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    source = write(folder / "tags.csv", rows, "text")
    run("select", source, "--label", "tags", *SAID, "--out", folder / "run")
    return folder / "run"


@pytest.fixture
def copy(made, tmp_path):
    """A run of its own, for a test that draws rows from it."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_a_run_holds_what_the_selector_says_of_pairs(made, rows):
    X, _, given = rows
    expected = MultiLabelSelector(KnockoffsSPR(q=0.05))
    # Files are read in single precision.
    expected = expected.fit(X.astype(np.float32), sets_of(given)).selection_
    loaded = load_run(made)
    assert loaded.selection.classes.tolist() == expected.classes.tolist()
    assert loaded.selection.label.tolist() == expected.label.tolist()
    assert loaded.selection.q_value.tobytes() == expected.q_value.tobytes()
    assert loaded.row_id[:4].tolist() == ["d0:even", "d0:round", "d0:seven", "d1:even"]


@pytest.mark.parametrize(
    ("form", "suffix", "label"),
    [
        ("lists", ".parquet", "tags"),
        ("indicators", ".csv", "even|round|seven"),
        ("indicators", ".parquet", "even|round|seven"),
    ],
)
def test_every_form_of_several_labels_is_the_same_run(
    made, rows, tmp_path, form, suffix, label, capsys
):
    source = write(tmp_path / f"t{suffix}", rows, form)
    run("select", source, "--label", label, *SAID, "--out", tmp_path / "run", capsys=capsys)
    here, there = load_run(tmp_path / "run").selection, load_run(made).selection
    assert here.label.tolist() == there.label.tolist()
    assert here.q_value.tobytes() == there.q_value.tobytes()


def test_what_is_kept_is_judged_by_pairs_with_the_truth(made, capsys):
    text = run("evaluate", made, "--truth", "true_tags", capsys=capsys)
    assert "2,700 labels" in text
    assert "not seven" in text


def test_a_label_within_a_file_of_truth_has_a_way_out(made, tmp_path, capsys):
    (tmp_path / "truth.csv").write_text("id,truth\nd0,even\n")
    message = fails("evaluate", made, "--truth", tmp_path / "truth.csv", capsys=capsys)
    assert "Put them into a column of the data" in message


def test_checks_are_about_pairs_and_show_the_row_without_its_labels(copy, rows, tmp_path):
    run("verify", copy, "--checks", "60", "--out", tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(encoding="utf-8") as file:
        drawn = list(csv.DictReader(file))
    assert "tags" not in drawn[0]
    truth = rows[1]
    for line in drawn:
        row, label = divmod(int(line["row"]), 3)
        assert line["id"] == f"d{row}:{NAMES[label]}"
        line["true_label"] = NAMES[label] if truth[row, label] else f"not {NAMES[label]}"
    with (tmp_path / "c.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(drawn[0]))
        writer.writeheader()
        writer.writerows(drawn)
    run("verify", copy, "--answers", tmp_path / "c.csv")
    selection = load_run(copy).selection
    kept = selection.clean_mask.reshape(truth.shape)
    assert "checked" in selection.cut_groups.status.tolist()
    # Of one draw of 60; on average over draws it is 0.05.
    assert (rows[2] != truth)[kept].mean() < 0.1


def exported(path):
    table = pc.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    return table, {row: k for k, row in enumerate(table["kspr_row"].to_pylist())}


def test_an_export_writes_the_corrected_labels_of_rows(made, rows, tmp_path):
    _, truth, given = rows
    run("export", made, "--suspects", "relabel-keep", "--out", tmp_path / "c.csv")
    table, _ = exported(tmp_path / "c.csv")
    written = [set(cell.split("|")) - {""} for cell in table["tags"].to_pylist()]
    before = sum(len(set(a) ^ set(b)) for a, b in zip(sets_of(given), sets_of(truth), strict=True))
    after = sum(len(a ^ set(b)) for a, b in zip(written, sets_of(truth), strict=True))
    assert len(table) == 900
    assert after < 0.65 * before
    doubtful = [cell or "" for cell in table["kspr_doubtful_labels"].to_pylist()]
    clean = load_run(made).selection.clean_mask.reshape(900, 3)
    assert doubtful == ["|".join(np.array(NAMES)[~row]) for row in clean]


def test_without_suspects_a_row_is_written_if_all_its_pairs_are_kept(made, tmp_path):
    run("export", made, "--out", tmp_path / "c.csv")
    table, _ = exported(tmp_path / "c.csv")
    clean = load_run(made).selection.clean_mask.reshape(900, 3).all(axis=1)
    assert table["kspr_row"].to_pylist() == np.flatnonzero(clean).tolist()


@pytest.mark.parametrize(("form", "label"), [("lists", "tags"), ("indicators", "even|round|seven")])
def test_an_export_keeps_the_form_of_the_labels(rows, tmp_path, form, label):
    source = write(tmp_path / "t.parquet", rows, form)
    run("select", source, "--label", label, *SAID, "--out", tmp_path / "run")
    out = tmp_path / "c.parquet"
    run("export", tmp_path / "run", "--suspects", "relabel-keep", "--out", out)
    before, (after, _) = pq.read_table(source), exported(out)
    names = NAMES if form == "indicators" else ("tags",)
    assert all(before.schema.field(name).type == after.schema.field(name).type for name in names)
    said = after["kspr_suggested_label"].to_pylist()
    moved = [
        k for k, (a, b) in enumerate(zip(said, after["kspr_given_label"], strict=True)) if a != b
    ]
    if form == "lists":
        written = ["|".join(cell) for cell in after["tags"].to_pylist()]
    else:
        cells = np.column_stack([after[name].to_numpy() for name in NAMES]).astype(bool)
        written = ["|".join(s) for s in sets_of(cells)]
    some = [k for k in moved if written[k] == said[k]]
    assert len(some) > 20


def test_numbers_with_labels_in_a_file_are_exported_with_ids(rows, tmp_path):
    X, _, given = rows
    np.save(tmp_path / "X.npy", X)
    cells = "\n".join("|".join(s) or "nan" for s in sets_of(given))
    (tmp_path / "tags.txt").write_text(cells + "\n")
    run(
        *("select", tmp_path / "X.npy", "--labels", tmp_path / "tags.txt"),
        *("--labels-separator", "|", "--q", "0.05", "--out", tmp_path / "run"),
    )
    run("export", tmp_path / "run", "--out", tmp_path / "c.csv", "--suspects", "keep")
    table, _ = exported(tmp_path / "c.csv")
    assert [cell or "" for cell in table["label"].to_pylist()] == [
        "|".join(s) for s in sets_of(given)
    ]
    assert table["row_id"].to_pylist() == list(range(900))


def test_rows_without_a_label_stay_or_are_dropped(rows, tmp_path):
    source = write(tmp_path / "t.csv", rows, "text")
    options = ReadOptions(label="tags", labels_separator="|", features="pixel_*")
    empty = [k for k, labels in enumerate(sets_of(rows[2])) if not labels]
    every = open_source(source, options)
    assert every.unlabelled is None
    assert any(f"{len(empty):,} of 900 rows" in note for note in every.notes)
    dropped = open_source(source, ReadOptions(**{**vars(options), "missing": "drop"}))
    assert dropped.labelled().tolist() == [
        3 * k + label for k in range(900) if k not in empty for label in range(3)
    ]


def test_texts_are_embedded_once_a_row(tmp_path):
    rng = np.random.default_rng(0)
    words = {"rain": "wet cloudy rain storm", "sport": "goal match team ball"}
    lines = []
    for k in range(120):
        has = rng.random(2) < 0.5
        text = " ".join(
            w for name, on in zip(words, has, strict=True) if on for w in words[name].split()
        )
        lines.append(
            (
                f"t{k}",
                f"{text} day {k}",
                "|".join(n for n, on in zip(words, has, strict=True) if on),
            )
        )
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "tags"), *lines])
    run(
        *("select", tmp_path / "t.csv", "--text", "text", "--label", "tags"),
        *("--labels-separator", "|", "--out", tmp_path / "run"),
    )
    loaded = load_run(tmp_path / "run")
    features = loaded.features()
    assert features.shape[0] == 240
    assert len(features.rows) == 120
    assert loaded.items()[3] == lines[1][1]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--model", "random-forest"), "goes with features"),
        (("--doubt", "pixel_1"), "goes with features"),
        (("--label", "pixel_0", "--labels-separator", "#"), "Correct the separator"),
        (("--label", "even|odd"), "has no column 'even'"),
    ],
)
def test_what_several_labels_do_not_go_with_is_said(rows, tmp_path, capsys, more, words):
    source = write(tmp_path / "t.csv", rows, "text")
    base = () if "--label" in more else ("--label", "tags")
    mark = () if "--labels-separator" in more else ("--labels-separator", "|")
    command = ("select", source, *base, *mark, *more, "--out", tmp_path / "run")
    assert words in fails(*command, capsys=capsys)


def test_other_commands_and_formats_say_a_sentence(made, tmp_path, capsys):
    source = load_run(made).origin.source
    wanted = ("--label", "tags", "--labels-separator", "|")
    message = fails("train", source, *wanted, "--out", tmp_path / "t", capsys=capsys)
    assert "needs one class a row" in message
    for to in ("imagefolder", "label-studio", "fiftyone"):
        out = tmp_path / (to if to == "imagefolder" else f"{to}.json")
        message = fails("export", made, "--to", to, "--out", out, capsys=capsys)
        assert "holds one a row" in message
    assert "cannot judge new rows" in fails(
        "select", source, "--with", made, "--out", tmp_path / "n", capsys=capsys
    )


def test_columns_that_hold_more_than_0_and_1_are_no_labels(tmp_path, capsys):
    table = pa.table({"x": [0.1, 0.2], "a": [0, 2], "b": [1, 0]})
    pq.write_table(table, tmp_path / "t.parquet")
    command = ("select", tmp_path / "t.parquet", "--label", "a|b", "--labels-separator", "|")
    assert "must hold 0 and 1" in fails(*command, "--out", tmp_path / "r", capsys=capsys)
    lists = pa.table({"x": [0.1, 0.2], "tags": [["a|b"], ["c"]]})
    pq.write_table(lists, tmp_path / "t.parquet")
    command = ("select", tmp_path / "t.parquet", "--label", "tags", "--labels-separator", "|")
    assert "stands in no label" in fails(*command, "--out", tmp_path / "r", capsys=capsys)


def test_all_labels_of_a_drawn_row_are_shown_together(copy, tmp_path):
    run("verify", copy, "--checks", "20", "--whole-groups", "--out", tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(encoding="utf-8") as file:
        rows = [int(line["row"]) for line in csv.DictReader(file)]
    assert sorted(rows) == sorted(3 * row + k for row in {r // 3 for r in rows} for k in range(3))


def test_the_review_page_shows_pairs_with_their_row(copy):
    pytest.importorskip("starlette")
    from kspr.review.session import Session, Settings

    session = Session(copy, Settings(checks=4, whole_groups=True))
    queue = [position for asked, position in session.waiting("Anna") if asked == "check"]
    assert queue == list(session.checks.asked)
    assert len(session.checks.positions) == 4
    assert {p // 3 for p in queue} == {p // 3 for p in session.checks.positions}
    cells = dict(session.details.content(queue[0])["cells"])
    assert cells["id"] == f"d{queue[0] // 3}"
    session.answer("Anna", "check", {queue[0]: 0})
    assert next(p for _, p in session.waiting("Anna")) == queue[1]
    session.close()
