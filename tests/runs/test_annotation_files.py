"""Rows for Label Studio and FiftyOne: what is written, and that the answers come back."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs._item_files import _config
from kspr.runs.draws import draw_checks
from kspr.runs.export import export_run
from kspr.runs.review_log import CANNOT_TELL, NO_CLASS
from kspr.runs.run import load_run
from kspr.runs.verify import verify_run
from kspr.sources.joining import open_label_file
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers.json_tables import CONTROL
from tests.runs.tables import N
from tests.runs.test_image_files import image, write_photos


@pytest.fixture
def texts(tmp_path, run_of, names):
    lines = [f"t{i},some <b>words</b> {i},{name}" for i, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["id,text,label", *lines]))
    return run_of(tmp_path / "t.csv")


@pytest.fixture
def photos(tmp_path, run_of, names):
    at = [f"day {k:02}/photo.{k}.png" for k in range(N)]
    return run_of(tmp_path / "photos", write_photos(tmp_path / "photos", names, at))


def exported(run, out, to, **how):
    made = export_run(run.folder, out, to, **how)
    return made, json.loads(out.read_text())


def annotated(task, choice):
    """Return a task as it is once somebody has chosen."""
    value = {"choices": [choice]}
    result = {"from_name": CONTROL, "to_name": "item", "type": "choices", "value": value}
    return {**task, "id": 5, "annotations": [{"id": 1, "completed_by": 2, "result": [result]}]}


def test_suspects_are_tasks_the_worst_first_with_our_suggestion(texts, tmp_path):
    made, tasks = exported(texts, tmp_path / "t.json", "label-studio")
    selection = texts.selection
    worst = selection.suspect_indices
    assert made.rows == len(worst)
    assert [task["data"]["row_id"] for task in tasks] == [f"t{k}" for k in worst]
    for k, task in zip(worst, tasks, strict=True):
        data, (prediction,) = task["data"], task["predictions"]
        assert data["text"] == f"some <b>words</b> {k}"
        assert data["kspr_given_label"] == selection.label[k]
        assert data["kspr_clean"] is False
        assert data["kspr_doubt"] == pytest.approx(selection.doubt[k])
        assert prediction["score"] == pytest.approx(selection.suggestion_probability[k])
        assert prediction["result"][0]["value"]["choices"] == [selection.suggested_label[k]]
        assert prediction["model_version"].startswith("kspr ")
    view = ElementTree.fromstring((tmp_path / "t.xml").read_text())  # noqa: S314 - our own
    assert view.find("Text").get("value") == "$text"
    choices = [choice.get("alias", choice.get("value")) for choice in view.find("Choices")]
    assert choices == ["cat", "dog", "otter", "-", "?"]


def test_all_rows_come_in_their_order(texts, tmp_path):
    _, tasks = exported(texts, tmp_path / "t.json", "label-studio", rows="all")
    assert [task["data"]["kspr_row"] for task in tasks] == list(range(N))


def test_images_are_named_below_the_folder_that_label_studio_serves(photos, tmp_path):
    _, tasks = exported(photos, tmp_path / "t.json", "label-studio")
    for task in tasks:
        row_id = task["data"]["row_id"].replace(" ", "%20")
        assert task["data"]["image"] == f"/data/local-files/?d=photos/{row_id}"


def test_answers_to_drawn_rows_move_the_cut_as_a_csv_file_does(texts, tmp_path, true_names):
    csv_file = tmp_path / "checks.csv"
    draw_checks(texts.folder, csv_file, n=30, drawn="all")
    _, tasks = exported(texts, tmp_path / "t.json", "label-studio", rows="drawn")
    done = [annotated(task, str(true_names[task["data"]["kspr_row"]])) for task in tasks]
    (tmp_path / "done.json").write_text(json.dumps([*done[:20], *tasks[20:]]))
    found = verify_run(texts.folder, tmp_path / "done.json")
    assert (found.n_drawn, found.n_counted) == (30, 20)
    kept = load_run(texts.folder).selection.clean_mask
    head, *lines = csv_file.read_text().splitlines()
    truth = [true_names[int(line.split(",")[0])] for line in lines[:20]]
    filled = [line.replace(",,all", f",{name},all") for line, name in zip(lines, truth)]  # noqa: B905
    csv_file.write_text("\n".join([head, *filled]))
    assert verify_run(texts.folder, csv_file) == found
    np.testing.assert_array_equal(load_run(texts.folder).selection.clean_mask, kept)


def test_answers_of_suspects_are_chosen_and_written_back(texts, tmp_path, true_names):
    _, tasks = exported(texts, tmp_path / "t.json", "label-studio")
    done = [annotated(task, str(true_names[task["data"]["kspr_row"]])) for task in tasks]
    done[0] = annotated(tasks[0], "?")
    (tmp_path / "done.json").write_text(json.dumps(done))
    with pytest.raises(InputError, match="--drawn chosen"):
        verify_run(texts.folder, tmp_path / "done.json")
    verify_run(texts.folder, tmp_path / "done.json", "chosen")
    export_run(texts.folder, tmp_path / "clean.parquet", None)
    clean = pq.read_table(tmp_path / "clean.parquet").to_pylist()
    label = {row["id"]: row["label"] for row in clean}
    ids = [task["data"]["row_id"] for task in tasks]
    assert ids[0] not in label
    assert all(label[i] == true_names[int(i[1:])] for i in ids[1:])


def test_nothing_was_drawn(texts, tmp_path):
    with pytest.raises(InputError, match=r"No rows were drawn .* --checks 100"):
        export_run(texts.folder, tmp_path / "t.json", "label-studio", rows="drawn")


def test_fiftyone_gets_all_images_and_gives_their_labels_back(photos, tmp_path, names):
    made, found = exported(photos, tmp_path / "labels.json", "fiftyone")
    assert made.rows == N == len(found["labels"])
    assert found["classes"] == ["cat", "dog", "otter"]
    entry = found["labels"]["day 03/photo.3"]
    assert found["classes"][entry["label"]] == names[3]
    assert entry["attributes"]["kspr_clean"] is bool(photos.selection.clean_mask[3])
    assert entry["attributes"]["kspr_suggested_label"] == photos.selection.suggested_label[3]
    again = open_source(tmp_path / "photos", ReadOptions(labels=tmp_path / "labels.json"))
    np.testing.assert_array_equal(again.label, names)


def test_images_with_one_name_but_for_the_suffix_are_refused(tmp_path, run_of, names):
    at = ["00.jpg", "00.png", *(f"{k:02}.png" for k in range(2, N))]
    run = run_of(tmp_path / "photos", write_photos(tmp_path / "photos", names, at))
    with pytest.raises(InputError, match="Two images are called '00' but for their suffixes"):
        export_run(run.folder, tmp_path / "l.json", "fiftyone")
    assert not (tmp_path / "l.json").exists()


def test_rows_that_are_gone_or_changed_are_left_out_and_named(tmp_path, run_of, names):
    lines = [f"t{i},words {i},{name}" for i, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["id,text,label", *lines]))
    run = run_of(tmp_path / "t.csv")
    first, second = run.selection.suspect_indices[:2]
    lines[first] = lines[first].replace("words", "other words")
    del lines[second]
    (tmp_path / "t.csv").write_text("\n".join(["id,text,label", *lines]))
    made, tasks = exported(run, tmp_path / "t.json", "label-studio")
    assert made.rows == len(tasks) == len(run.selection.suspect_indices) - 2
    assert any(f"'t{second}'" in note for note in made.notes)


@pytest.mark.parametrize("to", ["label-studio", "fiftyone"])
def test_sources_without_files_of_images_or_texts_are_refused(tmp_path, run_of, names, to):
    pq.write_table(
        pa.table({"img": [image(k) for k in range(N)], "label": names}), tmp_path / "x.pq"
    )
    run = run_of(tmp_path / "x.pq")
    with pytest.raises(InputError, match=r"in no files of their own.*--to imagefolder"):
        export_run(run.folder, tmp_path / "t.json", to)
    np.savez(tmp_path / "x.npz", X=np.arange(2 * N).reshape(N, 2), y=names)
    run = run_of(tmp_path / "x.npz")
    with pytest.raises(InputError, match=r"holds neither images nor texts|holds no images"):
        export_run(run.folder, tmp_path / "t.json", to)
    assert not list(tmp_path.glob("t.*"))


def test_images_outside_of_the_folder_are_refused(tmp_path, run_of, names):
    (tmp_path / "lists").mkdir()
    lines = [f"{tmp_path}/{k}.png,{name}" for k, name in enumerate(names)]
    for k in range(N):
        (tmp_path / f"{k}.png").write_bytes(image(k))
    (tmp_path / "lists" / "l.csv").write_text("\n".join(["path,label", *lines]))
    run = run_of(tmp_path / "lists" / "l.csv")
    with pytest.raises(InputError, match="is outside of"):
        export_run(run.folder, tmp_path / "t.json", "fiftyone")


def test_options_of_the_other_kind_are_refused_and_nothing_is_overwritten(texts, tmp_path):
    with pytest.raises(InputError, match="choose them with --rows"):
        export_run(texts.folder, tmp_path / "t.json", "label-studio", "drop")
    with pytest.raises(InputError, match="For csv, say what becomes of suspects"):
        export_run(texts.folder, tmp_path / "t.csv", None, rows="all")
    (tmp_path / "t.xml").write_text("mine")
    with pytest.raises(InputError, match=r"t\.xml already exists"):
        export_run(texts.folder, tmp_path / "t.json", "label-studio")


def test_class_names_cannot_break_the_config():
    odd = ['<a href="x">', "a&b", "it's", 'say "hi"', "café 🦦", "two\nlines"]
    view = ElementTree.fromstring(_config("image", odd))  # noqa: S314 - our own
    assert [choice.get("value") for choice in view.find("Choices")][:6] == odd
    assert view.find("Choices").get("layout") == "inline"
    many = ElementTree.fromstring(_config("text", [str(k) for k in range(30)]))  # noqa: S314
    assert many.find("Choices").get("layout") == "select"
    with pytest.raises(InputError, match=r"XML, which cannot hold the class 'a\\x00'"):
        _config("image", ["a\0"])


def test_answers_that_are_no_class_are_no_labels(texts, tmp_path):
    _, tasks = exported(texts, tmp_path / "t.json", "label-studio", rows="all")
    view = ElementTree.fromstring((tmp_path / "t.xml").read_text())  # noqa: S314 - our own
    answers = [choice.get("alias") for choice in view.find("Choices") if choice.get("alias")]
    assert answers == [NO_CLASS, CANNOT_TELL]
    done = [annotated(task, answer) for task, answer in zip(tasks, [*answers, "cat"], strict=False)]
    (tmp_path / "done.json").write_text(json.dumps(done))
    assert open_label_file(tmp_path / "done.json").empty.tolist() == [0, 1]


def test_a_class_that_is_called_like_an_answer_is_that_class():
    view = ElementTree.fromstring(_config("image", ["-", "a"]))  # noqa: S314 - our own
    assert [c.get("alias", c.get("value")) for c in view.find("Choices")] == ["-", "a", "?"]


def test_numbers_that_json_lacks_are_left_out(tmp_path, run_of, names, selection):
    endless = replace(selection, q_value=np.full(N, np.inf))
    lines = [f"words {i},{name}" for i, name in enumerate(names)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines]))
    run = run_of(tmp_path / "t.csv", made=endless)
    _, tasks = exported(run, tmp_path / "t.json", "label-studio", rows="all")
    assert "Infinity" not in (tmp_path / "t.json").read_text()
    assert all("kspr_q_value" not in task["data"] for task in tasks)
