"""Rows that change sides between the selections of a training."""

from dataclasses import replace

import numpy as np

from kspr.report._cards import Contents
from kspr.report._course import render
from kspr.report._sides import MOST_RESTLESS, restless_rows, sides_by_epoch
from tests.report.samples import Page, training_run


def masks(n: int, *changes: list[int]) -> dict[int, np.ndarray]:
    """Return masks by epoch: all rows first, then each time with the rows of `changes` flipped."""
    found = {1: np.ones(n, dtype=bool)}
    for epoch, rows in enumerate(changes, start=2):
        found[epoch] = found[epoch - 1].copy()
        found[epoch][rows] ^= True
    return found


def test_each_selection_is_counted_against_the_one_before_it():
    found = sides_by_epoch(masks(10, [1, 2, 3], [3, 4]))
    assert [(line.epoch, line.kept, line.left, line.joined) for line in found] == [
        (2, 7, 3, 0),
        (3, 7, 1, 1),
    ]
    assert sides_by_epoch(masks(10)) == []


def test_the_rows_that_changed_most_often_come_first(chosen, tmp_path):
    n = len(chosen)
    sides = masks(n, [5, 6, *range(100, 140)], [5, 6], [5])
    run = replace(training_run(tmp_path, chosen, chosen, None), sides=sides)
    found = restless_rows(run, Contents(None, 0))
    assert [card.row_id for card in found.cards[:2]] == ["5", "6"]
    assert (found.n, found.least, found.most, len(found.cards)) == (42, 1, 3, MOST_RESTLESS)


def test_a_run_without_selections_in_training_has_no_such_rows(chosen, tmp_path):
    run = training_run(tmp_path, chosen, chosen, None)
    assert restless_rows(run, Contents(None, 0)) is None
    still = replace(run, sides=masks(len(chosen), []))
    assert restless_rows(still, Contents(None, 0)) is None
    assert 'id="restless"' not in render(run, None, 1.0)


def test_the_page_shows_the_changes(chosen, tmp_path):
    sides = masks(len(chosen), [5, 6], [5])
    run = replace(training_run(tmp_path, chosen, chosen, None), sides=sides)
    page = Page(render(run, None, 1.0))
    assert "Rows that changed sides: 2" in page.text
    assert "All of them: 1 to 2 times each." in page.text


def test_with_referees_the_page_says_that_there_was_one_selection(chosen, raised, tmp_path):
    run = training_run(tmp_path, chosen, raised, None)
    run.about["settings"]["select_on"] = "referees"
    assert "There was one selection" in Page(render(run, None, 1.0)).text.replace("\n", " ")
