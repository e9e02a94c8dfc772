"""Passes over blocks: the same answer for any size of blocks, held or computed again."""

from dataclasses import replace

import numpy as np
import pytest
from kspr.selectors.engines import local
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.selectors import _passes
from kspr.selectors._passes import Predictions
from kspr.selectors.selection import Selection

CHOICES = {
    "pooled": {},
    "per class": {"cut": "per_class"},
    "spr": {"first_step": "spr", "penalty": "lasso", "reduction": None},
    "splits": {"n_splits": 2},
    "exchangeable": {"control": "exchangeable", "remove_floor": True},
    "exchangeable per class": {"control": "exchangeable", "cut": "per_class"},
    "paper": {"control": "paper"},
    "random knockoffs": {"control": "paper", "knockoff": "random"},
    "part": {"fit_rows": 600},
}


def selected(choice: dict, dtype: type = np.float64) -> Selection:
    X, y = load_digits(return_X_y=True)
    X = np.concatenate([X, X[:40]])  # copies, which are no anchors
    y = symmetric(np.concatenate([y, y[:40]]), 0.3, 0)
    return KnockoffsSPR(q=0.1, **choice).fit(X.astype(dtype), y).selection_


def assert_same(first: Selection, second: Selection) -> None:
    np.testing.assert_array_equal(first.clean_mask, second.clean_mask)
    np.testing.assert_array_equal(first.suggested_label, second.suggested_label)
    np.testing.assert_array_equal(first.knockoff_label, second.knockoff_label)
    for name in ("q_value", "statistic", "selection_time"):
        np.testing.assert_allclose(getattr(first, name), getattr(second, name), rtol=1e-9)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_answer_does_not_depend_on_blocks(choice, monkeypatch):
    whole = selected(choice)
    monkeypatch.setattr(_passes, "_HELD", 0)
    for floats in (74 * 100, 74 * 777):
        monkeypatch.setattr(_passes, "_BLOCK_FLOATS", floats)
        assert_same(selected(choice), whole)


def test_the_answer_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(_passes, "_BLOCK_FLOATS", 74 * 100)
    # Otherwise these few rows are worked at by one thread in any case.
    monkeypatch.setattr(local, "_WORTH_THREADS", 0)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            answers.append(selected({}, np.float32))
    np.testing.assert_array_equal(answers[0].q_value, answers[1].q_value)


def test_every_block_is_worked_at_once_in_row_order(monkeypatch):
    monkeypatch.setattr(_passes, "_BLOCK_FLOATS", 64 * 3)
    values = np.arange(600.0).reshape(200, 3)
    with threadpool_limits(2, user_api="blas"):
        found = list(Predictions.held(values).map(lambda rows, block: (rows, block)))
    assert [rows for rows, _ in found] == [inside for _, (inside, _) in found]
    np.testing.assert_array_equal(np.concatenate([block for _, (_, block) in found]), values)


def test_several_splits_average_their_fitted_values():
    parts = [Predictions.held(np.full((2, 3), value)) for value in (1.0, 2.0, 6.0)]
    np.testing.assert_allclose(Predictions.mean(parts).values(slice(None)), 3.0)
    assert Predictions.mean(parts[:1]) is parts[0]


def test_a_long_pass_shows_its_name_and_how_far_it_is(capsys):
    values = np.zeros((10, 3))
    for mode, shown in ((True, True), (False, False)):
        held = replace(Predictions.held(values), progress=mode)
        assert len(list(held.map(lambda rows, block: None, "Grading rows"))) == 1
        assert ("Grading rows" in capsys.readouterr().err) == shown
