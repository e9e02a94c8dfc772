"""Tables as records: files, folders, data frames, cells and members."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
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


def test_saved_data_sets_are_read_with_their_class_names(saved):
    found = open_source(saved, ReadOptions())
    assert found.reader == "huggingface"
    assert found.label.tolist() == ["cat", "dog"] * 4
    assert found.items[6].getpixel((0, 0)) == (6, 0, 0)


def test_the_package_of_hugging_face_is_not_needed(saved):
    code = (
        "import sys; from pathlib import Path; sys.modules['datasets'] = None\n"
        "from kspr.sources.opening import open_source\n"
        f"print(len(open_source(Path({str(saved)!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["8"]


def test_a_saved_dictionary_of_splits_is_a_question(tmp_path, saved, refusal):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    message = refusal(tmp_path)
    assert "holds the splits 'train', 'test'. Name one, such as " in message
    assert message.endswith("train.")


def test_a_real_data_set_saved_to_disk(tmp_path, picture):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    images = [{"bytes": picture(i), "path": None} for i in range(5)]
    rows = {"image": images, "label": [0, 1, 0, 1, 0]}
    data = datasets.Dataset.from_dict(rows, features=features)
    data.save_to_disk(str(tmp_path / "saved"), num_shards=2)
    data.to_parquet(str(tmp_path / "x.parquet"))
    for source in (tmp_path / "saved", tmp_path / "x.parquet", data, data.with_format("torch")):
        found = open_source(source, ReadOptions())
        assert found.label.tolist() == ["cat", "dog", "cat", "dog", "cat"]
        assert found.items[3].getpixel((0, 0)) == (3, 0, 0)
    moved = open_source(data.select([4, 3]), ReadOptions())
    assert moved.label.tolist() == ["cat", "dog"]
    assert moved.items[0].getpixel((0, 0)) == (4, 0, 0)


def test_a_folder_of_shards_is_one_table(parquet_file, table):
    for shard in range(3):
        path = parquet_file(table.slice(shard * 10, 10), f"train-{shard:05d}-of-00003.parquet")
    found = open_source(path.parent, ReadOptions(id="key"))
    assert found.row_id.tolist() == [f"row-{i}" for i in range(30)]


def test_shards_of_several_splits_are_a_question(parquet_file, table, refusal):
    parquet_file(table, "test-0.parquet")
    path = parquet_file(table, "train-0.parquet")
    assert "holds several splits: 'test', 'train'. Name one file" in refusal(path.parent)


def test_shards_that_differ_are_refused(parquet_file, table, refusal):
    parquet_file(table, "a.parquet")
    path = parquet_file(table.drop_columns("emb_0"), "b.parquet")
    message = refusal(path.parent)
    assert "a.parquet has the column 'emb_0', and " in message
    assert "b.parquet does not." in message


@pytest.mark.parametrize(
    "state",
    [
        "[]",
        "{}",
        '{"_data_files": 5}',
        '{"_data_files": {"a": 1}}',
        '{"_data_files": ["x.arrow"]}',
        '{"_data_files": [{"filename": 7}]}',
        '{"_data_files": [{"filename": ""}]}',
        '{"_data_files": [{"name": "x.arrow"}]}',
    ],
)
def test_wrong_types_in_the_list_of_files_are_one_sentence(saved, refusal, state):
    (saved / "state.json").write_text(state)
    assert "state.json " in refusal(saved)


@pytest.mark.parametrize("splits", ["5", '{"train": 1}', "[1, 2]", "null"])
def test_wrong_types_in_the_list_of_splits_are_one_sentence(saved, refusal, splits):
    (saved / "dataset_dict.json").write_text(f'{{"splits": {splits}}}')
    assert "holds the splits" in refusal(saved)


@pytest.mark.parametrize(
    "names", ["5", "null", '{"a": 1}', '"cat"', "[[1]]", "[" * 3000 + "]" * 3000]
)
def test_wrong_types_in_the_class_names_do_no_harm(parquet_file, names):
    about = f'{{"info": {{"features": {{"y": {{"names": {names}, "_type": "ClassLabel"}}}}}}}}'
    table = pa.table({"a": [0.5, 1.5], "y": [0, 0]})
    path = parquet_file(table.replace_schema_metadata({b"huggingface": about.encode()}))
    assert open_source(path).label.tolist() == [0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.to_batches()[0],
        lambda table: table.to_pandas(),
        lambda table: pl.from_arrow(table),
        lambda table: pl.from_arrow(table).lazy(),
        lambda table: table.to_pandas().assign(label=lambda d: d.label.astype("category")),
    ],
)
def test_tables_in_memory_are_read_like_files(table, features, names, make):
    found = open_source(make(table), ReadOptions(id="key"))
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    assert found.row_id[29] == "row-29"
    assert str(found.source).startswith("<")


def test_data_frames_of_lists_are_features(features):
    frame = pd.DataFrame({"emb": list(features), "y": np.arange(30) % 2})
    np.testing.assert_array_equal(open_source(frame, ReadOptions()).features, features)
    frame = pl.DataFrame({"emb": features, "y": np.arange(30) % 2})
    np.testing.assert_array_equal(open_source(frame, ReadOptions()).features, features)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_probabilities_are_read_beside_features_with_their_names(tmp_path, suffix):
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "p_b": [0.25, 0.5, 1], "p_a": [0.75, 0.5, 0]})
    path = tmp_path / f"t.{suffix}"
    getattr(frame.assign(y=["a", "b", "a"]), f"to_{suffix}")(path, index=False)
    found = open_source(path, ReadOptions(probabilities="p_*"))
    np.testing.assert_array_equal(found.probabilities, frame[["p_b", "p_a"]])
    assert found.probability_columns == ("p_b", "p_a")
    np.testing.assert_array_equal(found.features[:, 0], frame["emb"])


def test_a_list_of_probabilities_has_no_names():
    frame = pl.DataFrame({"p": [[0.25, 0.75], [1.0, 0.0]], "y": ["a", "b"]})
    found = open_source(frame, ReadOptions(probabilities="p"))
    np.testing.assert_array_equal(found.probabilities, [[0.25, 0.75], [1.0, 0.0]])
    assert found.probability_columns == ()
    assert found.features is None


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_groups_is_no_feature(tmp_path, suffix):
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "patient": [7, 8, 7], "y": ["a", "b", "a"]})
    path = tmp_path / f"t.{suffix}"
    getattr(frame, f"to_{suffix}")(path, index=False)
    found = open_source(path, ReadOptions(groups="patient"))
    assert found.groups.tolist() == ["7", "8", "7"]
    assert found.features.tolist() == [[1], [2], [3]]
    assert found.columns["groups"] == ("patient",)
    assert open_source(path, ReadOptions()).groups is None


def test_rows_without_a_group_are_refused():
    frame = pd.DataFrame({"emb": [1.0, 2, 3], "patient": ["p", "", "q"], "y": ["a", "b", "a"]})
    with pytest.raises(
        InputError, match=r"Column 'patient' of <DataFrame> is empty in row 1\. Give"
    ):
        open_source(frame, ReadOptions(groups="patient"))
    lists = pl.DataFrame({"emb": [1.0, 2], "patient": [["p"], ["q"]], "y": ["a", "b"]})
    with pytest.raises(InputError, match="not one value per row"):
        open_source(lists, ReadOptions(groups="patient"))
