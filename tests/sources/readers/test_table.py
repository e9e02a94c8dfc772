"""Tables and cells: names of columns and members, and segments that are loaded on demand."""

from types import SimpleNamespace

import pyarrow as pa
import pytest

from kspr.errors import InputError
from kspr.sources.readers.table import ArrowTable, Cells, Segment, fields_of, sound


def cells(loaded, budget=10):
    def load(number):
        loaded.append(number)
        return pa.array(range(number * 3, number * 3 + 3))

    return Cells([Segment(3, 6, lambda n=n: load(n)) for n in range(4)], budget=budget)


def test_only_the_segment_that_is_asked_for_is_loaded():
    loaded = []
    found = cells(loaded)
    assert len(found) == 12
    assert (found[7], found[8], found[6]) == (7, 8, 6)
    assert loaded == [2]
    assert list(found) == list(range(12))
    with pytest.raises(IndexError):
        found[12]


def test_segments_beyond_the_budget_are_dropped_the_oldest_first():
    loaded = []
    found = cells(loaded, budget=12)
    for row in (0, 3, 0, 6, 0, 3):
        assert found[row] == row
    assert loaded == [0, 1, 2, 1]


def test_members_of_structs_have_names_of_their_own():
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    found = fields_of(pa.schema([("img", kind), ("img.path", pa.int8())]), "x")
    assert list(found) == ["img", "img.bytes", "img.path"]
    assert found["img.bytes"].path == ("img", "bytes")
    assert found["img.path"].path in {("img.path",), ("img", "path")}
    with pytest.raises(InputError, match=r"x has more than one column named 'a'\. Rename"):
        fields_of(pa.schema([("a", pa.int8()), ("a", pa.int8())]), "x")


def test_an_array_whose_parts_do_not_fit_is_refused():
    broken = pa.array([b"\xff"]).view(pa.string())
    with pytest.raises(InputError, match="x holds damaged data"):
        sound(broken, "x")
    assert sound(pa.array(["a"]), "x").to_pylist() == ["a"]


def test_columns_are_all_of_a_table_as_it_is():
    table = pa.table({"a": [1, None], "b": [{"c": "x"}, None]}).replace_schema_metadata({"m": "1"})
    for as_text in (False, True):
        columns = ArrowTable(table, "x").columns(as_text=as_text)
        found = pa.Table.from_batches(columns.walk(), columns.schema)
        assert found.equals(table, check_metadata=True)


def test_repeated_column_names_are_found_in_one_pass():
    """Names are compared by hash: with 60,000 columns, comparing all pairs would take minutes."""
    compared = 0

    class Name(str):
        __slots__ = ()

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(f"c{i}") for i in range(2000)]
    schema = SimpleNamespace(names=[*names, Name("c7")])
    with pytest.raises(InputError, match="more than one column named 'c7'"):
        fields_of(schema, "t.csv")
    assert compared < 10 * len(names)


def test_column_names_that_are_not_utf8_are_refused(refusal, text_file):
    path = text_file(b'{"caf\xe9": 1, "label": "a"}\n{"caf\xe9": 2, "label": "b"}\n', "x.jsonl")
    assert "has a column whose name is not UTF-8" in refusal(path)
