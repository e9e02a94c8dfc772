"""What the error rate rests on, how sensitive it is, and where the level was not met."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import (
    SPR,
    InputError,
    KnockoffsSPR,
    PaperKnockoffsSPR,
    ProbabilitySelector,
)
from kspr._text import percent
from kspr.selectors.notices import MAX_LISTED, notices
from kspr.selectors.verdict import basis, ends, probably_wrong, verdict
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
    assert words.startswith(met.assumption)
    assert f"Wrong among the kept: {ends(met)}" in words
    assert basis(shares) is None


def test_the_verdict_counts_every_label_once(met):
    strict = met.at(0.01)
    found = verdict(strict)
    assert found.n_probably_wrong == (strict.doubt > 0.5).sum()
    assert found.n_uncertain == (~strict.clean_mask & (strict.doubt <= 0.5)).sum() > 0
    right = len(met) - found.n_probably_wrong - found.n_uncertain
    assert right == strict.clean_mask.sum()
    assert found.sentences[0] == f"{found.n_probably_wrong:,} of 1,797 labels are probably wrong."
    assert found.sentences[1] == f"{found.n_uncertain:,} more are uncertain, {right:,} look right."
    assert found.sentences[2].startswith("Keep only those and expect about ")
    assert found.sentences[-1] == "Check 100 rows to know."


def test_the_verdict_names_both_ends_where_people_would_err_more(met):
    strict = met.at(0.01)
    many = replace(strict, doubt_by_people=np.full(len(met), 0.123))
    assert "up to 12 % if people made the labels." in str(verdict(many))
    none = replace(strict, doubt_by_people=np.zeros(len(met)))
    assert "people" not in str(verdict(none))
    assert f"about {percent(float(f'{verdict(none).wrong_among_kept:.2g}'))} wrong." in str(
        verdict(none)
    )


def test_a_large_error_rate_keeps_labels_that_are_probably_wrong_and_says_so(met):
    loose = met.at(0.3)
    wrong = loose.doubt > 0.5
    assert (wrong & loose.clean_mask).any()
    n = int(loose.clean_mask.sum())
    both = int((wrong & loose.clean_mask).sum())
    said = f"Keep {n:,} (the error rate allows {both:,} of the probably wrong ones, too) and expect"
    assert said in str(verdict(loose))
    assert verdict(loose).n_probably_wrong == wrong.sum()


def test_after_checks_the_verdict_is_the_checked_one(met, digits40):
    rows = met.draw_checks(150)
    done = met.with_checks(rows, digits40.y_true[rows])
    found, fsr = verdict(done), done.estimates().fsr
    assert found.wrong_among_kept == fsr.value
    assert "by 150 checked rows." in found.sentences[-1]
    assert ",:" not in str(found)
    assert "Check 100 rows" not in str(found)
    # The answers of a person decide on their own rows.
    wrong = rows[~digits40.right[rows]]
    assert probably_wrong(done)[wrong].all()
    assert not probably_wrong(done)[rows[digits40.right[rows]]].any()


def test_without_an_error_rate_the_verdict_promises_none(shares):
    found = verdict(shares)
    assert np.isnan(found.wrong_among_kept)
    assert "fit worse than another one." in found.sentences[0]
    assert found.sentences[2] == (
        f"{shares.clean_mask.sum():,} are kept; how many of them are wrong is not estimated."
    )


def test_where_nothing_is_kept_the_verdict_says_so(met):
    found = verdict(met.at(1e-6))
    assert found.sentences[1].endswith("None can be kept at an error rate of 0.0001 %.")
    assert found.sentences[2] == "Check 100 rows, or ask for a larger error rate."


def test_labels_that_a_network_has_seen_are_wrong_more_often_than_estimated(met):
    seen = replace(met, manifest=replace(met.manifest, seen_labels=True)).at(0.1)
    assert "and expect more than " in str(verdict(seen))
    assert "people" not in str(verdict(seen))


def test_a_rate_from_checked_rows_is_said_to_rest_on_them(digits40):
    rows = np.random.default_rng(0).choice(len(digits40.y), 25, replace=False)
    model = KnockoffsSPR(q=0.4)
    model.fit(digits40.X, digits40.y, checked=(rows, digits40.y_true[rows]))
    assert basis(model.selection_) == model.selection_.assumption
    # A mask lists right rows only, which sets no cut-off.
    model.fit(digits40.X, digits40.y, checked=np.arange(len(digits40.y)) < 25)
    assert basis(model.selection_).startswith("Assumes ")


def test_the_summary_prints_every_notice_and_what_the_rate_rests_on(mixed):
    text = " ".join(str(mixed.summary()).split())
    for notice in notices(mixed):
        assert notice.headline in text
        assert notice.meaning in text
        assert notice.help in text
    assert " ".join(basis(mixed).split()) in text


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
    notice, *_ = notices(selection.selection_)
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
    assert "could be reached" in notice.help or "would help" in notice.help
    assert "rows that you have checked" in notice.help
    assert notice.help in " ".join(str(selection.summary()).split())
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"assumed"}
    assert reachable.summary().notices == ()


def test_only_choices_that_the_selector_has_are_advised():
    y = np.arange(60) % 3
    P = np.full((60, 3), 0.2) + 0.4 * np.eye(3)[y]
    model = ProbabilitySelector(q=0.001, control="exchangeable").fit(P, y)
    (notice,) = notices(model.selection_)
    assert "control='people' reaches lower error rates" in notice.help
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


def test_a_class_that_the_features_do_not_show_is_named():
    """Fraud whose rows look like the others: all labels are right, and seem wrong."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(1500) < 0.1, "fraud", "fine")
    selection = KnockoffsSPR().fit(rng.normal(size=(1500, 5)), y).selection_
    assert selection.summary().verdict.n_probably_wrong > 100
    (notice,) = (each for each in notices(selection) if each.status == "unshown")
    assert [entry.label for entry in notice.classes] == ["fraud"]
    assert "Nearly all labels seem wrong in 1 of 2 classes" in str(selection.summary())


def test_features_that_are_the_same_in_all_rows_are_refused():
    with pytest.raises(InputError, match="All rows of X are the same"):
        KnockoffsSPR().fit(np.ones((40, 3)), np.repeat(["fraud", "fine"], [10, 30]))
