"""The list of methods."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from kspr.errors import InputError
from kspr.experiments.baselines import METHODS, make_method
from kspr.experiments.baselines.method import Method
from kspr.noise import circular, symmetric
from tests.experiments.baselines.rules import accuracy_on_digits

PAGE = Path(__file__).resolve().parents[3] / "docs" / "methods.md"


@pytest.mark.parametrize("name", METHODS)
def test_every_name_leads_to_a_rule_that_is_told_what_the_list_says(name):
    rule = make_method(name)
    assert isinstance(rule, Method)
    assert rule.needs_noise_rate == (METHODS[name].told == "the noise rate")
    # Constants only: what changes while it trains lies in the run's memory.
    assert {entry.name for entry in fields(rule)} == set(vars(rule))


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="There is no method 'cotteaching'; there are standard, "):
        make_method("cotteaching")


def test_the_page_has_every_method_and_what_it_is_told():
    row = re.compile(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
    rows = dict(row.findall(PAGE.read_text()))
    assert rows == {name: listed.told or "-" for name, listed in METHODS.items()}


def test_the_list_does_not_need_torch():
    code = "import sys, kspr.experiments.baselines; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# RoG needs more rows than the digits have for their dimension: see test_filters.py.
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [n for n in METHODS if n not in ("standard", "bootstrap-soft", "rog")]
)
def test_the_method_beats_plain_training(name):
    """40 % symmetric noise on digits, seeded; for Forward 40 % of each class to the next."""
    noise = circular if name == "forward" else symmetric
    # Its authors report gains where labels are noisy.
    margin = 0.05 if name == "meta-cleaner" else 0.0
    assert accuracy_on_digits(name, noise) > accuracy_on_digits("standard", noise) + margin


@pytest.mark.parametrize("name", METHODS)
def test_a_rule_says_where_its_constants_come_from(name):
    rule = type(make_method(name))
    if fields(rule):
        assert re.search(r"public\s+code|experiments \(Section|chosen here|ours", rule.__doc__)
