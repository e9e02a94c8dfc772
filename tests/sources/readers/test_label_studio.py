"""Tasks of Label Studio: one answer a task, by the rules that several reviewers have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers.json_tables import is_tasks, open_tasks
from kspr.sources.readers.label_files import open_label_file


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
