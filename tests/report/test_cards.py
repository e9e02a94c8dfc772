"""Cards: what they show, what they do without, and how large they make the page."""

import numpy as np
import pytest

from kspr.report._cards import SNIPPET, borderline_rows, make_cards
from kspr.report._words import level, number, share
from tests.report.samples import Page, Pictures, Texts


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper"])
def test_the_suspects_come_worst_first(which, request, write):
    selection = request.getfixturevalue(which)
    cards = write(selection, max_suspects=40).cards("suspects")
    assert len(cards) == 40
    for card, row in zip(cards, selection.suspect_indices, strict=False):
        text = Page.plain(card)
        assert text.startswith(f"{row} {selection.label[row]}")
        if selection.control == "transition":
            assert f"doubt {spaced(share(selection.statistic[row]))}" in text
        else:
            assert f"time {number(selection.selection_time[row])}" in text
            assert f"W {number(selection.statistic[row])}" in text
        if selection.label[row] != selection.suggested_label[row]:
            assert f"→ {selection.suggested_label[row]}" in text


def test_a_card_says_which_level_admits_its_row(chosen, write):
    page = write(chosen)
    row = borderline_rows(chosen, 1)[0]
    wanted = f"kept from q = {spaced(level(chosen.q_value[row]))}"
    assert wanted in Page.plain(page.cards("borderline")[0])


BYTES = 5 * 10**6


def test_200_thumbnails_of_noise_stay_below_5_mb(chosen, digits40, write):
    """Noise is what JPEG compresses worst; photographs are far smaller."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    pixels = np.broadcast_to(noise, (len(chosen), *noise.shape))
    page = write(chosen, items=Pictures(pixels), features=digits40.X)
    assert page.source.count("data:image/jpeg") == 224
    assert len(page.source.encode()) < BYTES


def test_unreadable_items_show_a_placeholder(chosen, pictures, write):
    rows = chosen.suspect_indices
    broken = Pictures(pictures.pixels, frozenset(rows[:3].tolist()))
    cards = write(chosen, items=broken, max_suspects=5).cards("suspects")
    assert ["cannot be read" in card for card in cards] == [True] * 3 + [False] * 2


def test_texts_are_shown_as_snippets(chosen, write):
    texts = Texts(["word " * 400] * len(chosen))
    card = write(chosen, items=texts, max_suspects=1).cards("suspects")[0]
    quoted = Page.plain(card[card.index("<blockquote") : card.index("</blockquote>")])
    assert len(quoted) <= SNIPPET
    assert quoted.endswith("…")


def test_only_the_items_that_are_shown_are_loaded(chosen, pictures):
    rows = chosen.suspect_indices[:7]
    loaded = []

    class Spy(Pictures):
        def __getitem__(self, row):
            loaded.append(row)
            return super().__getitem__(row)

    make_cards(chosen, rows, row_id=None, items=Spy(pictures.pixels), truth=None)
    assert loaded == rows.tolist()


def test_rows_are_named_by_their_owner(chosen, write):
    names = np.array([f"img/{k:04d}.png" for k in range(len(chosen))])
    card = write(chosen, row_id=names, max_suspects=1).cards("suspects")[0]
    assert names[chosen.suspect_indices[0]] in card


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper", "raised", "shares"])
def test_borderline_rows_are_kept_and_nearest_their_cutoff(which, request):
    selection = request.getfixturevalue(which)
    rows = borderline_rows(selection, 24)
    assert selection.clean_mask[rows].all()
    ratio = selection.suspicion / selection.cut_groups.cutoff[selection.cut_group]
    others = np.setdiff1d(selection.clean_indices, rows)
    assert ratio[rows].min() >= ratio[others].max()
