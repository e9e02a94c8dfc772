"""FiftyOne's classification labels: joined to images by names without suffixes."""

import json

import numpy as np
import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers.json_tables import is_fiftyone
from kspr.sources.readers.label_files import read_label_file


@pytest.fixture
def write(tmp_path):
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
def test_every_form_of_a_label_is_read(write, labels, classes):
    assert read_label_file(write(labels, classes=classes)).tolist() == ["cat", "dog"]


def test_numbers_without_class_names_are_the_labels(write):
    assert read_label_file(write({"a": 3, "b": 5})).tolist() == ["3", "5"]


@pytest.fixture
def photos(tmp_path):
    for name in ("x/1.png", "x/2.jpg", "y/1.png"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_images_are_found_without_their_suffixes(write, photos):
    labels = write({"y/1": "dog", "x/2": "cat", "x/1": "otter", "gone": "cat"})
    found = open_source(photos, ReadOptions(labels=labels))
    assert found.row_id.tolist() == ["x/1.png", "x/2.jpg", "y/1.png"]
    assert found.label.tolist() == ["otter", "cat", "dog"]
    assert found.notes == (f"1 row of {labels} are about no row of {photos}.",)


def test_images_that_differ_in_their_suffix_only_are_not_mixed_up(write, photos):
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(photos / "x" / "1.jpg")
    labels = write({"y/1": "dog", "x/2": "cat", "x/1": "otter"})
    with pytest.raises(InputError, match="has none of the ids of"):
        open_source(photos, ReadOptions(labels=labels))


def test_an_image_without_a_label_is_named(write, photos):
    labels = write({"y/1": "dog", "x/2": None, "x/1": {"label": None}})
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
def test_other_shapes_are_refused_in_one_sentence(write, labels, classes, complaint):
    with pytest.raises(InputError) as caught:
        read_label_file(write(labels, classes=classes))
    assert complaint in str(caught.value)


def test_json_lines_and_other_documents_are_not_taken_for_it():
    assert not is_fiftyone({"label": "cat"})
    assert not is_fiftyone({"labels": ["cat"]})
    assert not is_fiftyone([{"labels": {}}])
