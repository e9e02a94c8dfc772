"""The result of a selection: masks, ranks, other levels, frames."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from kspr import SPR, InputError, KnockoffsSPR, Selection
from tests.selectors.simulated import by_control


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_indices_and_mask_agree(selection):
    assert np.array_equal(selection.clean_indices, np.flatnonzero(selection.clean_mask))
    together = np.concatenate([selection.clean_indices, selection.suspect_indices])
    assert np.array_equal(np.sort(together), np.arange(len(selection)))


def test_suspects_come_worst_first(selection):
    doubt = selection.doubt[selection.suspect_indices]
    assert (np.diff(doubt) <= 0).all()


def test_suspects_come_by_their_time_where_there_is_no_doubt(digits40):
    for model in (SPR(), by_control(control="paper"), KnockoffsSPR(control="exchangeable")):
        selection = model.fit(digits40.X, digits40.y).selection_
        assert (np.diff(selection.selection_time[selection.suspect_indices]) <= 0).all()


def test_another_level_needs_no_second_fit(digits40):
    loose = KnockoffsSPR(q=0.2).fit(digits40.X, digits40.y).selection_
    for q in (0.01, 0.05, 0.3):
        direct = KnockoffsSPR(q=q).fit(digits40.X, digits40.y).selection_
        moved = loose.at(q)
        assert np.array_equal(moved.clean_mask, direct.clean_mask)
        assert np.array_equal(moved.cut_groups.status, direct.cut_groups.status)
        assert str(moved.summary()) == str(direct.summary())
        assert moved.manifest.parameters == direct.manifest.parameters


def test_a_higher_level_keeps_more(selection):
    kept = [selection.at(q).clean_mask for q in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)]
    for small, large in pairwise(kept):
        assert (small <= large).all()


def test_a_level_out_of_reach_keeps_nothing_and_says_so(digits40):
    selection = KnockoffsSPR(q=0.001).fit(digits40.X, digits40.y).selection_
    assert not selection.clean_mask.any()
    assert set(selection.cut_groups.status) == {"empty"}
    assert "Nothing could be kept there at the error rate asked for" in str(selection.summary())
    assert (selection.cut_groups.smallest_q > 0.001).all()
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"assumed"}


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_frame_has_one_row_per_sample(selection, backend):
    frame = selection.to_frame(backend)
    columns = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert frame.shape[0] == len(selection)
    assert columns[:2] == ["label", "clean"]
    assert list(np.asarray(frame["suggested_label"])) == list(selection.suggested_label)


def test_an_unknown_frame_is_refused_in_a_sentence(selection):
    with pytest.raises(InputError, match="'pandas', 'polars' or 'pyarrow'"):
        selection.to_frame("excel")


def test_a_level_that_the_chances_contradict_is_not_held(digits40):
    """Every label has the level 0.01, and by the chances a third of them is wrong."""
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    assert set(selection.cut_groups.status) == {"assumed"}
    careless = replace(selection, q_value=np.full(len(selection), 0.01))
    found = careless.at(0.05)
    assert found.clean_mask.all()
    assert set(found.cut_groups.status) == {"not held"}
    notice = found.summary().notices[0]
    assert "is not held" in notice.headline
    assert "100 checked rows" in notice.help
    rows = found.draw_checks(100)
    told = found.with_checks(rows, digits40.y_true[rows])
    assert "not held" not in told.cut_groups.status


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_suspects_of_a_frame_are_taken_by_their_places(digits40, library):
    """A shuffled index once showed other rows: 21 % wrong labels instead of 96 %."""
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    place = np.arange(len(digits40.y))
    if library == "pandas":
        frame = pytest.importorskip("pandas").DataFrame({"place": place}, index=place[::-1])
    else:
        module = pytest.importorskip(library)
        frame = (module.DataFrame if library == "polars" else module.table)({"place": place})
    worst = selection.suspects(frame)
    assert type(worst) is type(frame)
    assert np.array_equal(np.asarray(worst["place"]), selection.suspect_indices)


def test_suspects_of_another_frame_are_refused(digits40):
    selection = KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="has 2 rows but 1,797 were fitted"):
        selection.suspects(pa.table({"place": [0, 1]}))
    with pytest.raises(InputError, match=r"takes a data frame in memory, got ndarray"):
        selection.suspects(digits40.X)
