"""Cards: what they show, what they do without, and how large they make the page."""

import numpy as np
import pytest

from kspr.report._cards import SNIPPET, Contents, borderline_rows, judge
from kspr.report._words import level, number, share
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
        if selection.control == "transition":
            assert f"doubt {spaced(share(selection.statistic[row]))}" in text
        else:
            assert f"time {number(selection.selection_time[row])}" in text
            assert f"W {number(selection.statistic[row])}" in text
        if selection.label[row] != selection.suggested_label[row]:
            assert f"→ {selection.suggested_label[row]}" in text


def test_the_level_that_admits_a_row_is_a_hint_beside_its_bar(chosen, write):
    card = write(chosen).cards("borderline")[0]
    row = borderline_rows(chosen, 1)[0]
    assert f'title="Kept only if q = {level(chosen.q_value[row])} or more' in card
    assert "q =" not in Page.plain(card)
    assert f"--part:{100 * chosen.statistic[row]:.1f}%" in card


def test_pictures_stay_within_their_budget(chosen, digits40, write):
    """Noise is what JPEG compresses worst; photographs are far smaller."""
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    pixels = np.broadcast_to(noise, (len(chosen), *noise.shape))
    bare = len(write(chosen, features=digits40.X).source)
    page = write(chosen, items=Pictures(pixels), features=digits40.X, megabytes=2)
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
    bar = judge(selection, np.arange(len(selection)), None, None).doubt
    assert bar.min() >= 0
    assert bar.max() <= 1
    assert np.array_equal(np.argsort(bar), np.argsort(selection.suspicion))
