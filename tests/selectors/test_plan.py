"""The rows that a person must label, so that few of the finished data set are wrong."""

import numpy as np
import pytest

from kspr import DoubtSelector, InputError, KnockoffsSPR

N = 3000


def fitted(seed=0):
    rng = np.random.default_rng(seed)
    doubt = rng.random(N)
    return DoubtSelector().fit(doubt).selection_, rng.random(N) < 0.6 * doubt**2


def checked(selection, wrong, n, seed=0):
    rows = selection.draw_checks(n, seed=seed)
    return selection.with_checks(rows, np.where(wrong[rows], "wrong", "right"), seed=seed)


def left_wrong(selection, plan, wrong):
    rest = wrong.copy()
    rest[plan.rows] = rest[selection.checked.rows] = False
    return int(rest.sum())


def test_the_finished_set_has_few_wrong_labels_with_the_confidence():
    """In 400 draws at a confidence of 0.9 too many are wrong in at most 0.1 + 3 s.e."""
    selection, wrong = fitted()
    failed, by_hand = [], []
    for seed in range(400):
        answered = checked(selection, wrong, 150, seed)
        plan = answered.plan(0.08, confidence=0.9)
        failed.append(left_wrong(answered, plan, wrong) > 0.08 * N)
        by_hand.append(len(plan.rows) / N)
    assert np.mean(failed) < 0.1 + 3 * 0.3 / 20
    assert np.mean(by_hand) < 0.5


def test_most_doubtful_rows_come_first_and_no_row_is_asked_twice():
    selection, wrong = fitted()
    answered = checked(selection, wrong, 150)
    plan = answered.plan(0.05)
    assert (np.diff(selection.doubt[plan.rows]) <= 0).all()
    assert not np.isin(plan.rows, answered.checked.rows).any()
    assert f"Label {len(plan.rows):,} more rows" in str(plan)
    labelled = answered.with_checks(plan.rows, np.full(len(plan.rows), "right"), drawn="chosen")
    assert len(labelled.plan(0.05).rows) == 0


@pytest.mark.slow
def test_of_many_rows_of_one_doubt_a_part_is_labelled_and_the_promise_holds():
    """In 400 draws too many are wrong in at most 0.1 + 3 s.e., by a doubt of two values."""
    rng = np.random.default_rng(0)
    doubt = rng.integers(0, 2, N)
    wrong = rng.random(N) < 0.05 + 0.2 * doubt
    selection, failed, by_hand = DoubtSelector().fit(doubt).selection_, [], []
    for seed in range(400):
        answered = checked(selection, wrong, 150, seed)
        plan = answered.plan(0.08, confidence=0.9)
        failed.append(left_wrong(answered, plan, wrong) > 0.08 * N)
        by_hand.append(len(plan.rows) / N)
    assert np.mean(failed) < 0.1 + 3 * 0.3 / 20
    assert np.std(by_hand) > 0.05
    assert np.mean(by_hand) < 0.75


def test_too_few_checks_ask_for_all_rows():
    selection, wrong = fitted()
    assert len(checked(selection, wrong, 20).plan(0.05).rows) == N - 20


def test_rows_outside_of_the_pool_are_labelled_by_hand(digits40):
    selection = KnockoffsSPR(q=0.02).fit(digits40.X, digits40.y).selection_
    rows = selection.draw_checks(200)
    plan = selection.with_checks(rows, digits40.y_true[rows]).plan(0.2)
    outside = ~selection._ranking(0.02).pool(0.02)
    outside[rows] = False
    assert outside.any()
    assert np.isin(np.flatnonzero(outside), plan.rows).all()


def test_a_plan_without_a_random_draw_is_refused():
    selection, wrong = fitted()
    for unfit in (selection, selection.with_checks([1, 2], ["right", "wrong"], drawn="chosen")):
        with pytest.raises(InputError, match="drawn at random and checked"):
            unfit.plan(0.05)
    with pytest.raises(InputError, match="max_wrong must lie in"):
        checked(selection, wrong, 50).plan(5)
