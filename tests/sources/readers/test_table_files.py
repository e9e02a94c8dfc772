"""Folders of tables: Hugging Face data sets, read without the `datasets` package."""

import subprocess
import sys

import pyarrow as pa
import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


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
    assert open_source(path).label.tolist() in ([0, 0], ["[1]"] * 2)
