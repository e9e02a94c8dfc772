"""Numbers, labels and statistics as text, and what the pages share."""

import base64
import hashlib
import math

import pytest
from jinja2 import UndefinedError

from kspr.report.contents import (
    count,
    environment,
    level,
    name,
    number,
    scale_of,
    share,
    shared_parts,
)


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
    scales = [scale_of(s) for s in (chosen, exchangeable, unsplit_paper, shares)]
    assert [scale.name for scale in scales] == ["doubt", "W", "W", "selection time"]
    assert [scale.direction for scale in scales] == [1, -1, -1, 1]
    assert len({scale.heading for scale in scales}) == 4


def test_every_script_has_the_hash_of_its_text():
    parts = shared_parts(environment(), ["style.css"], ["common.js", "script.js"])
    assert [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in parts["scripts"]
    ] == parts["script_hashes"]


def test_the_look_of_all_pages_comes_before_their_own_style():
    style = shared_parts(environment(), ["style.css"], [])["style"]
    assert 0 <= style.index("--accent") < style.index(".curves")


def test_a_misspelt_name_in_a_template_fails():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ no_such_name }}").render()


def test_labels_are_escaped():
    shown = environment().from_string("{{ name|label }}").render(name="<b>")
    assert shown == "&lt;b&gt;"
