"""CSV and TSV: columns by pattern and name, odd encodings, and values that are no numbers."""

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


def test_missing_numbers_become_nan(text_file):
    found = open_source(text_file("a,b,y\n1,,0\nNA,2,1\n"), ReadOptions())
    np.testing.assert_array_equal(found.features, [[1, np.nan], [np.nan, 2]])


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
