"""Parts of a source: which rows each file holds, and reading them apart from each other."""

import pickle
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.sources.opening import open_part, open_source, open_table
from kspr.sources.options import ReadOptions
from kspr.sources.parts import Part, open_files
from kspr.sources.readers.tables import roles_of


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


@settings(max_examples=15, deadline=None)
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
    ):
        if kind == "parquet":
            pq.write_table(table, second)
        else:
            feather.write_feather(table, second, compression="uncompressed")
        assert complaint in refusal(tmp_path)


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
