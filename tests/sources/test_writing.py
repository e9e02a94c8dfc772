"""The writer of tables: what it writes, the standard readers of each format give back."""

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kspr.errors import InputError
from kspr.sources.formats import find_format
from kspr.sources.opening import open_table
from kspr.sources.writing import write_batches, write_table

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
ROWS = st.lists(st.tuples(st.none() | TEXTS, st.none() | TEXTS), min_size=1, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, name=st.sampled_from(["x.csv", "x.tsv", "x.csv.gz"]))
def test_any_text_comes_back_from_a_csv_file(tmp_path, rows, name):
    """By Python's own reader as text; by ours, with missing values told from empty texts."""
    table = pa.table(
        {"a": pa.array([a for a, _ in rows], pa.string()), 'b,"c': [b for _, b in rows]}
    )
    write_table(tmp_path / name, table)
    content = (tmp_path / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    delimiter = "\t" if ".tsv" in name else ","
    header, *cells = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    assert header == ["a", 'b,"c']
    assert cells == [[a or "", b or ""] for a, b in rows]
    columns = open_table(tmp_path / name).columns(as_text=True)
    found = pa.Table.from_batches(columns.walk(), columns.schema)
    assert found.to_pylist() == [{"a": a, 'b,"c': b} for a, b in rows]


def test_one_column_of_nothing_is_still_rows(tmp_path):
    write_table(tmp_path / "x.csv", pa.table({"a": pa.array(["x", None, ""])}))
    assert (tmp_path / "x.csv").read_text() == 'a\nx\n""\n""\n'


def test_dictionaries_that_grow_are_written(tmp_path):
    """An Arrow file has one dictionary for all batches; those of a parquet file differ."""
    parts = [pa.array(words).dictionary_encode() for words in (["a", "b"], ["c"], ["b", "a"])]
    schema = pa.schema([("kind", parts[0].type)])
    batches = [pa.record_batch([part], schema=schema) for part in parts]
    for name in ("arrow", "parquet", "csv", "jsonl"):
        write_batches(tmp_path / f"x.{name}", find_format(name), schema, batches)
    expected = ["a", "b", "c", "b", "a"]
    assert pa.ipc.open_file(tmp_path / "x.arrow").read_all()["kind"].to_pylist() == expected
    found = pq.read_table(tmp_path / "x.parquet")["kind"]
    assert (found.to_pylist(), found.type) == (expected, parts[0].type)
    assert (tmp_path / "x.csv").read_text().split() == ["kind", *expected]
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == expected


def test_metadata_is_kept_where_the_format_has_it(tmp_path):
    field = pa.field("a", pa.int8(), metadata={"unit": "cm"})
    schema = pa.schema([field], {"mine": "yes"})
    table = pa.table({"a": pa.array([1], pa.int8())}, schema=schema)
    for name in ("x.parquet", "x.arrow"):
        write_table(tmp_path / name, table)
        found = open_table(tmp_path / name).columns().schema
        assert found.metadata[b"mine"] == b"yes"
        assert found.field("a").metadata[b"unit"] == b"cm"
        assert found.field("a").type == pa.int8()


def test_a_failure_leaves_nothing_behind(tmp_path):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise KeyboardInterrupt

    schema = pa.schema([("a", pa.int64())])
    for name in ("csv", "parquet", "arrow", "jsonl"):
        with pytest.raises(KeyboardInterrupt):
            write_batches(tmp_path / f"x.{name}", find_format(name), schema, batches())
    assert list(tmp_path.iterdir()) == []


def test_a_table_needs_a_suffix_of_a_table():
    with pytest.raises(InputError, match=r"--out must end in .csv, .parquet, .arrow or .jsonl"):
        write_table(Path("x.npy"), pa.table({"a": [1]}))


def test_a_type_that_csv_cannot_hold_is_refused(tmp_path):
    odd = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    with pytest.raises(InputError, match="A CSV file cannot hold the values of column 'a'"):
        write_table(tmp_path / "x.csv", pa.table({"a": odd}))
    assert list(tmp_path.iterdir()) == []
