"""Tables of text, and cells for spreadsheets."""

from hypothesis import given
from hypothesis import strategies as st

from kspr._text import from_spreadsheet_cell, spreadsheet_cell, text_table

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
