"""All suspects: two piles, the matrix of labels, and the data that cards are made of."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.report._cards import Contents
from kspr.report._suspects import count_suggestions, matrix, probably_wrong, suspect_list
from tests.report.samples import Page, Texts


def test_the_matrix_counts_every_suspect_once(chosen):
    table, shown = count_suggestions(chosen)
    assert len(shown) == len(chosen.classes)
    assert table.sum() == len(chosen.suspect_indices)
    off_diagonal = table.sum(axis=1) - np.diag(table)
    assert off_diagonal.tolist() == [row.relabelled for row in chosen.summary().per_class]


def test_a_cell_of_the_matrix_is_a_button_that_says_what_it_counts(chosen, write):
    section = write(chosen).section("suspects")
    found = matrix(chosen)
    moved = np.array(found.counts) * (1 - np.eye(10, dtype=int))
    i, j = np.unravel_index(np.argmax(moved), moved.shape)
    words = f"{found.counts[i][j]} suspects: given {found.names[i]}, suggested {found.names[j]}"
    assert f'aria-label="{words}"' in section
    assert section.count("<td><button") == np.count_nonzero(found.counts)


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "shares"])
def test_the_page_holds_all_suspects(which, request, write):
    selection = request.getfixturevalue(which)
    page, rows = write(selection), selection.suspect_indices
    data = page.data
    classes = np.array(data["classes"])
    assert data["id"] == [str(row) for row in rows]
    assert np.array_equal(classes[data["given"]], selection.label[rows].astype(str))
    suggested = np.array(data["suggested"])
    differs = selection.suggested_label[rows] != selection.label[rows]
    assert np.array_equal(suggested >= 0, differs)
    assert np.array_equal(
        classes[suggested[differs]], selection.suggested_label[rows][differs].astype(str)
    )
    assert len(data["q"]) == (0 if selection.q_value is None else len(rows))
    assert f"All {len(rows)} of them." in page.text


def test_the_two_piles_are_all_suspects_and_doubt_divides_them(chosen, write):
    rows = chosen.suspect_indices
    wrong = probably_wrong(chosen, rows)
    assert np.array_equal(wrong, chosen.statistic[rows] > 0.5)
    assert 0 < wrong.sum() < len(rows)
    tiles = write(chosen).tiles()
    assert tiles["probably wrong"] == (str(wrong.sum()), "doubt above one half")
    assert tiles["unsure"][0] == str(len(rows) - wrong.sum())


def test_without_a_doubt_a_better_label_divides_them(exchangeable):
    rows = exchangeable.suspect_indices
    expected = exchangeable.suggested_label[rows] != exchangeable.label[rows]
    assert np.array_equal(probably_wrong(exchangeable, rows), expected)


def test_a_row_without_content_takes_few_bytes(shares):
    """100,000 suspects then make a page of a few megabytes."""
    n = 20_000
    rows = np.arange(n) % len(shares)
    large = replace(
        shares,
        **{
            field: getattr(shares, field)[rows]
            for field in ("label", "statistic", "selection_time", "suggested_label", "cut_group")
        },
        clean_mask=np.zeros(n, dtype=bool),
    )
    found = suspect_list(large, None, None, Contents(None, 0))
    assert found.n_listed == n
    assert len(found.data) / n < 50


def test_texts_beyond_the_budget_are_left_out_and_the_rows_stay(chosen, write):
    texts = Texts([f"text {k} " + "x" * 500 for k in range(len(chosen))])
    page = write(chosen, items=texts, megabytes=0.05)
    assert len(page.data["id"]) == len(chosen.suspect_indices)
    assert 28 < len(page.data["content"]) + 28 < 110
    first = chosen.suspect_indices[28]
    assert page.data["content"][0].startswith(f"ttext {first} ")


def test_the_data_cannot_end_its_script_element(blobs, write):
    names = np.array(["</script><b>", "<!--", "c"])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    texts = Texts(["</script><script>alert(1)</script>"] * len(selection))
    page = write(selection, items=texts)
    assert page.source.count("<script") == page.source.count("</script>") == 3
    assert page.data["classes"] == sorted(names)


def test_controls_in_labels_and_ids_are_written_out(blobs, write):
    names = np.array(["a\x1b[31m", "b\u202e", "c"])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    ids = np.array([f"row\n{k}\udce9" for k in range(len(selection))])
    page = write(selection, row_id=ids)
    assert "\x1b" not in page.source
    assert "\u202e" not in page.source
    assert "a\\u001b[31m" in Page.plain(page.section("classes"))
    assert page.data["id"][0].startswith("row\\n")
