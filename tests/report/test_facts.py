"""The numbers of the page."""

from dataclasses import replace

import numpy as np

from kspr import selection_quality
from kspr.report import _page
from kspr.report.contents import level, number, share
from kspr.selectors.verdict import doubted_rows


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
    rows = doubted_rows(chosen)
    words, code = page.data["truth"]
    assert sum(words[k].startswith("✗") for k in code) == int((~digits40.right[rows]).sum())
    cards = ["✗" in card for card in page.cards("suspects")]
    assert cards == (~digits40.right[rows[:28]]).tolist()


def test_truth_in_another_type_is_compared_by_its_text(raised, digits40, write):
    as_text = write(raised, truth=digits40.y_true.astype(str)).tiles()
    assert as_text == write(raised, truth=digits40.y_true).tiles()
    found = (~digits40.right & ~raised.clean_mask).sum()
    wrong = (~digits40.right).sum()
    assert as_text["wrong labels found"][0] == f"{found:,} of {wrong:,}"


def test_shares_have_no_error_rate(shares):
    tiles = {name: rest for name, *rest in _page.tiles(shares, shares.summary())}
    assert tiles["error rate (q)"] == ["none", "not estimated"]


def test_a_raised_error_rate_is_told_beside_the_one_asked_for(raised):
    tiles = {name: rest for name, *rest in _page.tiles(raised, raised.summary())}
    reached = level(raised.summary().q_reached)
    assert tiles["error rate (q)"] == [level(0.02), f"reached: {reached}"]


def test_only_rows_that_count_for_the_promise_are_counted(checked):
    some = np.arange(25) < 10
    mixed = replace(checked, checked=replace(checked.checked, counted=some))
    assert _page.tiles(mixed, mixed.summary())[-1][-1] == "measured by 10 checked rows"
