"""What a person is shown of the rows that were drawn; and results that are kept with the run."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr import ProbabilitySelector
from kspr.runs.run import load_run
from kspr.runs.select import select_by_probabilities
from kspr.runs.verify import COLUMNS, draw_checks, rows_to_check, verification_of, verify_run
from kspr.selectors.checks import read_checks
from kspr.sources.options import ReadOptions

N = 60


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def answer(path, **changes):
    rows = [{**row, "true_label": changes.get(row["row"], row["label"])} for row in rows_of(path)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def texts(tmp_path, run_of, names):
    with (tmp_path / "t.csv").open("w", newline="") as file:
        lines = [[f"text,\nof {i} " * 90, name] for i, name in enumerate(names)]
        csv.writer(file).writerows([["text", "label"], *lines])
    return run_of(tmp_path / "t.csv")


def test_texts_are_shown_cut_and_on_one_line(texts, tmp_path):
    draw_checks(texts.folder, tmp_path / "out.csv", n=5, drawn="all")
    for entry in rows_of(tmp_path / "out.csv"):
        assert entry["text"].startswith(f"text, of {entry['row']} ")
        assert "\n" not in entry["text"]
        assert len(entry["text"]) <= 500


def test_images_are_shown_by_their_paths(tmp_path, run_of, names):
    lines = ["path,label"]
    for k, name in enumerate(names):
        Image.new("RGB", (2, 2), (k, 0, 0)).save(tmp_path / f"{k}.png")
        lines.append(f"{k}.png,{name}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    made = run_of(tmp_path / "list.csv")
    draw_checks(made.folder, tmp_path / "out.csv", n=7, drawn="all")
    for entry in rows_of(tmp_path / "out.csv"):
        assert entry["image"] == str(tmp_path / f"{entry['row']}.png")


def test_a_source_that_is_gone_leaves_row_and_id(texts, tmp_path):
    (tmp_path / "t.csv").unlink()
    draw_checks(texts.folder, tmp_path / "out.csv", n=5, drawn="all")
    assert list(rows_of(tmp_path / "out.csv")[0])[-1] == "drawn_from"


def test_answers_are_kept_with_the_run(texts, tmp_path):
    assert verification_of(texts) is None
    drawn = draw_checks(texts.folder, tmp_path / "out.csv", n=30)
    wrong = rows_of(drawn.path)[0]["row"]
    answer(drawn.path, **{wrong: "-"})
    found = verify_run(texts.folder, drawn.path)
    assert (found.n_counted, found.n_wrong) == (30, 1)
    again = load_run(texts.folder)
    assert verification_of(again) == found
    assert not again.selection.clean_mask[int(wrong)]


def test_a_run_by_probabilities_is_verified_like_any_other(tmp_path, names, true_names):
    classes = np.unique(names)
    # Surer of some rows than of others, so that there is an order.
    sure = np.linspace(0.5, 0.9, len(names))[:, None]
    P = np.where(true_names[:, None] == classes, sure, (1 - sure) / 2)
    columns = {f"p_{name}": P[:, k] for k, name in enumerate(classes)}
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"id": [f"r{k}" for k in range(N)], **columns, "y": names}), path)
    made = select_by_probabilities(
        path,
        tmp_path / "run",
        ProbabilitySelector(q=0.2),
        options=ReadOptions(probabilities="p_*"),
        command=("kspr", "select"),
    )
    drawn = draw_checks(made.folder, tmp_path / "out.csv", n=30)
    truth = {str(k): str(name) for k, name in enumerate(true_names)}
    answer(drawn.path, **truth)
    found = verify_run(made.folder, drawn.path)
    checked = [int(row["row"]) for row in rows_of(drawn.path)]
    right = names == true_names
    assert (found.n_counted, found.n_wrong) == (30, int((~right[checked]).sum()))
    assert found.n_wrong > 0
    again = load_run(made.folder)
    assert np.array_equal(again.selection.clean_mask[checked], right[checked])
    assert verification_of(again) == found


def test_rows_to_check_are_those_without_an_answer(texts, tmp_path):
    drawn = draw_checks(texts.folder, tmp_path / "a.csv", n=4)
    answer(drawn.path)
    verify_run(texts.folder, drawn.path)
    draw_checks(texts.folder, tmp_path / "b.csv", n=6)
    checks = read_checks(texts.folder, texts.selection)
    found = rows_to_check(texts, checks, 5)
    assert found.positions == checks.positions[4:9]
    lines = [[row[name] for name in COLUMNS] for row in rows_of(tmp_path / "b.csv")]
    assert list(found.lines) == lines[:5]


def test_a_draw_goes_on_after_a_sample_that_was_declared(texts, tmp_path, true_names):
    """Its rows are not the first ones of our order: they stay in the draw, others follow."""
    own = list(range(0, N, 7))
    lines = [f"{row},{true_names[row]},all" for row in own]
    (tmp_path / "own.csv").write_text("\n".join(["row,true_label,drawn_from", *lines]))
    before = verify_run(texts.folder, tmp_path / "own.csv")
    draw = draw_checks(texts.folder, tmp_path / "out.csv", n=5, drawn="all")
    assert (draw.n_before, draw.n_drawn) == (len(own), 5)
    checks = read_checks(texts.folder, texts.selection)
    new = [int(entry["row"]) for entry in rows_of(draw.path)]
    assert list(checks.positions) == own + new
    assert set(own).isdisjoint(new)
    assert verification_of(load_run(texts.folder)).n_kept == before.n_kept
