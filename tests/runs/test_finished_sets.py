"""A plan in a run: the finished data set has few wrong labels, over draws of checks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspr import DoubtSelector
from kspr.runs.checks import apply_checks, begin_checks, planned

N, MOST = 2000, 0.06


@pytest.fixture(scope="module")
def simulated():
    """A selection by a doubt, and true labels; a third of the most doubtful labels is wrong."""
    rng = np.random.default_rng(0)
    doubt, truth = rng.random(N), rng.integers(0, 3, N)
    given = np.where(rng.random(N) < 0.4 * doubt**2, (truth + 1) % 3, truth)
    return DoubtSelector().fit(doubt, given).selection_, truth


def test_finished_sets_have_more_wrong_labels_than_planned_in_one_of_twenty(simulated):
    """In 200 draws, too many labels are wrong in at most 0.05 + 3 standard errors."""
    fitted, truth = simulated
    failed, by_hand = [], []
    for seed in range(200):
        rows = np.random.default_rng(seed).permutation(N)[:150].tolist()
        answers = {row: str(truth[row]) for row in rows}
        checks = begin_checks(fitted, "all", positions=tuple(rows), plan=(MOST, 0.95))
        checks = checks.with_answers(answers, Path("checks.csv"))
        plan = planned(fitted, checks)
        more = {row: str(truth[row]) for row in plan.rows.tolist()}
        done = checks.with_answers(more, Path("plan.csv"))
        # The plan follows from the draw alone, whatever has been labelled by it.
        np.testing.assert_array_equal(planned(fitted, done).rows, plan.rows)
        finished = apply_checks(fitted, done)
        label = finished.label.copy()
        asked = finished.checked.rows
        label[asked] = finished.suggested_label[asked]
        failed.append((label != truth).sum() > MOST * N)
        by_hand.append(len(asked) / N)
    assert np.mean(failed) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    assert 0.1 < np.mean(by_hand) < 0.6


def test_an_answer_that_is_taken_back_puts_the_plan_off(simulated):
    fitted, truth = simulated
    rows = tuple(range(0, N, 10))
    checks = begin_checks(fitted, "all", positions=rows, plan=(MOST, 0.95))
    assert planned(fitted, checks) is None
    answered = checks.with_answers({row: str(truth[row]) for row in rows}, Path("a.csv"))
    assert planned(fitted, answered) is not None
    assert planned(fitted, replace(answered, plan=None)) is None
    assert planned(fitted, answered.with_answers({rows[0]: None}, Path("a.csv"))) is None
