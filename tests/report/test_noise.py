"""Noise: suspects by label, and the estimated flips."""

import numpy as np

from kspr import KnockoffsSPR
from kspr.report._page import noise_figure
from kspr.report.contents import level
from kspr.report.plots import average_flip, largest_flips, tile_classes
from kspr.selectors.provenance import NoiseEstimate
from tests.report.samples import Page


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_noise_is_shown_in_the_words_of_the_estimate(flipped, write):
    """A fifth of the twos are called sevens; nothing else is wrong."""
    page = write(flipped)
    section = Page.plain(page.section("noise"))
    assert str(flipped.noise) in section
    first = largest_flips(flipped.noise)[0]
    assert (first.true, first.label) == ("2", "7")
    shown = f"2 → 7 {level(first.chance)} ({level(first.low)} to {level(first.high)})"
    assert spaced(shown) in section
    # What a flip is to be compared with; whether it stands out is for the reader to see.
    assert (
        f"The average over all pairs of classes is {spaced(level(average_flip(flipped.noise)))}"
        in section
    )


def test_the_classes_of_the_largest_flips_are_among_the_tiles():
    """Thirty classes flip a little to all others, and the last two often to each other."""
    noise = np.full((30, 30), 0.01) + 0.7 * np.eye(30)
    noise[28:] = np.eye(30)[28:] * 0.9
    noise[28, 29] = noise[29, 28] = 0.1
    flat = np.zeros((30, 30))
    found = NoiseEstimate(0.3, (0.3, 0.3), noise, flat, flat, np.ones(30), np.arange(30))
    assert {"28", "29"} == {largest_flips(found)[0].true, largest_flips(found)[1].true}
    assert set(tile_classes(found)) >= {28, 29}
    assert len(tile_classes(found)) == 20


def test_noise_that_was_not_estimated_is_not_shown(unsplit_paper, shares, write):
    for selection in (unsplit_paper, shares):
        assert '<section id="noise">' not in write(selection).source


def test_the_noise_of_many_classes_is_drawn_for_the_most_concerned(write):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 20)
    selection = KnockoffsSPR(q=0.3).fit(rng.standard_normal((len(y), 8)), y).selection_
    page = write(selection)
    assert "Shown are the 20 of 30 classes with the largest flips." in page.text
    assert len(noise_figure(selection)) < 250_000


def test_labels_in_any_script_are_drawn(blobs, recwarn):
    names = np.array(["猫", "कुत्ता", "a\nb\x07" + "c" * 60])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    figure = noise_figure(selection)
    assert "猫" in figure
    assert "\x07" not in figure
    assert not recwarn.list
