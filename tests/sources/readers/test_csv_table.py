"""CSV and TSV: columns by pattern and name, odd encodings, and values that are no numbers."""

import gzip

import numpy as np
import pytest

from kspr.errors import UnreadableItemError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions


@pytest.fixture
def write(tmp_path):
    def write_file(content: str | bytes, name: str = "x.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


NUMBERS = "a,b,label\n1,2.5,cat\n3,4,dog\n"


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (NUMBERS, "x.csv"),
        (NUMBERS.replace(",", "\t"), "x.tsv"),
        (NUMBERS.replace(",", ";"), "x.csv"),
        (NUMBERS.replace("\n", "\r\n"), "x.csv"),
        (b"\xef\xbb\xbf" + NUMBERS.encode(), "x.csv"),
        (gzip.compress(NUMBERS.encode(), mtime=0), "x.csv.gz"),
        (NUMBERS.replace("label", "Label"), "x.CSV"),
    ],
)
def test_numeric_columns_are_features_and_label_is_label(write, content, name):
    found = open_source(write(content, name), ReadOptions())
    np.testing.assert_array_equal(found.features, [[1, 2.5], [3, 4]])
    assert found.features.dtype == np.float32
    assert found.label.tolist() == ["cat", "dog"]
    assert found.label.dtype.kind == "U"
    assert found.row_id.tolist() == ["0", "1"]
    assert found.reader == "csv"


def test_columns_can_be_named(write):
    path = write("who,e1,e2,size,given,meant\np,1,2,9,0,1\nq,3,4,9,1,1\n")
    said = ReadOptions(features="e*", label="given", truth="meant", id="who")
    found = open_source(path, said)
    np.testing.assert_array_equal(found.features, [[1, 2], [3, 4]])
    assert found.label.tolist() == [0, 1]
    assert found.label.dtype == np.int64
    assert found.truth.tolist() == [1, 1]
    assert found.row_id.tolist() == ["p", "q"]


def test_row_numbers_and_truth_are_no_features(write):
    found = open_source(
        write("Unnamed: 0,id,a,label,truth\n0,7,1.5,0,1\n1,8,2.5,1,1\n"), ReadOptions()
    )
    assert found.features.tolist() == [[1.5], [2.5]]
    assert found.truth.tolist() == [1, 1]


def test_missing_numbers_become_nan(write):
    found = open_source(write("a,b,y\n1,,0\nNA,2,1\n"), ReadOptions())
    np.testing.assert_array_equal(found.features, [[1, np.nan], [np.nan, 2]])


def test_lists_written_as_text_are_features(write):
    found = open_source(write('emb,y\n"[1, 2.5]",a\n"[3 4e-1]",b\n'), ReadOptions())
    np.testing.assert_allclose(found.features, [[1, 2.5], [3, 0.4]])


def test_lists_that_were_shortened_in_print_are_refused(write, refusal):
    assert "holds '...' within a list" in refusal(write('emb,y\n"[1 ... 2]",a\n"[3 ... 4]",b\n'))


def test_texts_are_items(write):
    path = write('text,label\n"a, ""b""\nc",x\nNA,y\n,x\n')
    found = open_source(path, ReadOptions())
    assert found.features is None
    assert found.items.kind == "text"
    assert [found.items[i] for i in range(3)] == ['a, "b"\nc', "NA", ""]
    assert list(found.items.content()) == [b'a, "b"\nc', b"NA", b""]


def test_a_text_column_can_have_any_name_and_look(write):
    path = write("body,y\n12,a\n13,b\n")
    found = open_source(path, ReadOptions(text="body"))
    assert found.items[1] == "13"
    with pytest.raises(IndexError):
        found.items[2]


def test_labels_are_trimmed_and_numbers_only_if_all_are(write):
    assert open_source(write("a,y\n1, cat\n2,cat \n"), ReadOptions()).label.tolist() == ["cat"] * 2
    assert open_source(write("a,y\n1,1\n2,x\n"), ReadOptions()).label.tolist() == ["1", "x"]
    assert open_source(write("a,y\n1,1.0\n2,2.0\n"), ReadOptions()).label.tolist() == [1, 2]
    assert open_source(write("a,y\n1,NA\n2,None\n"), ReadOptions()).label.tolist() == ["NA", "None"]


LATE = "a,y\n" + "1.25,0\n" * 1_200_000


def test_a_word_far_down_is_found(write, refusal):
    """Types are told by the first block; a later one must still be refused by name and row."""
    message = refusal(write(LATE + "oops,0\n"))
    assert "Feature column 'a' of " in message
    assert "must hold numbers, got 'oops' in row 1200000." in message


@pytest.mark.parametrize(
    ("content", "said", "complaint"),
    [
        (b"", {}, "x.csv is empty."),
        ("a,y\n", {}, "x.csv has no rows below its header."),
        ("a,y", {}, "x.csv has no rows below its header."),
        (NUMBERS, {"label": "lable"}, "has no column 'lable'. Did you mean 'label'?"),
        (NUMBERS, {"label": "LABEL"}, "has no column 'LABEL'. Did you mean 'label'?"),
        (NUMBERS, {"label": "zzz"}, "has no column 'zzz'. It has 'a', 'b', 'label'."),
        (NUMBERS, {"features": "emb_*"}, "has no column 'emb_*'. It has 'a', 'b', 'label'."),
        (NUMBERS, {"id": "zzz"}, "has no column 'zzz'."),
        (NUMBERS, {"features": "a", "text": "zzz"}, "has no column 'zzz'."),
        ("a,b,y\n1,x,0\n2,3,1\n", {"features": "b"}, "Feature column 'b' of "),
        ("a,b,y\n1,x,0\n2,3,1\n", {"features": "b"}, "must hold numbers, got 'x' in row 0."),
        ("a,b,y\n1,x,0\n2,3,1\n3,4,1\n", {}, "must hold numbers, got 'x' in row 0."),
        ("a,b,y\n1,2,0\n2,1\n", {}, "has 2 cells in line 3 where its header has 3."),
        ("0.5,0.25,1\n1.5,2.5,0\n", {}, "has no header: its first line holds the value '0.5'."),
        ("a,a,y\n1,2,0\n", {}, "has more than one column named 'a'."),
        ("a,y\n1,\n2,x\n3,\n", {}, "Label column 'y' of "),
        ("a,y\n1,\n2,x\n3,\n", {}, "has no label in rows 0, 2. Fill them in or drop the rows."),
        ("a,y\n1,x\n2,NaN\n", {}, "has no label in row 1."),
        ("a,label,y\n1,2,0\n", {}, "may be the label: 'label', 'y'. Say which with --label."),
        ("text,a,y\nhi,2,0\n", {}, "numeric columns ('a'; --features) and texts ('text'; --text)"),
        ("note,y\nhi,0\n", {}, "only 'note'. Say which to use with --features, --image or --text."),
        ("y,text\n0,café\n".encode("latin-1"), {}, "not UTF-8: line 2 (byte 12) has the byte 0xe9"),
        ("y,é\n0,1\n".encode("latin-1"), {}, "is not UTF-8: line 1 (byte 2)"),
        ("a,y\n1,0\n".encode("utf-16"), {}, "is encoded as UTF-16. Save it as UTF-8"),
        (b"a,y\n1,\x00\n", {}, "it holds binary data"),
        (b"PK\x03\x04junk", {}, "is a zip archive (npz, torch and Excel files are such)"),
        (b"PAR1junk", {}, "is a parquet file, not a CSV or TSV table."),
        (b"\x80\x05junk", {}, "is a pickle, not a CSV or TSV table, and a pickle can run code"),
    ],
)
def test_bad_tables_are_refused(write, content, said, complaint, refusal):
    assert complaint in refusal(write(content), **said)


def test_odd_bytes_in_columns_that_are_not_used_do_no_harm(write):
    found = open_source(write("a,y,note\n1,0,café\n2,1,x\n".encode("latin-1")), ReadOptions())
    assert found.features.tolist() == [[1], [2]]


def test_a_byte_that_is_split_between_blocks_is_located(write, refusal):
    content = b"text,y\n" + b"x,0\n" * 262_142 + "\u00e9\u00e9\u00e9,0\n".encode() + b"\xff,0\n"
    at = content.index(b"\xff")
    assert f"line 262145 (byte {at}) has the byte 0xff" in refusal(write(content))


@pytest.fixture
def pictures(tmp_path, picture):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.png").write_bytes(picture(10))
    (tmp_path / "deep" / "b.png").write_bytes(picture(20))
    return tmp_path


@pytest.mark.parametrize(("column", "said"), [("path", {}), ("where", {"image": "where"})])
def test_manifests_list_images_relative_to_themselves(pictures, write, column, said):
    path = write(f"{column},label\na.png,x\ndeep/b.png,y\nlost.png,x\n")
    found = open_source(path, ReadOptions(**said))
    assert found.reader == "manifest"
    assert found.row_id.tolist() == ["a.png", "deep/b.png", "lost.png"]
    assert found.label.tolist() == ["x", "y", "x"]
    assert found.items.kind == "image"
    assert found.items[1].getpixel((0, 0)) == (20, 0, 0)
    with pytest.raises(UnreadableItemError, match=r"lost.png cannot be read \(no such file"):
        found.items[2]
    assert [len(content) > 0 for content in found.items.content()] == [True, True, False]


def test_a_manifest_with_numbers_is_a_question(write, refusal):
    message = refusal(write("path,label,width\na.png,x,10\n"))
    assert message.endswith(
        "has numeric columns ('width'; --features) and images ('path'; --image). Say which to use."
    )
