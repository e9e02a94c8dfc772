"""Parquet: columns, lists, images and texts, in one file or many; damage; laziness; memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import UnreadableItemError
from kspr.sources import parts
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import numbers

CIFAR = Path(__file__).parents[4] / "shared" / "data" / "cifar10"


def test_numeric_columns_are_features(parquet_file, table, features, names):
    found = open_source(parquet_file(table), ReadOptions())
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    assert found.label.dtype.kind == "U"
    assert open_source(parquet_file(table), ReadOptions(id="key")).row_id[3] == "row-3"


def test_categories_and_dates_are_labels(parquet_file):
    labels = pa.array(["a", "b", "a"]).dictionary_encode()
    assert open_source(
        parquet_file({"x": [1, 2, 3], "y": labels}), ReadOptions()
    ).label.tolist() == [
        "a",
        "b",
        "a",
    ]
    dates = pa.array([0, 1, 0], pa.date32())
    assert (
        open_source(parquet_file({"x": [1, 2, 3], "y": dates}), ReadOptions()).label[1]
        == "1970-01-02"
    )


@pytest.mark.parametrize("wrap", ["binary", "struct"])
def test_images_in_a_column_are_items(parquet_file, picture, wrap):
    data = [picture(i) for i in range(6)]
    if wrap == "struct":
        data = [{"bytes": content, "path": None} for content in data]
    table = pa.table({"img": data, "label": np.arange(6) % 2, "width": np.arange(6)})
    found = open_source(parquet_file(table, row_group_size=2), ReadOptions())
    assert found.features is None
    assert [found.items[i].getpixel((0, 0))[0] for i in (5, 0, 3)] == [5, 0, 3]
    assert list(found.items.content()) == [picture(i) for i in range(6)]


@pytest.mark.parametrize("nested", [True, False])
def test_flattened_names_reach_the_bytes(parquet_file, picture, nested):
    data = [picture(1), picture(2)]
    column = {"img": [{"bytes": content} for content in data]} if nested else {"img.bytes": data}
    path = parquet_file({**column, "label": [0, 1]})
    found = open_source(path, ReadOptions(image="img.bytes"))
    assert found.items[1].getpixel((0, 0)) == (2, 0, 0)


def test_features_and_the_images_they_came_from_can_be_had_together(
    parquet_file, picture, features
):
    table = {"image": [picture(i) for i in range(30)], "emb": features.tolist(), "y": [0, 1] * 15}
    found = open_source(parquet_file(table), ReadOptions())
    assert found.features.shape == (30, 4)
    assert found.items[2].getpixel((0, 0)) == (2, 0, 0)


def test_a_corrupt_image_is_found_only_when_asked_for(parquet_file, picture):
    table = {"img": [picture(1), b"junk", picture(1)[:45], None], "label": [0, 1, 0, 1]}
    found = open_source(parquet_file(table), ReadOptions())
    assert found.items[0].size == (8, 8)
    for row in (1, 2):
        with pytest.raises(
            UnreadableItemError, match=f"The image in row {row} of .* cannot be dec"
        ):
            found.items[row]
    with pytest.raises(UnreadableItemError, match=r"There is no image in row 3 of "):
        found.items[3]


def test_class_names_of_hugging_face_are_used(parquet_file, picture):
    info = b'{"info": {"features": {"kind": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}'
    table = pa.table({"img": [picture()] * 3, "kind": [1, 0, 1]})
    path = parquet_file(table.replace_schema_metadata({b"huggingface": info}))
    assert open_source(path, ReadOptions()).label.tolist() == ["dog", "cat", "dog"]


def test_texts_are_items(parquet_file):
    found = open_source(parquet_file({"sentence": ["ä", None], "label": [0, 1]}), ReadOptions())
    assert found.items[0] == "ä"
    with pytest.raises(UnreadableItemError, match="There is no text in row 1 of "):
        found.items[1]
    assert list(found.items.content()) == ["ä".encode(), b""]


def test_paths_in_a_table_are_relative_to_it(parquet_file, picture, tmp_path):
    (tmp_path / "a.png").write_bytes(picture(9))
    found = open_source(parquet_file({"path": ["a.png", "b.png"], "label": [0, 1]}), ReadOptions())
    assert found.items[0].getpixel((0, 0)) == (9, 0, 0)
    assert found.row_id.tolist() == ["a.png", "b.png"]


@pytest.mark.parametrize(
    ("columns", "said", "complaint"),
    [
        ({"a": [], "y": []}, {}, "x.parquet has no rows."),
        ({"a": [1], "y": [0]}, {"label": "z"}, "has no column 'z'. It has 'a', 'y'."),
        ({"a": ["1", "x"], "y": [0, 1]}, {"features": "a"}, "must hold numbers, got 'x' (string)."),
        ({"a": [[1.0], [1.0, 2.0]], "y": [0, 1]}, {}, "row 0 has 1 values, row 1 has 2."),
        ({"a": [[1.0], None], "y": [0, 1]}, {}, "row 0 has 1 values, row 1 has 0."),
        ({"a": [[], []], "y": [0, 1]}, {}, "only 'a'. Say which to use"),
        (
            {"a": [[1]], "b": [[1]], "y": [0]},
            {},
            "may be used: 'a', 'b'. Say which with --features",
        ),
        ({"a": [[1]], "b": [2], "y": [0]}, {"features": "?"}, "some hold lists: 'a', 'b'."),
        ({"a": [1, 2], "y": [0, None]}, {}, "has no label in row 1."),
        ({"a": [1, 2], "y": [0.5, float("nan")]}, {}, "has no label in row 1."),
        ({"a": [1], "y": [[0, 1]]}, {}, "not one label per row."),
        ({"a": [1], "y": [0]}, {"image": "a"}, "Column 'a' of "),
        ({"a": [1], "y": [0]}, {"image": "a"}, "holds int64, not images."),
        ({"a": [1], "y": [0]}, {"text": "a"}, "holds int64, not text."),
    ],
)
def test_bad_tables_are_refused(parquet_file, columns, said, complaint, refusal):
    assert complaint in refusal(parquet_file(columns), **said)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_truncated_parquet_is_refused(parquet_file, table, share, refusal):
    path = parquet_file(table)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    message = refusal(path)
    assert "x.parquet cannot be read as a parquet file; it may be cut short or damaged" in message


def test_corrupt_pages_are_refused(parquet_file, refusal):
    path = parquet_file({"a": np.random.default_rng(0).random(5000), "y": np.arange(5000) % 2})
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    assert "x.parquet cannot be read as a parquet file" in refusal(path)


def test_many_row_groups_keep_their_order(parquet_file, features):
    values = np.arange(5000, dtype=np.float64)
    found = open_source(parquet_file({"a": values, "y": values}, row_group_size=700), ReadOptions())
    np.testing.assert_array_equal(found.features[:, 0], values)
    np.testing.assert_array_equal(found.label, values)


def test_items_load_one_row_group_at_a_time(parquet_file, picture, monkeypatch):
    loaded = []
    original = parts.Part.read
    monkeypatch.setattr(
        parts.Part, "read", lambda part, f: loaded.append(part.first_group) or original(part, f)
    )
    table = {"img": [picture(i) for i in range(9)], "label": [0, 1, 0] * 3}
    found = open_source(parquet_file(table, row_group_size=3), ReadOptions())
    assert loaded == []
    for row in (7, 8, 6, 0):
        found.items[row]
    assert loaded == [2, 0]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """120,000 lists of 128 single-precision numbers: 61 MB."""
    path = tmp_path_factory.mktemp("large") / "x.parquet"
    values = np.arange(120_000 * 128, dtype=np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), 128)
    table = pa.table({"emb": lists, "y": np.arange(120_000) % 3})
    pq.write_table(table, path, row_group_size=30_000, compression="none", use_dictionary=False)
    return path


def test_arrow_never_holds_more_than_a_few_blocks(large):
    """The features are 61 MB; beside them, Arrow may hold blocks, not a second copy."""
    before = pa.total_allocated_bytes()
    seen = []
    original = numbers.RowSink.append

    def watched(self, block):
        seen.append(pa.total_allocated_bytes() - before)
        original(self, block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers.RowSink, "append", watched)
        found = open_source(large, ReadOptions())
    assert found.features.nbytes == 120_000 * 128 * 4
    assert found.features[-1, -1] == np.float32(120_000 * 128 - 1)
    assert len(seen) > 2
    assert max(seen) < 40 << 20


def test_features_beyond_memory_lie_in_a_file_without_a_name(large, monkeypatch, tmp_path):
    monkeypatch.setattr(numbers, "IN_MEMORY", 1 << 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = open_source(large, ReadOptions())
    assert isinstance(found.features, np.memmap)
    # Gone with the last array, even if the process is killed.
    assert list(tmp_path.iterdir()) == []
    part = found.features[1:3]
    del found
    assert part[0, 0] == 128


@pytest.mark.skipif(not CIFAR.exists(), reason="the shared CIFAR-10 files are not here")
def test_cifar10_opens_without_decoding_an_image(monkeypatch):
    """50,000 images and 50,000 x 512 features open, and no image is decoded for it."""
    monkeypatch.setattr("kspr.sources.readers.items._decode", pytest.fail)
    images = open_source(CIFAR / "train.parquet", ReadOptions())
    arrays = open_source(CIFAR / "features.npz", ReadOptions())
    monkeypatch.undo()
    assert len(images) == len(arrays) == 50_000
    np.testing.assert_array_equal(images.label, arrays.label)
    assert images.items[49_999].size == (32, 32)
    named = open_source(CIFAR / "train.parquet", ReadOptions(image="img.bytes"))
    assert named.items[7].tobytes() == images.items[7].tobytes()
