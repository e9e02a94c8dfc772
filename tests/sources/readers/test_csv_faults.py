"""Why a CSV file cannot be read: the line, the value and the way out."""

import pytest

from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

NUMBERS = "a,b,label\n1,2.5,cat\n3,4,dog\n"


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
