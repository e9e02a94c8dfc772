"""JSON lines, arrays of objects, and the documents of Label Studio and FiftyOne."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from kspr.errors import InputError
from kspr.sources.joining import open_label_file, read_label_file
from kspr.sources.opening import open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.readers.json_tables import is_fiftyone, is_tasks, open_tasks

ROWS = [
    {"id": 1, "a": 1, "b": 0.5, "label": "cat"},
    {"id": 2, "a": 2, "b": None, "label": "dog"},
    {"id": 3, "a": 3.5, "label": "cat"},
]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (LINES, "x.jsonl"),
        (LINES, "x.json"),
        (b"\xef\xbb\xbf" + LINES.encode(), "x.ndjson"),
        (LINES.replace("\n", "\r\n\r\n"), "x.jsonl"),
        (LINES.encode("utf-16"), "x.jsonl"),
        (json.dumps(ROWS, indent=1), "x.json"),
    ],
)
def test_objects_are_rows(text_file, content, name):
    found = open_source(text_file(content, name), ReadOptions(id="id"))
    values = open_table(found.source).read([open_table(found.source).fields[name] for name in "ab"])
    assert [column.to_pylist() for column in values] == [[1, 2, 3.5], [0.5, None, None]]
    assert found.features.shape == (3, 3)
    assert found.label.tolist() == ["cat", "dog", "cat"]
    assert found.row_id.tolist() == ["1", "2", "3"]
    assert found.reader == "jsonl"


def test_lists_and_texts_are_read_as_in_any_table(text_file):
    lists = text_file('{"emb": [1, 2.5], "y": 0}\n{"emb": [3, 4], "y": 1}\n', "x.jsonl")
    assert open_source(lists).features.tolist() == [[1, 2.5], [3, 4]]
    texts = text_file('{"text": "one", "y": true}\n{"text": "two", "y": false}\n', "t.jsonl")
    found = open_source(texts)
    assert ([found.items[0], found.items[1]], found.label.tolist()) == (
        ["one", "two"],
        [True, False],
    )


def test_labels_that_look_like_dates_stay_as_they_are_written(text_file):
    path = text_file('{"a": 1, "y": "2020-01-01"}\n{"a": 2, "y": "2020-01-02"}\n', "x.jsonl")
    assert open_source(path).label.tolist() == ["2020-01-01", "2020-01-02"]


def test_a_table_of_lines_has_all_columns_and_can_hold_labels(text_file):
    path = text_file(LINES, "x.jsonl")
    assert list(open_table(path).fields) == ["id", "a", "b", "label"]
    assert read_label_file(path).tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"a": 1, "y": 0}\n{"a": 2\n', "a file of JSON lines: line 2 is '{\"a\": 2'. Each line"),
        ('{"a": 1, "y": 0}\n[1]\n', "line 2 is '[1]'. Each line must hold one whole object."),
        ('{"a": 1, "y": 0}\n{"a": "x", "y": 1}\n', "A name must have values of one type."),
        ("a,y\n1,0\n", "is not a file of JSON lines: it begins with 'a'."),
        ("[1, 2]", "must hold an array of JSON objects, one per row."),
        ("[]", "has no rows."),
        ('[{"a": 1}, {"a": ', "it may be cut short or damaged"),
        ('[{"a": [1]}, {"a": 2}]', "it may be cut short or damaged"),
        ("[" * 100_000, "it may be cut short or damaged"),
        ('{"a": {"b": ' * 5000, "is not a file of JSON lines: line 1 is"),
        (b"", "is empty."),
        ('{"a": 1, "a": 2, "y": 0}\n', "x.json"),
    ],
)
def test_what_is_no_table_is_refused(text_file, refusal, content, complaint):
    assert complaint in refusal(text_file(content, "x.json"))


def chosen(*choices, name="label", **more):
    """Return an annotation in which somebody chose."""
    value = {"choices": list(choices)}
    result = [{"from_name": name, "to_name": "item", "type": "choices", "value": value}]
    return {"result": result, "was_cancelled": False, "ground_truth": False, **more}


SKIPPED = {"result": [], "was_cancelled": True}
EMPTY = {"result": [], "was_cancelled": False}


@pytest.fixture
def write(tmp_path):
    def write_tasks(*annotations, **more):
        tasks = [
            {"id": 7 * k, "data": {"row_id": f"r{k}", "text": f"words {k}"}, "annotations": found}
            for k, found in enumerate(annotations)
        ]
        path = tmp_path / "tasks.json"
        path.write_text(json.dumps([{**task, **more} for task in tasks]))
        return path

    return write_tasks


@pytest.mark.parametrize(
    ("annotations", "answered", "choice"),
    [
        ([], False, None),
        ([chosen("cat")], True, "cat"),
        ([chosen("cat"), chosen("cat")], True, "cat"),
        ([chosen("cat"), chosen("dog")], True, None),
        ([chosen("cat"), SKIPPED], True, None),
        ([SKIPPED], True, None),
        ([EMPTY], True, None),
        ([chosen("cat"), chosen("dog", ground_truth=True)], True, "dog"),
        ([chosen("cat", ground_truth=True), chosen("dog", ground_truth=True)], True, None),
        ([chosen("cat", was_cancelled=True)], True, None),
    ],
)
def test_people_must_agree_unless_a_ground_truth_settles_it(write, annotations, answered, choice):
    (task,) = open_tasks(write(annotations))
    assert (task.answered, task.choice) == (answered, choice)
    assert task.data["row_id"] == "r0"


@given(st.lists(st.sampled_from(["cat", "dog", None]), min_size=1), st.randoms())
def test_the_order_of_annotations_does_not_matter(answers, random):
    from kspr.sources.readers.json_tables import tasks_in

    found = [SKIPPED if answer is None else chosen(answer) for answer in answers]
    shuffled = random.sample(found, len(found))
    first, second = (tasks_in([{"data": {}, "annotations": a}], "x") for a in (found, shuffled))
    assert first == second
    assert first[0].choice == (answers[0] if len(set(answers)) == 1 else None)


def test_predictions_and_other_questions_are_no_answers(write):
    predicted = {"predictions": [chosen("dog")], "drafts": [chosen("dog")]}
    (task,) = open_tasks(write([], **predicted))
    assert not task.answered
    two = {"result": [*chosen("cat")["result"], *chosen("blurred", name="quality")["result"]]}
    two["result"].append({"type": "textarea", "from_name": "note", "value": {"text": ["?"]}})
    assert [task.choice for task in open_tasks(write([two], [two]))] == ["cat", "cat"]


def test_one_question_may_have_any_name_and_several_must_be_told_apart(write):
    assert open_tasks(write([chosen("cat", name="animal")]))[0].choice == "cat"
    several = write([chosen("cat", name="animal")], [chosen("red", name="colour")])
    with pytest.raises(InputError, match="several questions: 'animal', 'colour'"):
        open_tasks(several)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("[", "cannot be read as a JSON file of Label Studio"),
        ("[]", "holds no tasks of Label Studio"),
        ('[{"label": "cat", "row_id": "r0"}]', "JSON-MIN leaves out who answered what"),
        ('[{"data": {}, "annotations": 3}]', "task 1: 'annotations' must be a list of objects"),
        ('[{"data": {}, "annotations": [[]]}]', "'annotations' must be a list of objects"),
        ('[{"data": {}, "annotations": [{"result": {}}]}]', "'result' must be a list of objects"),
        (
            '[{"data": {}, "annotations": [{"result": [{"type": "choices", "value": "cat"}]}]}]',
            "a result of the type 'choices' has no list of choices",
        ),
        (
            json.dumps([{"data": {}, "annotations": [chosen("cat", "dog")]}]),
            "task 1 has the choices 'cat', 'dog' in one annotation; a row has one label",
        ),
        ("[" * 100_000, "cannot be read as a JSON file"),
    ],
)
def test_other_shapes_are_refused_in_one_sentence(tmp_path, content, complaint):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(InputError) as caught:
        open_tasks(tmp_path / "t.json")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tasks_are_labels_of_rows_with_the_same_ids(write, tmp_path):
    path = write(
        *([chosen("cat")], [chosen("dog")], [chosen("cat"), chosen("dog")], [chosen("?")]),
        *([chosen("-")], [SKIPPED], []),
    )
    file = open_label_file(path)
    assert file.label[:2].tolist() == ["cat", "dog"]
    assert file.ids["row_id"].tolist() == [f"r{k}" for k in range(7)]
    assert file.empty.tolist() == [2, 3, 4, 5, 6]
    (tmp_path / "x.csv").write_text("id,f\nr1,1\nr0,2\n")
    found = open_source(tmp_path / "x.csv", ReadOptions(labels=path))
    assert found.label.tolist() == ["dog", "cat"]


def test_a_table_with_a_column_data_is_no_list_of_tasks():
    assert not is_tasks([{"data": {"a": 1}, "label": "cat"}])
    assert not is_tasks({"data": {}})
    assert is_tasks([{"data": {}, "predictions": []}])


@pytest.fixture
def write_labels(tmp_path):
    def write_labels(labels, **more):
        path = tmp_path / "labels.json"
        path.write_text(json.dumps({**more, "labels": labels}, indent=1))
        return path

    return write_labels


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ({"a": "cat", "b": "dog"}, None),
        ({"a": 0, "b": 1}, ["cat", "dog"]),
        ({"a": "cat", "b": "dog"}, ["cat", "dog"]),
        ({"a": {"label": 0, "confidence": 0.5}, "b": {"label": 1}}, ["cat", "dog"]),
        ({"a": {"label": "cat", "attributes": {"kspr_doubt": 0.5}}, "b": "dog"}, None),
    ],
)
def test_every_form_of_a_label_is_read(write_labels, labels, classes):
    assert read_label_file(write_labels(labels, classes=classes)).tolist() == ["cat", "dog"]


@pytest.mark.parametrize("name", ["labels.json", "rows.json"])
def test_a_document_that_is_not_utf8_is_named_with_its_line(tmp_path, name):
    labels = {"a": "caf\xe9", "b": "dog"}
    rows = [{"label": label} for label in labels.values()]
    document = {"classes": [], "labels": labels} if name == "labels.json" else rows
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=rf"{name} is not UTF-8: line [34] \(byte \d+\) has"):
        read_label_file(tmp_path / name)


def test_numbers_without_class_names_are_the_labels(write_labels):
    assert read_label_file(write_labels({"a": 3, "b": 5})).tolist() == ["3", "5"]


@pytest.fixture
def photos(tmp_path):
    for name in ("x/1.png", "x/2.jpg", "y/1.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_images_are_found_without_their_suffixes(write_labels, photos):
    labels = write_labels({"y/1": "dog", "x/2": "cat", "x/1": "otter", "gone": "cat"})
    found = open_source(photos, ReadOptions(labels=labels))
    assert found.row_id.tolist() == ["x/1.png", "x/2.jpg", "y/1.png"]
    assert found.label.tolist() == ["otter", "cat", "dog"]
    assert found.notes == (f"1 row of {labels} are about no row of {photos}.",)


def test_images_that_differ_in_their_suffix_only_are_not_mixed_up(write_labels, photos):
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(photos / "x" / "1.jpg")
    labels = write_labels({"y/1": "dog", "x/2": "cat", "x/1": "otter"})
    with pytest.raises(InputError, match="has none of the ids of"):
        open_source(photos, ReadOptions(labels=labels))


def test_an_image_without_a_label_is_named(write_labels, photos):
    labels = write_labels({"y/1": "dog", "x/2": None, "x/1": {"label": None}})
    with pytest.raises(InputError, match=r"no label for 2 rows of .*'x/1.png', 'x/2.jpg'"):
        open_source(photos, ReadOptions(labels=labels))
    kept = open_source(photos, ReadOptions(labels=labels, missing="drop"))
    assert kept.labelled().tolist() == [2]


@pytest.mark.parametrize(
    ("labels", "classes", "complaint"),
    [
        ({}, None, "has no rows"),
        ({"a": 2}, ["cat", "dog"], "the label of 'a' is 2, but there are 2 classes"),
        ({"a": -1}, ["cat", "dog"], "the label of 'a' is -1"),
        ({"a": ["cat", "dog"]}, None, "'a' must be a text or a class number; an image has one"),
        ({"a": 0.5}, None, "must be a text or a class number"),
        ({"a": True}, ["cat", "dog"], "must be a text or a class number"),
        ({"a": 0}, "cat", "'classes' must be a list of names"),
        ({"a": 0}, [{}], "'classes' must be a list of names"),
    ],
)
def test_other_shapes_of_fiftyone_are_refused_in_one_sentence(
    write_labels, labels, classes, complaint
):
    with pytest.raises(InputError) as caught:
        read_label_file(write_labels(labels, classes=classes))
    assert complaint in str(caught.value)


def test_json_lines_and_other_documents_are_not_taken_for_it():
    assert not is_fiftyone({"label": "cat"})
    assert not is_fiftyone({"labels": ["cat"]})
    assert not is_fiftyone([{"labels": {}}])


@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "labels.json"])
def test_halves_of_characters_are_one_sentence(tmp_path, refusal, name):
    rows = [{"a": 1.5, "label": "\ud800"}, {"a": 2.5, "label": "x"}]
    document = {"labels": {"\ud800": "x", "b": "y"}} if name == "labels.json" else rows
    text = "\n".join(map(json.dumps, rows)) if name == "x.jsonl" else json.dumps(document)
    (tmp_path / name).write_text(text)
    assert f"{name} cannot be read as a" in refusal(tmp_path / name)
