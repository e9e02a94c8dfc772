"""Tables of text, and cells for spreadsheets."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr._text import (
    from_spreadsheet_cell,
    percent,
    shorten,
    spreadsheet_cell,
    text_table,
    visible,
    wrapped,
)

CELLS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.integers(0, 2))
def test_every_row_is_a_line_and_columns_stand_under_each_other(rows, left):
    lines = text_table(["a", "b", "c"], rows, left).split("\n")
    assert len(lines) == len(rows) + 1
    widths = [
        max(len(text) for text in column) for column in zip(("a", "b", "c"), *rows, strict=True)
    ]
    for line, row in zip(lines[1:], rows, strict=True):
        start = widths[0] + 2
        assert line[:start].strip() == row[0]
        assert line[start : start + widths[1]].strip() == row[1]
        assert line[start + widths[1] :].strip() == row[2]


def test_a_last_column_of_sentences_is_not_padded():
    text = text_table(["class", "status"], [["a", "kept"], ["b", "a long sentence"]], left=2)
    assert text == "class  status\na      kept\nb      a long sentence"


@given(st.text(st.sampled_from("'=+-@\t\ra1 "), max_size=4))
def test_no_cell_begins_like_a_formula_and_every_text_comes_back(text):
    cell = spreadsheet_cell(text)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert from_spreadsheet_cell(cell) == text


def test_numbers_stay_numbers():
    assert (spreadsheet_cell(-3), spreadsheet_cell(-0.5)) == ("-3", "-0.5")


@given(st.text(), st.text())
def test_whatever_is_in_a_cell_a_row_is_one_line(first, second):
    lines = text_table(["a", "b"], [[first, second], ["x", "y"]]).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("x")


@given(st.text())
def test_nothing_visible_acts_on_a_terminal_and_ordinary_text_stays(text):
    shown = visible(text)
    acting = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert acting <= {"\u200c", "\u200d"}
    if all(unicodedata.category(c)[0] in "LMNPS" for c in text):
        assert shown == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\u001b[31mred"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b2J", "\\u009b2J"),
        ("caf\udce9", "caf\\udce9"),
        ("क्\u200dष", "क्\u200dष"),
        ("two\u3000words", "two\u3000words"),
    ],
)
def test_control_characters_are_written_out(text, shown):
    assert visible(text) == shown


def test_what_is_kept_stays():
    assert visible("a\nb\x1b", keep="\n") == "a\nb\\u001b"


@given(st.text(), st.integers(3, 40))
def test_a_shortened_text_fits_and_has_both_ends(text, length):
    short = shorten(text, length)
    assert len(short) <= length
    assert len(short.splitlines()) <= 1


def test_characters_are_left_out_in_the_middle():
    assert shorten("category number 17", 8) == "cate… 17"
    assert shorten("a\nb\x07", 20) == "a b\\u0007"


@pytest.mark.parametrize(
    ("value", "text"), [(0.05, "5 %"), (0.1234567, "12.3 %"), (0.00001, "0.001 %"), (0.0, "0 %")]
)
def test_a_rate_has_three_digits(value, text):
    assert percent(value) == text


def test_lines_end_between_words_and_not_before_a_percent_sign(monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    lines = wrapped("Expect about 5 % wrong, and per_class_name\nA line of its own").splitlines()
    assert lines == ["Expect about 5 % wrong,", "and per_class_name", "A line of its own"]
    monkeypatch.setenv("COLUMNS", "15")
    assert wrapped("Expect about 5 % wrong").splitlines() == ["Expect about", "5 % wrong"]
