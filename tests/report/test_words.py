"""Numbers, labels and statistics as text."""

import math

import pytest

from kspr.report._words import count, level, name, number, scale_of, share


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.05, "5 %"), (0.1234567, "12.3 %"), (0.00001, "0.001 %"), (1.0, "100 %"), (0.0, "0 %")],
)
def test_a_level_has_three_digits(value, text):
    assert level(value).replace("\u202f", " ") == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_level_that_is_none_is_a_dash(value):
    assert level(value) == level(None) == "–"  # noqa: RUF001 - a dash is meant


def test_nearly_everything_is_not_shown_as_everything():
    assert share(0.9999).startswith("> 99.9")
    assert share(1.0).startswith("100.0")
    assert share(0.5).startswith("50.0")


def test_numbers_and_counts_are_rounded_for_reading():
    assert count(1234567) == "1,234,567"
    assert number(0.12345) == "0.123"
    assert number(math.nan) == level(None)


def test_labels_stay_visible_and_fit():
    assert name("") == name("  ") == "(empty)"
    assert name(7) == "7"
    assert name("a\x1b") == "a\\u001b"


def test_every_control_has_a_scale(chosen, exchangeable, unsplit_paper, shares):
    found = [scale_of(s) for s in (chosen, exchangeable, unsplit_paper, shares)]
    assert [scale.name for scale in found] == ["doubt", "W", "W", "selection time"]
    assert [scale.direction for scale in found] == [1, -1, -1, 1]
    assert len({scale.heading for scale in found}) == 4
