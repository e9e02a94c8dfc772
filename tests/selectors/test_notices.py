"""What the error rate rests on, how sensitive it is, and where the level was not met."""

import numpy as np
import pytest

from kspr import (
    SPR,
    InputError,
    KnockoffsSPR,
    PaperKnockoffsSPR,
    ProbabilitySelector,
    selection_quality,
)
from kspr._text import percent
from kspr.selectors.notices import MAX_LISTED, basis, notices
from tests.selectors.simulated import by_control


@pytest.fixture(scope="module")
def mixed():
    """Four well separated classes of which one is too small for the level."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [200, 200, 200, 12])
    X = rng.standard_normal((len(y), 6)) + 6 * np.eye(4, 6)[y]
    names = np.array(["ant", "bee", "cow", "doe"])
    return KnockoffsSPR(q=0.05, cut="per_class").fit(X, names[y]).selection_


@pytest.fixture(scope="module")
def met(digits40):
    return KnockoffsSPR(q=0.05).fit(digits40.X, digits40.y).selection_


@pytest.fixture(scope="module")
def raised(digits40):
    return PaperKnockoffsSPR().fit(digits40.X, digits40.y).selection_


@pytest.fixture(scope="module")
def shares(blobs):
    return SPR(0.7).fit(blobs.X, blobs.y).selection_


def test_met_levels_and_shares_need_no_notice(met, shares):
    assert set(met.cut_groups.status) == {"assumed"}
    assert notices(met) == ()
    assert notices(shares) == ()


def test_a_rate_without_checked_rows_is_said_to_rest_on_an_assumption(met, shares):
    words = basis(met)
    assert words.startswith("This rate rests on an assumption, not on checked rows")
    assert "of the kept labels were wrong in our measurements" in words
    assert met.assumption in words
    assert f"Wrong among the kept: {met.ends()}" in words
    assert basis(shares) is None


def test_a_rate_from_checked_rows_is_said_to_rest_on_them(digits40):
    rows = np.random.default_rng(0).choice(len(digits40.y), 25, replace=False)
    model = KnockoffsSPR(q=0.4)
    model.fit(digits40.X, digits40.y, checked=(rows, digits40.y_true[rows]))
    assert basis(model.selection_) == model.selection_.assumption
    # A mask lists right rows only, which sets no cut-off.
    model.fit(digits40.X, digits40.y, checked=np.arange(len(digits40.y)) < 25)
    assert basis(model.selection_).startswith("This rate rests on an assumption")


def test_the_summary_prints_every_notice_and_what_the_rate_rests_on(mixed):
    text = str(mixed.summary())
    for notice in notices(mixed):
        assert notice.headline in text
        assert notice.meaning in text
        assert notice.help in text
    assert basis(mixed) in text


def test_an_empty_class_is_named_with_the_level_it_needs(mixed):
    (notice,) = notices(mixed)
    assert notice.status == "empty"
    assert [entry.label for entry in notice.classes] == ["doe"]
    needed = mixed.cut_groups.smallest_q[mixed.cut_groups.status == "empty"].max()
    assert percent(needed) in notice.classes[0].detail
    assert "cut='pooled'" in notice.help


def test_the_advised_level_is_enough(mixed, raised):
    for selection in (mixed, raised):
        # That of the worst status is for cut groups that no level would help.
        notice = notices(selection)[-1]
        advised = float(notice.help.split("q = ")[1].split(" ")[0])
        then = selection.at(advised).cut_groups.status
        assert "empty" not in then[selection.cut_groups.status == notice.status]


def test_a_notice_names_no_more_classes_than_fit():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 4)
    selection = KnockoffsSPR(q=0.05).fit(rng.standard_normal((240, 5)), y).selection_
    (notice,) = notices(selection)
    assert len(notice.classes) == MAX_LISTED
    assert notice.n_more == 60 - MAX_LISTED
    assert str(notice).count("needed)") + str(notice).count("out of reach)") == 3
    assert "; and 57 more." in str(notice)


def test_a_pooled_cut_is_explained_by_class_all_the_same(mixed):
    rng = np.random.default_rng(1)
    selection = KnockoffsSPR(q=0.05, cut="pooled").fit(
        rng.standard_normal((60, 4)), np.arange(60) % 3
    )
    (notice,) = notices(selection.selection_)
    assert len(notice.classes) == 3


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_level_out_of_reach_is_empty_and_says_what_would_help(digits40, control):
    model = by_control(q=0.001, control=control).fit(digits40.X, digits40.y)
    selection = model.selection_
    assert not selection.clean_mask.any()
    assert set(selection.cut_groups.status) == {"empty"}, "no fallback that was not asked for"
    assert np.isnan(selection.cut_groups.q_reached).all()
    assert (selection.cut_groups.smallest_q > 0.001).all()
    (notice,) = selection.summary().notices
    assert "would" in notice.help
    assert "rows that you have checked" in notice.help
    assert notice.help in str(selection.summary())
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"assumed"}
    assert reachable.summary().notices == ()


def test_only_choices_that_the_selector_has_are_advised():
    y = np.arange(60) % 3
    P = np.full((60, 3), 0.2) + 0.4 * np.eye(3)[y]
    model = ProbabilitySelector(q=0.001, control="exchangeable").fit(P, y)
    (notice,) = notices(model.selection_)
    assert "control='people' reaches lower levels" in notice.help
    assert "remove_floor" not in notice.help


def test_copies_with_different_labels_are_named_and_counted(blobs):
    X = np.concatenate([blobs.X, blobs.X[:3]])
    y = np.concatenate([blobs.y, [blobs.y[0], *((blobs.y[1:3] + 1) % 3)]])
    selection = KnockoffsSPR(q=0.2).fit(X, y).selection_
    (notice,) = [notice for notice in notices(selection) if notice.status == "copies"]
    assert notice.headline == "Copies with different labels (4 rows in 2 sets)"
    assert sum(int(entry.detail.split()[0]) for entry in notice.classes) == 4
    assert "Copies with different labels" in str(selection.summary())
    # The copy of row 0 has its label: nothing contradicts it.
    same = KnockoffsSPR(q=0.2).fit(X[:-2], y[:-2]).selection_
    assert (same.duplicate_set >= 0).sum() == 2
    assert not [notice for notice in notices(same) if notice.status == "copies"]


def labels_of(times: float, seed: int, n: int = 6000):
    """Return Gaussian classes; the odds of a wrong label rise `times` from easy to hard rows."""
    rng = np.random.default_rng([seed, 5])
    true = rng.integers(0, 4, n)
    centres = 2.2 * np.eye(4, 6)
    X = centres[true] + rng.standard_normal((n, 6))
    distance = ((X[:, None] - centres) ** 2).sum(axis=2)
    own = distance[np.arange(n), true]
    distance[np.arange(n), true] = np.inf
    # Easy rows are far nearer to their own centre than to any other.
    rank = np.argsort(np.argsort(own - distance.min(axis=1))) / n
    odds = 0.08 / 0.92 * times**rank
    wrong = rng.random(n) < odds / (1 + odds)
    other = (true + rng.integers(1, 4, n)) % 4
    return X, np.where(wrong, other, true), true


@pytest.mark.parametrize("times", [1, 4, 16])
def test_the_rate_is_between_the_ends_or_near_them(times):
    """Mean of four draws, q = 0.05: the realised FSR is within a third of the nearest end."""
    ends, got = [], []
    for seed in range(4):
        X, y, true = labels_of(times, seed)
        selection = KnockoffsSPR(q=0.05, random_state=seed).fit(X, y).selection_
        ends.append((selection.ends().by_class, selection.ends().by_people))
        got.append(selection_quality(selection.clean_mask, y == true).fsr)
    low, high = sorted(np.mean(ends, axis=0))
    assert low / 1.34 <= np.mean(got) <= 1.34 * high


def test_the_end_of_the_model_that_judges_is_near_the_level(digits40):
    selection = KnockoffsSPR(q=0.1, control="transition").fit(digits40.X, digits40.y).selection_
    assert selection.ends().by_class == pytest.approx(0.1, abs=0.04)


def test_nothing_kept_has_no_rate(digits40):
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    assert np.isnan(selection.at(1e-6).ends().by_people)


def test_what_cannot_be_said_is_refused(digits40):
    selection = by_control(control="paper").fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="only control='people' and 'transition'"):
        selection.ends()
