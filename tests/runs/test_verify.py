"""What a person is shown of the rows that were drawn; and results that are kept with the run."""

import csv
from functools import partial

import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.runs.run import load_run
from kspr.runs.verify import draw_checks, load_verification, verify_run

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
    draw_checks(texts.folder, tmp_path / "out.csv", sample=5, pool="all", seed=0)
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
    draw_checks(made.folder, tmp_path / "out.csv", sample=7, pool="all", seed=0)
    for entry in rows_of(tmp_path / "out.csv"):
        assert entry["image"] == str(tmp_path / f"{entry['row']}.png")


def test_a_source_that_is_gone_leaves_row_and_id(texts, tmp_path):
    (tmp_path / "t.csv").unlink()
    draw_checks(texts.folder, tmp_path / "out.csv", sample=5, pool="all", seed=0)
    assert list(rows_of(tmp_path / "out.csv")[0])[-1] == "drawn_from"


def test_the_result_is_kept_with_the_run(texts, tmp_path, names):
    assert load_verification(texts) is None
    drawn = draw_checks(texts.folder, tmp_path / "out.csv", sample=30, pool="kept", seed=0)
    wrong = rows_of(drawn.path)[0]["row"]
    answer(drawn.path, **{wrong: "-"})
    found = verify_run(texts.folder, drawn.path)
    assert found.n_wrong == 1
    assert found.wrong_rows == (int(wrong),)
    assert load_verification(load_run(texts.folder)) == found


@pytest.mark.parametrize("name", ["checks.json", "verification.json"])
def test_a_damaged_note_in_the_run_is_one_sentence(texts, tmp_path, name):
    draw_checks(texts.folder, tmp_path / "out.csv", sample=30, pool="kept", seed=0)
    answer(tmp_path / "out.csv")
    verify_run(texts.folder, tmp_path / "out.csv")
    (texts.folder / name).write_text("{")
    again = (texts.folder, tmp_path / "out.csv")
    ask = (
        partial(verify_run, *again) if name == "checks.json" else partial(load_verification, texts)
    )
    with pytest.raises(InputError, match=rf"{name} cannot be read: it is cut short or damaged"):
        ask()
