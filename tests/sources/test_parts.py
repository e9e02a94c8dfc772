"""Parquet and Arrow files: their parts, what is mapped or loaded, and what is damaged."""

import json
import pickle
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.errors import UnreadableItemError
from kspr.sources import parts
from kspr.sources.opening import open_part, open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.parts import Part, open_files
from kspr.sources.readers import values
from kspr.sources.readers.tables import roles_of
from tests.sources.conftest import INFO, write_stream


def rows(count: int, first: int = 0) -> pa.Table:
    number = np.arange(first, first + count)
    return pa.table(
        {
            "id": [f"r{i}" for i in number],
            "a": number.astype(np.float32),
            "b": (number % 7).astype(np.float32),
            "label": np.array(["x", "y"])[number % 2],
        }
    )


def write(folder, sizes, kind="parquet", group=4) -> list[str]:
    uris, first = [], 0
    for number, size in enumerate(sizes):
        path = folder / f"part-{number:03d}.{kind}"
        table = rows(size, first)
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=group)
        elif kind == "feather":
            feather.write_feather(table, path, compression="zstd", chunksize=group)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as out:
                out.write_table(table, max_chunksize=group)
        uris.append(str(path))
        first += size
    return uris


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(0, 11), min_size=1, max_size=5).filter(any),
    group=st.integers(1, 12),
    kind=st.sampled_from(["parquet", "arrow", "feather"]),
)
def test_parts_are_all_rows_in_order(tmp_path_factory, sizes, group, kind):
    folder = tmp_path_factory.mktemp("parts")
    uris = write(folder, sizes, kind, group)
    parts = open_files(uris, "parquet" if kind == "parquet" else "arrow").parts
    assert [part.n_rows for part in parts] == sizes
    assert [part.start for part in parts] == [0, *np.cumsum(sizes)[:-1]]
    table = open_table(folder / f"*.{kind}")
    assert table.rows == sum(sizes)
    assert list(table.fields) == ["id", "a", "b", "label"]
    assert table.parts == parts
    wanted = [table.fields["id"], table.fields["a"]]
    whole = rows(sum(sizes))
    for part in pickle.loads(pickle.dumps(parts)):  # noqa: S301 - our own
        expected = whole.slice(part.start, part.n_rows)
        ids, numbers = part.read(wanted)
        assert ids.to_pylist() == expected["id"].to_pylist()
        by_group = [v for group in part.split() for v in group.read(wanted)[1].to_pylist()]
        assert by_group == numbers.to_pylist() == expected["a"].to_pylist()
        assert sum(group.n_rows for group in part.split()) == part.n_rows


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_a_pattern_and_a_folder_are_the_one_large_file(tmp_path, kind):
    (tmp_path / "parts").mkdir()
    (tmp_path / "one").mkdir()
    write(tmp_path / "parts", [5, 0, 9, 1], kind)
    (single,) = write(tmp_path / "one", [15], kind)
    whole = open_source(single)
    for source in (tmp_path / "parts", tmp_path / "parts" / f"*.{kind}", tmp_path / "p*" / "p*"):
        found = open_source(source)
        np.testing.assert_array_equal(found.features, whole.features)
        assert found.row_id.tolist() == whole.row_id.tolist()
        assert found.label.tolist() == whole.label.tolist()


@pytest.mark.parametrize(
    ("kind", "named"), [("parquet", True), ("parquet", False), ("arrow", True), ("feather", True)]
)
def test_rows_of_all_parts_are_the_rows_of_the_source(tmp_path, kind, named):
    for uri in write(tmp_path, [5, 0, 9, 1], kind):
        if not named and kind == "parquet":
            pq.write_table(pq.read_table(uri).drop_columns("id"), uri, row_group_size=4)
    options = ReadOptions(features="[ab]", missing="drop")
    whole = open_source(tmp_path, options)
    parts = [group for part in open_table(tmp_path).parts for group in part.split() if group.n_rows]
    assert len(parts) > 4
    found = [open_part(part, options) for part in pickle.loads(pickle.dumps(parts))]  # noqa: S301
    for name in ("features", "label", "row_id"):
        together = np.concatenate([getattr(records, name) for records in found])
        np.testing.assert_array_equal(together, getattr(whole, name))


def test_parts_at_an_address_are_read_as_those_here(tmp_path):
    system = pytest.importorskip("fsspec").filesystem("memory")
    root = uuid.uuid4().hex
    for kind in ("parquet", "arrow", "feather"):
        for uri in write(tmp_path, [4, 3], kind):
            system.put_file(uri, f"/{root}/{uri.rpartition('/')[2]}")
        found = open_source(f"memory://{root}/*.{kind}")
        np.testing.assert_array_equal(found.features[:, 0], np.arange(7))
        assert str(found.source).startswith("memory:")
    system.rm(f"/{root}", recursive=True)


def test_roles_are_chosen_once_for_all_parts(tmp_path):
    write(tmp_path, [4, 3])
    table = open_table(tmp_path)
    roles = roles_of(table, ReadOptions(), "here")
    assert (roles.label.name, roles.id.name) == ("label", "id")
    assert [field.name for field in roles.features] == ["a", "b"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_parts_that_differ_are_named_with_column_and_types(tmp_path, kind, refusal):
    first, second = write(tmp_path, [4, 4], kind)
    wide = rows(4).set_column(1, "a", pa.array([1.0, 2.0, 3.0, 4.0]))
    for table, complaint in (
        (wide, f"Column 'a' of {second} holds double, but in {first} it holds float."),
        (rows(4).drop_columns("b"), f"{first} has the column 'b', and {second} does not."),
        (rows(4).append_column("c", [[1, 2, 3, 4]]), f"{second} has the column 'c', and {first}"),
        (
            rows(4).append_column("b", [[1, 2, 3, 4]]),
            f"{second} has more than one column named 'b'.",
        ),
    ):
        if kind == "parquet":
            pq.write_table(table, second)
        else:
            feather.write_feather(table, second, compression="uncompressed")
        assert complaint in refusal(tmp_path)


def test_equal_values_that_unpack_to_gigabytes_are_refused(tmp_path, refusal, monkeypatch):
    zeros = pa.array(np.zeros(200_000, np.float32))
    lists = pa.ListArray.from_arrays(pa.array([0, 100_000, 200_000], pa.int32()), zeros)
    path = tmp_path / "x.parquet"
    for table in (
        pa.table({"emb": lists, "label": ["a", "b"]}),
        pa.table({"a": zeros, "label": np.arange(200_000) % 2}),
    ):
        pq.write_table(table, path)
        monkeypatch.setenv("KSPR_MAX_UNPACKED_GB", "0.0005")
        said = "x.parquet unpacks to more than 0.0005 GB. If that is right, set KSPR_MAX_UNPACKED_"
        assert said in refusal(path)
        monkeypatch.delenv("KSPR_MAX_UNPACKED_GB")
        assert len(open_source(path)) == table.num_rows


def test_an_empty_part_may_have_other_types_and_columns_another_order(tmp_path):
    first, _, third = write(tmp_path, [4, 4, 3])
    empty = pa.table({name: pa.array([], pa.null()) for name in ("id", "a", "b", "label")})
    pq.write_table(empty, first)
    pq.write_table(rows(3, 4).select(["label", "b", "a", "id"]), third)
    found = open_source(tmp_path)
    assert found.features[:, 0].tolist() == [4, 5, 6, 7, 4, 5, 6]
    table = open_table(tmp_path)
    assert pa.Table.from_batches(table.columns().walk()).num_rows == 7
    assert table.parts[0].read([table.fields["a"]])[0].type == pa.float32()
    assert table.parts[2].start == 4


def test_parts_without_any_rows_are_one_sentence(tmp_path, refusal):
    write(tmp_path, [0, 0])
    assert refusal(tmp_path).endswith("has no rows.")


def test_patterns_that_fit_nothing_or_other_files_are_one_sentence(tmp_path, refusal):
    assert refusal(tmp_path / "*.parquet").endswith("Correct the name or pattern.")
    (tmp_path / "a.csv").write_text("a,label\n1,x\n")
    assert "stands for parquet or Arrow files" in refusal(tmp_path / "*.csv")


def test_a_part_that_was_written_again_is_read_as_it_is_now(tmp_path):
    (uri,) = write(tmp_path, [4])
    (before,) = open_files([uri], "parquet").parts
    pq.write_table(rows(9), uri)
    (after,) = open_files([uri], "parquet").parts
    assert (before.n_rows, after.n_rows) == (4, 9)
    assert isinstance(after, Part)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_read(tmp_path, table, features, names, compression):
    pa.feather.write_feather(table, tmp_path / "x.feather", compression=compression, chunksize=7)
    found = open_source(tmp_path / "x.feather", ReadOptions(id="key"))
    np.testing.assert_array_equal(found.features, features)
    np.testing.assert_array_equal(found.label, names)
    assert found.row_id[-1] == "row-29"
    assert found.reader == "arrow"


def test_arrow_streams_are_read(tmp_path, table, features):
    write_stream(table, tmp_path / "x.arrow")
    np.testing.assert_array_equal(
        open_source(tmp_path / "x.arrow", ReadOptions()).features, features
    )


def test_plain_arrow_is_mapped_not_loaded(tmp_path):
    texts = pa.table({"text": ["x" * 1000] * 20_000, "label": np.arange(20_000) % 2})
    write_stream(texts, tmp_path / "x.arrow")
    del texts
    before = pa.total_allocated_bytes()
    found = open_source(tmp_path / "x.arrow", ReadOptions())
    assert pa.total_allocated_bytes() - before < 2 << 20
    assert found.items[19_999] == "x" * 1000


def test_damage_is_refused(tmp_path, table, saved, refusal):
    pa.feather.write_feather(table, tmp_path / "x.feather")
    whole = (tmp_path / "x.feather").read_bytes()
    (tmp_path / "x.feather").write_bytes(whole[: len(whole) // 2])
    assert "x.feather cannot be read as an Arrow file; it may be cut" in refusal(
        tmp_path / "x.feather"
    )
    shard = saved / "data-00001-of-00002.arrow"
    shard.write_bytes(shard.read_bytes()[:-200])
    assert "data-00001-of-00002.arrow cannot be read as an Arrow file" in refusal(saved)
    shard.unlink()
    assert refusal(saved).endswith("data-00001-of-00002.arrow does not exist.")
    (saved / "state.json").write_text("{")
    assert "state.json cannot be read as JSON" in refusal(saved)


def test_class_numbers_without_names_are_refused(tmp_path, refusal):
    for value, complaint in ((2, "has the value 2 in row 1, but only 2"), (-1, "in row 1.")):
        table = pa.table({"a": [1.0, 2.0], "label": [0, value]})
        table = table.replace_schema_metadata({b"huggingface": json.dumps(INFO).encode()})
        write_stream(table, tmp_path / "x.arrow")
        assert complaint in refusal(tmp_path / "x.arrow")


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
        ({"a": [1], "y": [[0, 1]]}, {}, "not one value per row."),
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
    original = values.SingleRows.append

    def watched(self, block):
        seen.append(pa.total_allocated_bytes() - before)
        original(self, block)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values.SingleRows, "append", watched)
        found = open_source(large, ReadOptions())
    assert found.features.nbytes == 120_000 * 128 * 4
    assert found.features[-1, -1] == np.float32(120_000 * 128 - 1)
    assert len(seen) > 2
    assert max(seen) < 40 << 20


def test_features_beyond_memory_lie_in_a_file_without_a_name(large, monkeypatch, tmp_path):
    monkeypatch.setattr(values, "IN_MEMORY", 1 << 20)
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
    monkeypatch.setattr("kspr.sources.records._decode", pytest.fail)
    images = open_source(CIFAR / "train.parquet", ReadOptions())
    arrays = open_source(CIFAR / "features.npz", ReadOptions())
    monkeypatch.undo()
    assert len(images) == len(arrays) == 50_000
    np.testing.assert_array_equal(images.label, arrays.label)
    assert images.items[49_999].size == (32, 32)
    named = open_source(CIFAR / "train.parquet", ReadOptions(image="img.bytes"))
    assert named.items[7].tobytes() == images.items[7].tobytes()


def test_a_packed_arrow_file_may_unpack_to_so_much_only(tmp_path, refusal, monkeypatch):
    table = pa.table({"a": np.zeros(3_000_000, np.float32), "label": np.zeros(3_000_000, np.int8)})
    feather.write_feather(table, tmp_path / "x.arrow", compression="zstd")
    monkeypatch.setenv("KSPR_MAX_UNPACKED_GB", "0.01")
    assert "x.arrow unpacks to more than 0.01 GB." in refusal(tmp_path / "x.arrow")
