"""The numbers of the page."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import selection_quality
from kspr.report import _page
from kspr.report._plots import pooled_estimate
from kspr.report._words import level, number, share


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_truth_is_measured_beside_the_promise(chosen, digits40, write):
    names = np.array([f"digit {k}" for k in range(10)])
    page = write(chosen, truth=names[digits40.y_true])
    quality = selection_quality(chosen.clean_mask, digits40.right)
    tiles = page.tiles()
    assert tiles["wrong among the kept (FSR)"][0] == spaced(level(quality.fsr))
    assert tiles["right labels kept (recall)"][0] == spaced(share(quality.recall))
    assert tiles["FSR and recall in one number (F1)"][0] == number(quality.f1)
    assert "Measured with the true labels that were given" in page.text
    rows = chosen.suspect_indices
    words, code = page.data["truth"]
    assert sum(words[k].startswith("✗") for k in code) == int((~digits40.right[rows]).sum())
    cards = ["✗" in card for card in page.cards("suspects")]
    assert cards == (~digits40.right[rows[:28]]).tolist()


def test_truth_in_another_type_is_compared_by_its_text(raised, digits40):
    as_text = _page.check(raised, digits40.y_true.astype(str))
    assert as_text == _page.check(raised, digits40.y_true)


def test_the_pooled_estimate_is_weighted_by_what_is_kept(raised):
    groups = raised.cut_groups
    expected = np.sum(groups.estimated_fsr * groups.n_kept) / groups.n_kept.sum()
    assert pooled_estimate(raised) == pytest.approx(expected)


def test_shares_have_no_estimate_and_no_error_rate(shares):
    found = _page.verdict(shares, shares.summary())
    assert np.isnan(found.estimate)
    assert not found.has_error_rate
    assert not found.was_raised


def test_a_raised_level_is_the_one_to_explain(raised, chosen):
    found = _page.verdict(raised, raised.summary())
    assert found.was_raised
    assert found.q_shown == found.summary.q_reached > found.summary.q_asked
    assert _page.verdict(chosen, chosen.summary()).q_shown == 0.05


def test_a_short_table_shows_all_classes_in_their_order(chosen):
    table = _page.class_table(chosen.summary())
    assert table.rows == chosen.summary().per_class
    assert table.n_first == 10


def test_a_column_that_says_the_same_everywhere_is_left_out(chosen, raised):
    same = _page.class_table(chosen.summary())
    assert not same.has_levels
    assert same.statuses == ()
    assert _page.class_table(raised.summary()).has_levels


def test_only_rows_that_count_for_the_promise_are_counted(checked):
    some = np.arange(25) < 10
    mixed = replace(checked, checked=replace(checked.checked, counted=some))
    assert _page.verdict(mixed, mixed.summary()).n_checked == 10
