"""JSON lines and arrays of objects: the same rows as any table, and what is refused."""

import json

import pytest

from kspr.sources.opening import open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.readers.label_files import read_label_file

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
    assert str(found.features.tolist()) == "[[1.0, 0.5], [2.0, nan], [3.5, nan]]"
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
