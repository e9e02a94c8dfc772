"""Classes that did not meet the level are named first, with what would help."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.report._notices import MAX_LISTED, notices
from kspr.report._words import level


@pytest.fixture(scope="module")
def mixed():
    """Four well separated classes of which one is too small for the level."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [200, 200, 200, 12])
    X = rng.standard_normal((len(y), 6)) + 6 * np.eye(4, 6)[y]
    names = np.array(["ant", "bee", "cow", "doe"])
    return KnockoffsSPR(q=0.05, cut="per_class").fit(X, names[y]).selection_


def test_met_levels_and_shares_need_no_notice(chosen, shares):
    assert set(chosen.cut_groups.status) == {"controlled"}
    assert notices(chosen) == []
    assert notices(shares) == []


def test_an_empty_class_is_named_with_the_level_it_needs(mixed, write):
    (notice,) = notices(mixed)
    assert notice.status == "empty"
    assert [entry.label for entry in notice.classes] == ["doe"]
    needed = mixed.cut_groups.smallest_q[mixed.cut_groups.status == "empty"].max()
    assert level(needed) in notice.classes[0].detail
    page = write(mixed)
    assert page.text.index("Nothing kept in 1 of 4 classes") < page.text.index("Class by class")
    assert "nothing was kept" in page.text
    assert "12 of them only because nothing could be kept" in page.text


def test_the_advised_level_is_enough(mixed, raised):
    for selection in (mixed, raised):
        (notice,) = notices(selection)
        advised = float(notice.help.split("q = ")[1].split(" ")[0])
        assert "empty" not in selection.at(advised).cut_groups.status


def test_a_raised_level_is_said_in_the_verdict(raised, write):
    text = write(raised).text
    reached = level(raised.summary().q_reached).replace("\u202f", " ")
    assert f"at an error rate of {reached}, where 2 % was asked for" in text
    assert "A higher error rate than asked in all 10 classes" in text
    assert "samples_per_class=None" in text


def test_a_fallback_is_said_to_have_no_error_rate(write):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    selection = KnockoffsSPR.paper().fit(rng.standard_normal((60, 4)), y).selection_
    fallback = selection.cut_groups.status == "fallback"
    assert fallback.any()
    page = write(selection)
    kept = int(selection.cut_groups.n_kept[fallback].sum())
    assert f"({kept} of them without an error rate)" in page.text
    assert "No error rate for what is kept" in page.text
    assert "without an estimate of its error rate" in page.text


def test_a_notice_names_no_more_classes_than_fit():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 4)
    selection = (
        KnockoffsSPR(q=0.05, cut="per_class").fit(rng.standard_normal((240, 5)), y).selection_
    )
    (notice,) = notices(selection)
    assert len(notice.classes) == MAX_LISTED
    assert notice.n_more == 60 - MAX_LISTED


def test_a_pooled_cut_is_explained_by_class_all_the_same(mixed):
    rng = np.random.default_rng(1)
    selection = KnockoffsSPR(q=0.05, cut="pooled").fit(
        rng.standard_normal((60, 4)), np.arange(60) % 3
    )
    (notice,) = notices(selection.selection_)
    assert len(notice.classes) == 3
