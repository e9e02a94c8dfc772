"""Noise: suspects by label, and the estimated flips."""

import numpy as np

from kspr import KnockoffsSPR
from kspr.report._noise import describe, largest_flips
from kspr.report._words import level
from tests.report.samples import Page


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_noise_is_shown_with_its_intervals(flipped, write):
    """A fifth of the twos are called sevens; nothing else is wrong."""
    page = write(flipped)
    section = Page.plain(page.section("noise"))
    low, high = map(spaced, map(level, flipped.noise.rate_interval))
    assert f"{spaced(level(flipped.noise.rate))} of all labels are wrong" in section
    assert f"{low} to {high}" in section
    first = largest_flips(flipped.noise)[0]
    assert (first.true, first.label) == ("2", "7")
    assert first.low < first.chance < first.high
    assert first.chance > 0.1
    shown = f"2 → 7 {level(first.chance)} ({level(first.low)} to {level(first.high)})"
    assert spaced(shown) in section
    assert "stands out" not in section


def test_even_noise_is_said_to_be_even(chosen, write):
    assert "None of them stands out" in Page.plain(write(chosen).section("noise"))


def test_noise_that_was_not_estimated_is_not_shown(unsplit_paper, shares, write):
    for selection in (unsplit_paper, shares):
        assert '<section id="noise">' not in write(selection).source


def test_the_noise_of_many_classes_is_drawn_for_the_most_concerned(write):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 20)
    selection = KnockoffsSPR(q=0.3).fit(rng.standard_normal((len(y), 8)), y).selection_
    page = write(selection)
    assert "Shown are the 20 of 30 classes with most flips." in page.text
    assert len(describe(selection.noise).figure) < 250_000


def test_labels_in_any_script_are_drawn(blobs, recwarn):
    names = np.array(["猫", "कुत्ता", "a\nb\x07" + "c" * 60])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    figure = describe(selection.noise).figure
    assert "猫" in figure
    assert "\x07" not in figure
    assert not recwarn.list
