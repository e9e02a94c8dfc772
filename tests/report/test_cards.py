"""Cards and all suspects: what they show, what they do without, and how large the page gets."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.report._cards import (
    borderline_rows,
    count_suggestions,
    judge,
    matrix,
    suspect_list,
)
from kspr.report.contents import SNIPPET, Contents, level, number, share, statistic_of
from kspr.selectors.verdict import doubted_rows
from tests.report.samples import Page, Pictures, Texts


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper"])
def test_the_suspects_come_worst_first(which, request, write):
    selection = request.getfixturevalue(which)
    cards = write(selection).cards("suspects")
    assert len(cards) == 28
    for card, row in zip(cards, selection.suspect_indices, strict=False):
        text = Page.plain(card)
        assert text.startswith(str(selection.label[row]))
        assert text.endswith(str(row))
        if selection.control == "people":
            assert f"doubt {spaced(share(selection.doubt[row]))}" in text
        else:
            assert f"time {number(selection.selection_time[row])}" in text
            assert f"W {number(statistic_of(selection)[row])}" in text
        if selection.label[row] != selection.suggested_label[row]:
            assert f"→ {selection.suggested_label[row]}" in text


def test_the_level_that_admits_a_row_is_a_hint_beside_its_bar(chosen, write):
    card = write(chosen).cards("borderline")[0]
    row = borderline_rows(chosen, 1)[0]
    assert f'title="Kept only if q = {level(chosen.q_value[row])} or more' in card
    assert "q =" not in Page.plain(card)
    assert f"--part:{100 * chosen.doubt[row]:.1f}%" in card


def test_pictures_stay_within_their_budget(chosen, digits40, write):
    """Noise is what JPEG compresses worst; photographs are far smaller."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    pixels = np.broadcast_to(noise, (len(chosen), *noise.shape))
    bare = len(write(chosen).source)
    page = write(chosen, items=Pictures(pixels), megabytes=2)
    # The last picture may pass the budget by its own size, and each has a button around it.
    assert 1.9e6 < len(page.source) - bare < 2.1e6
    shown = page.data["content"]
    assert 0 < len(shown) < len(page.data["id"]) - 28
    assert f"Pictures of the first {len(shown) + 28} are in this file" in page.text
    assert "has 2 MB for them; the others are listed without" in page.text


def test_unreadable_items_show_a_placeholder(chosen, pictures, write):
    rows = chosen.suspect_indices
    broken = Pictures(pictures.pixels, frozenset(rows[[0, 1, 2, 30]].tolist()))
    page = write(chosen, items=broken)
    cards = page.cards("suspects")
    assert ["cannot be read" in card for card in cards[:5]] == [True] * 3 + [False] * 2
    assert [entry[0] for entry in page.data["content"][:4]] == ["I", "I", "u", "I"]


def test_every_picture_has_a_text_in_its_place(chosen, pictures, write):
    rows = chosen.suspect_indices
    cards = write(chosen, items=pictures).cards("suspects")
    for card, row in zip(cards, rows, strict=False):
        assert f'alt="Row {row}, given label {chosen.label[row]}"' in card


def test_long_texts_are_cut(chosen, write):
    texts = Texts(["word " * 4000] * len(chosen))
    card = write(chosen, items=texts).cards("suspects")[0]
    quoted = Page.plain(card[card.index("<button") : card.index("</button>")])
    assert len(quoted) <= SNIPPET
    assert quoted.endswith("…")


def test_a_text_that_is_not_unicode_is_shown_all_the_same(chosen, write):
    texts = Texts(["caf\udce9"] * len(chosen))
    assert "caf?" in write(chosen, items=texts).cards("suspects")[0]


def test_no_item_is_loaded_beyond_the_budget(chosen, pictures):
    loaded = []

    class Spy(Pictures):
        def __getitem__(self, row):
            loaded.append(row)
            return super().__getitem__(row)

    contents = Contents(Spy(pictures.pixels), 1000)
    kinds = [contents.of(row).kind for row in range(20)]
    assert kinds == ["image"] * len(loaded) + ["left out"] * (20 - len(loaded))
    assert loaded == list(range(len(loaded)))
    assert 0 < len(loaded) < 20


def test_rows_are_named_by_their_owner_and_shortened_in_the_middle(chosen, write):
    names = np.array([f"some/long/way/to/an/image/{k:04d}.png" for k in range(len(chosen))])
    card = write(chosen, row_id=names).cards("suspects")[0]
    wanted = names[chosen.suspect_indices[0]]
    assert f'title="{wanted}"' in card
    assert f"…{wanted[-10:]}" in Page.plain(card)


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper", "raised", "shares"])
def test_borderline_rows_are_kept_and_nearest_their_cutoff(which, request):
    selection = request.getfixturevalue(which)
    rows = borderline_rows(selection, 24)
    assert selection.clean_mask[rows].all()
    ratio = selection.suspicion / selection.cut_groups.cutoff[selection.cut_group]
    others = np.setdiff1d(selection.clean_indices, rows)
    assert ratio[rows].min() >= ratio[others].max()


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper", "shares"])
def test_bars_lie_between_nothing_and_all(which, request):
    selection = request.getfixturevalue(which)
    cards = judge(selection, np.arange(len(selection)), None, None)
    bar = np.array([card.doubt for card in cards])
    assert bar.min() >= 0
    assert bar.max() <= 1
    assert np.array_equal(np.argsort(bar), np.argsort(selection.suspicion))


def test_the_matrix_counts_every_suspect_once(chosen):
    table, shown = count_suggestions(chosen)
    assert len(shown) == len(chosen.classes)
    assert table.sum() == len(doubted_rows(chosen))
    off_diagonal = table.sum(axis=1) - np.diag(table)
    rows = doubted_rows(chosen)
    moved = chosen.suggested_code[rows] != chosen.label_code[rows]
    assert off_diagonal.tolist() == np.bincount(chosen.label_code[rows][moved]).tolist()


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
    page, rows = write(selection), doubted_rows(selection)
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


def test_suspects_are_probably_wrong_or_uncertain(chosen, write):
    strict = chosen.at(0.01)
    wrong = strict.doubt[strict.suspect_indices] > 0.5
    assert 0 < wrong.sum() < len(wrong)
    page = write(strict)
    assert page.data["wrong"] == wrong.astype(int).tolist()
    tiles = page.tiles()
    assert tiles["probably wrong"] == (str(wrong.sum()), "chance of being wrong above one half")
    assert tiles["uncertain"][0] == str((~wrong).sum())
    assert "of them probably wrong" not in tiles["kept"][1]


def test_a_row_without_content_takes_few_bytes(shares):
    """100,000 suspects then make a page of a few megabytes."""
    n = 20_000
    rows = np.arange(n) % len(shares)
    large = replace(
        shares,
        **{
            field: getattr(shares, field)[rows]
            for field in ("label_code", "doubt", "selection_time", "suggested_code", "cut_group")
        },
        clean_mask=np.zeros(n, dtype=bool),
    )
    found = suspect_list(large, None, None, Contents(None, 0))
    assert found.n_listed == n
    assert len(found.data) / n < 50


def test_texts_beyond_the_budget_are_left_out_and_the_rows_stay(chosen, write):
    texts = Texts([f"text {k} " + "x" * 500 for k in range(len(chosen))])
    page = write(chosen, items=texts, megabytes=0.05)
    assert len(page.data["id"]) == len(doubted_rows(chosen))
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
