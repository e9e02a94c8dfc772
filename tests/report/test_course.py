"""Curves, epochs, and rows that changed sides between the selections of a training."""

from dataclasses import replace

import numpy as np

from kspr.report._course import (
    MOST_CARDS,
    curve,
    epoch_rows,
    moved_rows,
    render,
)
from kspr.report.contents import Contents
from tests.report.samples import EPOCHS, Page, training_run


def flipped(selection, rows):
    mask = selection.clean_mask.copy()
    mask[rows] = ~mask[rows]
    return replace(selection, clean_mask=mask)


def test_rows_that_changed_sides_are_those_of_exactly_one_selection(chosen, tmp_path):
    kept, aside = np.flatnonzero(chosen.clean_mask), np.flatnonzero(~chosen.clean_mask)
    after = flipped(chosen, [*kept[:3], *aside[:40]])
    left, joined = moved_rows(training_run(tmp_path, chosen, after, None), Contents(None, 0))
    assert (left.n, joined.n) == (3, 40)
    assert {card.row_id for card, _ in left.cards} == {str(row) for row in kept[:3]}
    assert len(joined.cards) == MOST_CARDS


def test_the_most_doubtful_come_first(chosen, tmp_path):
    aside = np.flatnonzero(~chosen.clean_mask)[:40]
    after = flipped(chosen, aside)
    _, joined = moved_rows(training_run(tmp_path, chosen, after, None), Contents(None, 0))
    shown = [int(card.row_id) for card, _ in joined.cards]
    doubts = chosen.suspicion[shown]
    assert (np.diff(doubts) <= 0).all()
    assert (
        doubts.min()
        >= np.delete(chosen.suspicion[aside], [list(aside).index(r) for r in shown]).max()
    )


def test_selections_of_different_rows_are_not_compared(chosen, tmp_path):
    run = training_run(tmp_path, chosen, chosen, None)
    run.after.row[0] += 5
    assert moved_rows(run, Contents(None, 0)) == (None, None)
    assert "cannot be compared" in render(run, None, 1.0)


def test_nothing_moves_between_equal_selections(chosen, tmp_path):
    left, joined = moved_rows(training_run(tmp_path, chosen, chosen, None), Contents(None, 0))
    assert (left.n, joined.n) == (0, 0)


def test_columns_that_were_not_measured_are_left_out():
    bare = [{k: v for k, v in line.items() if k in ("epoch", "loss", "kept")} for line in EPOCHS]
    assert epoch_rows(bare, {})["heads"] == ["epoch", "loss", "kept"]
    full = epoch_rows(EPOCHS, {})
    assert full["heads"][-1] == "seconds"
    assert [row[0] for row in full["rows"]] == ["1", "2", "3"]
    # Not measured in the second epoch.
    assert full["rows"][1][full["heads"].index("estimated wrong")] == "–"  # noqa: RUF001


def test_a_diverged_loss_does_not_break_the_page(tmp_path):
    run = training_run(tmp_path, None, None, None)
    lines = [{**line, "loss": 1e38, "reference_loss": None} for line in run.history]
    page = render(replace(run, history=lines), None, 1.0)
    assert "Loss in training" not in page


def test_a_figure_has_one_line_for_each_name():
    points = {"a": [(1, 0.5), (2, 0.6)], "b": [(1, 0.1)]}
    svg = curve("k", "T", points, as_share=True)
    assert svg.count("line2d") >= 2 or svg.count("<path") > 2
    assert 'aria-label="T, by epoch: a, b"' in svg


def test_pictures_of_the_moved_rows_are_on_the_page(chosen, raised, pictures, tmp_path):
    page = Page(render(training_run(tmp_path, chosen, raised, pictures), None, 1.0))
    assert page.source.count("data:image/jpeg") > 0
    # Nothing opens on this page, so nothing pretends to be a button.
    assert 'class="look picture"' in page.source
    assert '<button type="button" class="look' not in page.source


def test_messages_of_the_guard_are_listed_with_their_epoch(tmp_path):
    page = Page(render(training_run(tmp_path, None, None, None), None, 1.0))
    assert "epoch 2 most classes are starved" in page.text


def masks(n: int, *changes: list[int]) -> dict[int, np.ndarray]:
    """Return masks by epoch: all rows first, then each time with the rows of `changes` flipped."""
    found = {1: np.ones(n, dtype=bool)}
    for epoch, rows in enumerate(changes, start=2):
        found[epoch] = found[epoch - 1].copy()
        found[epoch][rows] ^= True
    return found


def test_each_selection_is_counted_against_the_one_before_it():
    table = epoch_rows(EPOCHS, masks(10, [1, 2, 3], [3, 4]))
    place = table["heads"].index("set aside")
    assert [row[place : place + 2] for row in table["rows"]] == [
        ["–", "–"],  # noqa: RUF001 - dashes are meant
        ["3", "0"],
        ["1", "1"],
    ]
    assert "set aside" not in epoch_rows(EPOCHS, masks(10))["heads"]


def test_with_referees_the_page_says_that_there_was_one_selection(chosen, raised, tmp_path):
    run = training_run(tmp_path, chosen, raised, None)
    run.about["settings"]["select_on"] = "referees"
    assert "There was one selection" in Page(render(run, None, 1.0)).text.replace("\n", " ")
