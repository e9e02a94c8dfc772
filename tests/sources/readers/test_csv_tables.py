"""CSV files: types by the first block, encodings and decimal marks, and what is wrong with one."""

import gzip

import numpy as np
import pytest

from kspr.errors import UnreadableItemError
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

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
        (NUMBERS.encode("utf-16"), "x.csv"),
        (NUMBERS.encode("utf-32"), "x.csv"),
        (gzip.compress(NUMBERS.encode("utf-16"), mtime=0), "x.csv.gz"),
        (NUMBERS.replace(",", ";").replace(".", ","), "x.csv"),
        (NUMBERS.replace(",", "\t").replace(".", ","), "x.tsv"),
    ],
)
def test_numeric_columns_are_features_and_label_is_label(text_file, content, name):
    found = open_source(text_file(content, name), ReadOptions())
    np.testing.assert_array_equal(found.features, [[1, 2.5], [3, 4]])
    assert found.features.dtype == np.float32
    assert found.label.tolist() == ["cat", "dog"]
    assert found.label.dtype.kind == "U"
    assert found.row_id.tolist() == ["0", "1"]
    assert found.reader == "csv"


def test_columns_can_be_named(text_file):
    path = text_file("who,e1,e2,size,given,meant\np,1,2,9,0,1\nq,3,4,9,1,1\n")
    said = ReadOptions(features="e*", label="given", truth="meant", id="who")
    found = open_source(path, said)
    np.testing.assert_array_equal(found.features, [[1, 2], [3, 4]])
    assert found.label.tolist() == [0, 1]
    assert found.label.dtype == np.int64
    assert found.truth.tolist() == [1, 1]
    assert found.row_id.tolist() == ["p", "q"]


def test_row_numbers_and_truth_are_no_features(text_file):
    found = open_source(
        text_file("Unnamed: 0,id,a,label,truth\n0,7,1.5,0,1\n1,8,2.5,1,1\n"), ReadOptions()
    )
    assert found.features.tolist() == [[1.5], [2.5]]
    assert found.truth.tolist() == [1, 1]


def test_lists_written_as_text_are_features(text_file):
    found = open_source(text_file('emb,y\n"[1, 2.5]",a\n"[3 4e-1]",b\n'), ReadOptions())
    np.testing.assert_allclose(found.features, [[1, 2.5], [3, 0.4]])


def test_lists_that_were_shortened_in_print_are_refused(text_file, refusal):
    assert "holds '...' within a list" in refusal(
        text_file('emb,y\n"[1 ... 2]",a\n"[3 ... 4]",b\n')
    )


def test_texts_are_items(text_file):
    path = text_file('text,label\n"a, ""b""\nc",x\nNA,y\n,x\n')
    found = open_source(path, ReadOptions())
    assert found.features is None
    assert found.items.kind == "text"
    assert [found.items[i] for i in range(3)] == ['a, "b"\nc', "NA", ""]
    assert list(found.items.content()) == [b'a, "b"\nc', b"NA", b""]


def test_a_text_column_can_have_any_name_and_look(text_file):
    path = text_file("body,y\n12,a\n13,b\n")
    found = open_source(path, ReadOptions(text="body"))
    assert found.items[1] == "13"
    with pytest.raises(IndexError):
        found.items[2]


def test_labels_are_trimmed_and_numbers_only_if_all_are(text_file):
    assert (
        open_source(text_file("a,y\n1, cat\n2,cat \n"), ReadOptions()).label.tolist() == ["cat"] * 2
    )
    assert open_source(text_file("a,y\n1,1\n2,x\n"), ReadOptions()).label.tolist() == ["1", "x"]
    assert open_source(text_file("a,y\n1,1.0\n2,2.0\n"), ReadOptions()).label.tolist() == [1, 2]
    assert open_source(text_file("a,y\n1,NA\n2,None\n"), ReadOptions()).label.tolist() == [
        "NA",
        "None",
    ]


@pytest.fixture
def pictures(tmp_path, picture):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.png").write_bytes(picture(10))
    (tmp_path / "deep" / "b.png").write_bytes(picture(20))
    return tmp_path


@pytest.mark.parametrize(("column", "said"), [("path", {}), ("where", {"image": "where"})])
def test_manifests_list_images_relative_to_themselves(pictures, text_file, column, said):
    path = text_file(f"{column},label\na.png,x\ndeep/b.png,y\nlost.png,x\n")
    found = open_source(path, ReadOptions(**said))
    assert found.reader == "manifest"
    assert found.row_id.tolist() == ["a.png", "deep/b.png", "lost.png"]
    assert found.label.tolist() == ["x", "y", "x"]
    assert found.items.kind == "image"
    assert found.items[1].getpixel((0, 0)) == (20, 0, 0)
    with pytest.raises(UnreadableItemError, match=r"lost.png cannot be read \(no such file"):
        found.items[2]
    assert [len(content) > 0 for content in found.items.content()] == [True, True, False]


def test_a_manifest_with_numbers_is_a_question(text_file, refusal):
    message = refusal(text_file("path,label,width\na.png,x,10\n"))
    assert message.endswith(
        "has numeric columns ('width'; --features) and images ('path'; --image). Say which to use."
    )


def test_an_encoding_is_used_only_if_the_user_names_it(text_file):
    path = text_file("a,y\n1,café\n2,naïve\n".encode("latin-1"))
    found = open_source(path, ReadOptions(encoding="latin-1"))
    assert found.label.tolist() == ["café", "naïve"]
    assert found.notes[0] == "x.csv is read as iso8859-1."


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig"])
def test_utf8_by_any_name_needs_no_note(text_file, encoding):
    found = open_source(text_file("a,y\n1,é\n2,é\n"), ReadOptions(encoding=encoding))
    assert found.label.tolist() == ["é", "é"]
    assert found.notes[0].startswith("Columns: ")


def test_a_file_may_unpack_to_so_much_only(text_file, refusal, monkeypatch):
    path = text_file(gzip.compress(b"a,y\n" + b"1,0\n" * 500_000, mtime=0), "x.csv.gz")
    assert path.stat().st_size < 10_000
    monkeypatch.setenv("KSPR_MAX_UNPACKED_GB", "0.001")
    assert refusal(path).endswith(
        "x.csv.gz unpacks to more than 0.001 GB. If that is right, set KSPR_MAX_UNPACKED_GB to a "
        "larger number."
    )
    monkeypatch.setenv("KSPR_MAX_UNPACKED_GB", "much")
    assert refusal(path) == "KSPR_MAX_UNPACKED_GB must be a number of gigabytes, got 'much'."
    monkeypatch.delenv("KSPR_MAX_UNPACKED_GB")
    assert len(open_source(path, ReadOptions())) == 500_000


def test_one_huge_line_or_cell_is_named_and_not_held(text_file, refusal, monkeypatch):
    monkeypatch.setattr("kspr.sources.readers.csv_tables.BLOCK_BYTES", 1 << 20)
    said = "has more than 1 MB in one line, line 2; no table has. A line end or a closing quote"
    assert said in refusal(text_file(b"a,label\n" + b"1" * (3 << 20)))
    unclosed = b'a,label\n1,x\n2,"' + b"3,y\n" * (1 << 20)
    assert "has more than 1 MB in one cell, line " in refusal(text_file(unclosed))


def test_a_long_text_does_not_hide_the_line_that_is_wrong(text_file, refusal):
    cells = f"1,{'x' * 200_000},0\n2,y,1\n"
    assert len(open_source(text_file(f"a,note,label\n{cells}"))) == 2
    assert "has 2 cells in line 4" in refusal(text_file(f"a,note,label\n{cells}3,1\n"))


def test_decimal_commas_are_said(text_file):
    found = open_source(text_file("a;b;y\n0,5;1;x\n-1,25;2;y\n"), ReadOptions())
    assert found.features.tolist() == [[0.5, 1], [-1.25, 2]]
    assert found.notes[0] == "Commas in the numbers of x.csv are read as decimal commas."


def test_the_user_settles_what_a_comma_means(text_file):
    found = open_source(text_file("a;y\n1,234;0\n5,678;1\n"), ReadOptions(decimal=","))
    np.testing.assert_array_equal(found.features, np.float32([[1.234], [5.678]]))


@pytest.mark.parametrize("value", ["1,5", "0,123", "12345,678", "1,2345", ",5", "1,5e3", "1,123e2"])
def test_numbers_that_can_have_a_decimal_comma_only(text_file, value):
    found = open_source(text_file(f"a;y\n{value};0\n2;1\n"), ReadOptions())
    assert found.features[0, 0] == np.float32(value.replace(",", "."))


def test_words_with_commas_are_no_numbers(text_file):
    found = open_source(text_file("a;note;y\n1;x, y;0\n2;1,5;1\n"), ReadOptions())
    assert found.features.tolist() == [[1], [2]]


LATE = "a,y\n" + "1.25,0\n" * 1_200_000


def test_a_word_far_down_is_found(text_file, refusal):
    """Types are told by the first block; a later one must still be refused by name and row."""
    message = refusal(text_file(LATE + "oops,0\n"))
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
        (
            "a,y\n1,\n2,x\n3,\n",
            {},
            "has no label in rows 0, 2. Fill them in, or leave",
        ),
        ("a,y\n1,x\n2,NaN\n", {}, "has no label in row 1."),
        ("a,label,y\n1,2,0\n", {}, "may be the label: 'label', 'y'. Say which with --label."),
        ("text,a,y\nhi,2,0\n", {}, "numeric columns ('a'; --features) and texts ('text'; --text)"),
        ("note,y\nhi,0\n", {}, "only 'note'. Say which to use with --features, --image or --text."),
        ("y,text\n0,café\n".encode("latin-1"), {}, "not UTF-8: line 2 (byte 12) has the byte 0xe9"),
        ("y,é\n0,1\n".encode("latin-1"), {}, "is not UTF-8: line 1 (byte 2)"),
        ("a,y\n1,0\n".encode("utf-16-le"), {}, "binary data. Correct its suffix, or name its"),
        (NUMBERS, {"encoding": "base64"}, "--encoding must name an encoding of text, such as"),
        (NUMBERS, {"encoding": "klingon"}, "such as latin-1, got 'klingon'."),
        (
            "a,é\n1,0\n",
            {"encoding": "ascii"},
            "x.csv is not ascii: it has the byte 0xc3",
        ),
        ("a,y\n1,0\n".encode("utf-16"), {"encoding": "latin-1"}, "begins with the mark of utf-16"),
        (NUMBERS, {"decimal": ","}, "--decimal is a comma, but commas separate the cells of"),
        ("a;y\n1,234;0\n5,678;1\n", {}, "holds '1,234': a decimal comma, or one between"),
        ("a;y\n1,5;0\n2.5;1\n", {"decimal": ","}, "numbers with a decimal comma, got '2.5' in"),
        (b"a,y\n1,\x00\n", {}, "it holds binary data"),
        (b"PK\x03\x04junk", {}, "is a zip archive (npz, torch and Excel files are such)"),
        (b"PAR1junk", {}, "is a parquet file, not a CSV or TSV table."),
        (b"\x80\x05junk", {}, "is a pickle, not a CSV or TSV table, and a pickle can run code"),
    ],
)
def test_bad_tables_are_refused(text_file, content, said, complaint, refusal):
    assert complaint in refusal(text_file(content), **said)


def test_odd_bytes_in_columns_that_are_not_used_do_no_harm(text_file):
    found = open_source(text_file("a,y,note\n1,0,café\n2,1,x\n".encode("latin-1")), ReadOptions())
    assert found.features.tolist() == [[1], [2]]


def test_a_byte_that_is_split_between_blocks_is_located(text_file, refusal):
    content = b"text,y\n" + b"x,0\n" * 262_142 + "\u00e9\u00e9\u00e9,0\n".encode() + b"\xff,0\n"
    at = content.index(b"\xff")
    assert f"line 262145 (byte {at}) has the byte 0xff" in refusal(text_file(content))
