"""Labels from columns, arrays and files of labels."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.formats import LABEL_FORMATS
from kspr.sources.joining import open_label_file, read_label_file
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from kspr.sources.readers import values as values_module
from kspr.sources.readers.values import (
    class_names,
    labels_with_gaps,
    whole_labels,
)


def test_text_is_a_number_only_if_every_row_is_one():
    assert whole_labels(np.array(["1", " 2", "3.0"]), "x", untyped=True).tolist() == [1, 2, 3]
    for odd in ("007", "1e3", "x", "1.5", "9" * 20):
        assert whole_labels(np.array(["1", odd]), "x", untyped=True).tolist() == ["1", odd]


def test_class_names_take_the_place_of_numbers_unless_one_has_none():
    codes = pa.chunked_array([[1, 0]])
    assert whole_labels(codes, "x", ["cat", "dog"]).tolist() == ["dog", "cat"]
    with pytest.raises(InputError, match="has the value 1 in row 0, but only 1 class names"):
        whole_labels(codes, "x", ["cat"])


@pytest.mark.parametrize("metadata", [{}, {b"huggingface": b"["}, {b"huggingface": b'{"info": 3}'}])
def test_class_names_that_cannot_be_read_are_none(metadata):
    assert class_names(metadata) == {}


def test_a_missing_label_is_named_by_its_row():
    for values in (np.array([1.0, np.nan]), np.array(["a", " "])):
        with pytest.raises(InputError, match="x has no label in row 1"):
            whole_labels(values, "x")


def test_labels_that_are_not_utf8_are_refused(tmp_path, refusal, features):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array([b"caf\xe9", b"x"]))
    assert "holds bytes that are not UTF-8, or half of a character. Save" in refusal(
        tmp_path / "x.npz"
    )


@pytest.mark.parametrize("huge", [1e30, -1e30, 2.0**60])
def test_numbers_beyond_whole_ones_stay_what_they_are(tmp_path, features, huge):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array([huge, 1.0]))
    assert open_source(tmp_path / "x.npz").label.tolist() == [huge, 1.0]


def test_a_label_of_thirty_digits_is_a_text(text_file):
    path = text_file(f"a,y\n1,{10**30}\n2,5\n")
    assert open_source(path).label.tolist() == [str(10**30), "5"]


def test_one_long_id_takes_no_room_in_every_row(parquet_file, monkeypatch):
    monkeypatch.setattr("kspr.sources.readers.values._WIDE", 1 << 20)
    ids = [f"r{i}" for i in range(2000)]
    ids[77] = "x" * 4000
    path = parquet_file({"id": ids, "a": np.arange(2000) / 7, "y": np.arange(2000) % 2})
    found = open_source(path, ReadOptions(id="id"))
    assert found.row_id.tolist() == ids
    assert np.asarray(found.row_id).nbytes < 100_000
    with pytest.raises(InputError, match="holds a text of 4,000 characters, not labels"):
        open_source(path, ReadOptions(label="id"))


def test_labels_without_a_row_are_refused(tmp_path, refusal, features):
    np.savez(tmp_path / "x.npz", X=features[:2], y=np.array(3))
    assert "Array 'y'" in refusal(tmp_path / "x.npz")


def test_labels_of_many_rows_are_labels_however_much_memory_their_texts_take(monkeypatch):
    # Beyond this, texts of ids are kept as objects; labels have few distinct values.
    monkeypatch.setattr(values_module, "_WIDE", 10)
    column = pa.chunked_array([["cat", "dog"], ["dog"], ["cat"]])
    assert whole_labels(column, "x").tolist() == ["cat", "dog", "dog", "cat"]
    with pytest.raises(InputError, match="x holds a text of 1,001 characters"):
        whole_labels(pa.chunked_array([["cat", "d" * 1001]]), "x")


def test_the_row_without_a_label_is_named_where_texts_repeat():
    column = pa.chunked_array([["cat", "cat", "dog", " ", "cat"]])
    with pytest.raises(InputError, match="x has no label in row 3"):
        whole_labels(column, "x")


def test_labels_of_a_dictionary_with_gaps_are_those_of_its_rows():
    label, empty = labels_with_gaps(pa.chunked_array([["dog", "cat"], ["dog", None, " "]]), "x")
    assert (label[:3].tolist(), empty.tolist()) == (["dog", "cat", "dog"], [3, 4])
    # Codes of other programs: a value may be nothing, or be used by no row.
    given = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, None]), ["b", "a", None, "unused"])
    label, empty = labels_with_gaps(pa.chunked_array([given]), "x")
    assert (label[:2].tolist(), empty.tolist()) == (["a", "b"], [2, 3])
    # Two texts may be one number.
    label, _ = labels_with_gaps(pa.chunked_array([["2", "10", "2.0"]]), "x", untyped=True)
    assert label.tolist() == [2, 10, 2]


def test_a_column_without_any_label_has_gaps_only():
    label, empty = labels_with_gaps(pa.chunked_array([["", None]]), "x")
    assert (len(label), empty.tolist()) == (2, [0, 1])


def write_labels(path, labels):
    rows = [str(label) for label in labels]
    text = {
        ".txt": "\n".join(rows),
        ".tsv": "\n".join(["id\tlabel", *(f"{i}\t{row}" for i, row in enumerate(rows))]),
        ".tab": "\n".join(["id\tlabel", *(f"{i}\t{row}" for i, row in enumerate(rows))]),
        ".csv": "\n".join(["id,label", *(f"{i},{row}" for i, row in enumerate(rows))]),
        ".gz": "\n".join(["id,label", *(f"{i},{row}" for i, row in enumerate(rows))]),
    }
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text[".gz"].encode()))
    elif path.suffix in text:
        path.write_text(text[path.suffix] + "\n")
    elif path.suffix == ".npy":
        np.save(path, labels)
    elif path.suffix in (".feather", ".arrow", ".ipc"):
        pa.feather.write_feather(pa.table({"y": labels}), path)
    elif path.name == "folder":
        path.mkdir()
        pq.write_table(pa.table({"y": labels[:10]}), path / "part-0.parquet")
        pq.write_table(pa.table({"y": labels[10:]}), path / "part-1.parquet")
    elif path.name == "saved":
        path.mkdir()
        pa.feather.write_feather(pa.table({"y": labels}), path / "data.arrow")
        (path / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    else:
        pq.write_table(pa.table({"other": rows, "y": labels}), path)


@pytest.fixture
def source(tmp_path, features):
    np.save(tmp_path / "x.npy", features)
    return tmp_path / "x.npy"


@pytest.mark.parametrize(
    "name",
    [
        *("y.npy", "y.txt", "y.csv", "y.tsv", "y.tab", "y.csv.gz", "y.parquet", "y.pq"),
        *("y.feather", "y.arrow", "y.ipc", "folder", "saved"),
    ],
)
@pytest.mark.parametrize("kind", ["names", "numbers"])
def test_every_kind_of_file_gives_the_same_labels(source, tmp_path, names, name, kind):
    labels = names if kind == "names" else np.arange(30) % 3
    write_labels(tmp_path / name, labels)
    found = open_source(source, ReadOptions(labels=tmp_path / name)).label
    np.testing.assert_array_equal(found, labels)
    assert found.dtype.kind == labels.dtype.kind


@pytest.mark.parametrize("header", ["", "whatever\n"])
def test_one_column_may_have_a_header_or_none(source, tmp_path, names, header):
    (tmp_path / "y.csv").write_text(header + "\n".join(names) + "\n")
    found = open_source(source, ReadOptions(labels=tmp_path / "y.csv")).label
    np.testing.assert_array_equal(found, names)


def test_numbers_with_leading_zeros_are_names(source, tmp_path):
    codes = [f"{i % 3:03d}" for i in range(30)]
    (tmp_path / "y.txt").write_text("\n".join(codes))
    assert open_source(source, ReadOptions(labels=tmp_path / "y.txt")).label.tolist() == codes


def test_rows_that_do_not_match_are_counted(source, tmp_path, refusal):
    (tmp_path / "y.txt").write_text("a\nb\n")
    message = refusal(source, labels=tmp_path / "y.txt")
    assert message.endswith("y.txt has 2 labels.")
    assert "x.npy has 30 rows but " in message


def test_a_missing_label_of_a_file_is_named_by_its_row(source, tmp_path, refusal):
    (tmp_path / "y.txt").write_text("\n".join("a" if i not in {3, 7} else "" for i in range(30)))
    message = refusal(source, labels=tmp_path / "y.txt")
    said = f"y.txt has no label for 2 rows of {source}: '3', '7'. Add them, or leave these rows out"
    assert message.endswith(f"{said} with --missing drop.")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty."),
        (b"caf\xe9\nb\n", "is not UTF-8: line 1 (byte 3) has the byte 0xe9."),
        (b"\x80\x04ab", "is a pickle, not a file of labels"),
        (b"a\0b", "is not a file of labels: it holds binary data."),
    ],
)
def test_odd_label_files_are_refused(source, tmp_path, content, complaint, refusal):
    (tmp_path / "y.txt").write_bytes(content)
    assert complaint in refusal(source, labels=tmp_path / "y.txt")


def test_an_absent_or_unknown_label_file_is_refused(source, tmp_path, refusal):
    assert refusal(source, labels=tmp_path / "y.txt").endswith("y.txt does not exist.")
    (tmp_path / "y.doc").write_text("a")
    assert "y.doc is no file of labels: use .npy, .csv" in refusal(
        source, labels=tmp_path / "y.doc"
    )


def test_the_column_of_a_label_table_can_be_named(source, tmp_path, names, refusal):
    path = tmp_path / "y.csv"
    path.write_text("\n".join(["a,species", *(f"x,{name}" for name in names)]))
    found = open_source(source, ReadOptions(labels=path, label="species")).label
    np.testing.assert_array_equal(found, names)
    assert "only 'a', 'species'. Say which with --label." in refusal(source, labels=path)


@pytest.mark.parametrize("known", LABEL_FORMATS, ids=lambda known: known.name)
def test_no_format_that_promises_labels_is_refused_as_such(tmp_path, known):
    """A damaged file must be called damaged, never "no file of labels"."""
    for suffix in known.suffixes:
        path = tmp_path / f"y{suffix}"
        path.write_bytes(b"\x80\x04junk")
        with pytest.raises(InputError, match="pickle"):
            read_label_file(path)


def test_truth_columns_go_before_labels_for_the_role_of_truth(tmp_path):
    pq.write_table(pa.table({"label": [1, 2], "true_label": [1, 1]}), tmp_path / "t.parquet")
    assert read_label_file(tmp_path / "t.parquet", "truth").tolist() == [1, 1]
    assert read_label_file(tmp_path / "t.parquet").tolist() == [1, 2]


def test_a_headed_column_is_told_by_its_name(tmp_path):
    (tmp_path / "t.csv").write_text("truth\n0\n1\n")
    assert read_label_file(tmp_path / "t.csv", "truth").tolist() == [0, 1]
    (tmp_path / "u.csv").write_text("0\n1\n")
    assert read_label_file(tmp_path / "u.csv").tolist() == [0, 1]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_lines_of_labels_may_be_compressed_and_marked(text_file, encoding):
    path = text_file(gzip.compress("café\nb\n".encode(encoding)), "y.txt.gz")
    assert read_label_file(path).tolist() == ["café", "b"]


def test_a_file_of_labels_may_have_so_many_lines_only(text_file, monkeypatch):
    path = text_file("a\n" * 3000, "y.txt")
    monkeypatch.setenv("KSPR_MAX_MILLION_ROWS", "0.002")
    with pytest.raises(InputError, match=r"y.txt has more than 0.002 million rows"):
        read_label_file(path)
    monkeypatch.delenv("KSPR_MAX_MILLION_ROWS")
    assert len(read_label_file(path)) == 3000


@pytest.mark.parametrize("text", ["a\n\nb\n", "a\r\n\r\nb\r\n\r\n\n"])
def test_an_empty_line_is_a_missing_label_but_at_the_end(text_file, text):
    file = open_label_file(text_file(text, "y.txt"))
    assert file.label.tolist()[::2] == ["a", "b"]
    assert file.empty.tolist() == [1]


@pytest.mark.parametrize("code", [0xD800, 0xDFFF, 0x110000, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("name", ["y.npy", "y.npz"])
def test_texts_that_are_no_unicode_are_refused(tmp_path, refusal, code, name):
    labels, X = np.array([97, 98, 97, code], np.uint32).view("<U1"), np.eye(4)
    if name == "y.npz":
        np.savez(tmp_path / name, X=X, y=labels)
        message = refusal(tmp_path / name)
    else:
        np.save(tmp_path / "x.npy", X)
        np.save(tmp_path / name, labels.astype(">U1") if code < 0x110000 else labels)
        message = refusal(tmp_path / "x.npy", labels=tmp_path / name)
    assert "holds bytes that are not UTF-8, or half of a character." in message


def test_a_file_of_labels_may_unpack_to_so_much_only(text_file, monkeypatch):
    monkeypatch.setenv("KSPR_MAX_UNPACKED_GB", "0.00001")
    path = text_file(gzip.compress(b"a\n" * 20_000), "y.txt.gz")
    with pytest.raises(InputError, match=r"y.txt.gz unpacks to more than 1e-05 GB"):
        read_label_file(path)
