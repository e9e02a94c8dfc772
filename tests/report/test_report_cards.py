"""The cards: what they show, what they do without, and how large they make the page."""

import numpy as np
import pytest
from report_samples import Page, Pictures, Texts

from kspr import KnockoffsSPR
from kspr.report._cards import SNIPPET, borderline_rows, make_cards
from kspr.report._dial import dial_figure
from kspr.report._histograms import class_histograms, histogram
from kspr.report._noise import describe, matrix
from kspr.report._path import path_figure, path_rows, solve_path

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


def test_the_path_piece_is_small_and_balanced(chosen):
    rows = path_rows(chosen)
    _, sizes = np.unique(chosen.label[rows], return_counts=True)
    assert len(rows) == 120
    assert set(sizes.tolist()) == {12}


def test_suspects_leave_zero_before_kept_rows(chosen, digits40):
    rows = path_rows(chosen)
    _, norms = solve_path(chosen, digits40.X, rows)
    entered = (norms > 0).argmax(axis=0)
    kept = chosen.clean_mask[rows]
    assert np.median(entered[~kept]) < np.median(entered[kept])


def test_figures_are_small_and_rasterise_nothing(chosen, digits40):
    drawn = [
        histogram(chosen),
        dial_figure(chosen, None),
        dial_figure(chosen, chosen.label),
        describe(chosen.noise).figure,
        matrix(chosen)[0],
        path_figure(chosen, digits40.X),
        *(entry.svg for entry in class_histograms(chosen)),
    ]
    for figure in drawn:
        assert len(figure) < 100_000
        assert "<image" not in figure
        assert "font-family" not in figure
        assert "var(--" in figure
        assert "#0" not in figure.replace('"#', "")


def test_many_classes_are_capped(write):
    """700 classes of 4: the table, the notice, the matrix and the multiples stay short."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(700), 4)
    X = rng.standard_normal((len(y), 8)).astype(np.float32)
    selection = KnockoffsSPR.paper().fit(X, y).selection_
    page = write(selection, features=X)
    rows = page.table("classes")
    assert len(rows) == 300
    suspects = {str(row.label): row.n - row.n_kept for row in selection.summary().per_class}
    shown = [suspects[cut_groups[0]] for cut_groups in rows]
    assert min(shown) >= sorted(suspects.values())[-300]
    assert "The 300 classes with most suspects, of 700" in page.text
    assert "more classes" in page.text
    assert page.source.count("<figure>") == 4 + 12
    assert len(page.source) < 10**6


def test_labels_in_any_script_are_drawn(blobs, recwarn):
    names = np.array(["猫", "कुत्ता", "a\nb\x07" + "c" * 60])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    figure = matrix(selection)[0]
    assert "猫" in figure
    assert "\x07" not in figure
    assert not recwarn.list
