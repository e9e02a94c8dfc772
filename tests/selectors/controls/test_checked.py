"""Checked rows: how they are told, what they promise, and that a saved selection keeps them."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, Selection, selection_quality
from tests.conftest import Noisy


def checked_rows(data: Noisy, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(seed).choice(len(data.y), n, replace=False)
    return rows, data.y_true[rows]


def instance_noise(seed: int, n: int = 1200) -> Noisy:
    """Return three Gaussian classes whose labels are wrong exactly where they are doubtful.

    Half of the samples on the other side of a line through their class carry the next label, and
    look like it: no control's assumption holds.
    """
    rng = np.random.default_rng([7, seed])
    true = rng.integers(0, 3, n)
    X = 2.5 * np.eye(3, 4)[true] + rng.standard_normal((n, 4))
    other = (true + 1) % 3
    near = np.sum((X - 2.5 * np.eye(3, 4)[other]) ** 2, axis=1) < 9
    return Noisy(X, np.where(near & (rng.random(n) < 0.9), other, true), true)


@pytest.mark.slow
@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper"])
def test_checked_rows_keep_the_rate_whatever_the_noise_is(control):
    """300 draws of instance-dependent noise, 250 rows checked, q = 0.1: FSR among the rows that
    nobody checked is above q in at most 5 % of them plus 3 standard errors, 8.8 %.
    """
    failures, kept = [], []
    for seed in range(300):
        data = instance_noise(seed)
        rows, truth = checked_rows(data, 250, seed)
        model = KnockoffsSPR(q=0.1, control=control).fit(data.X, data.y, checked=(rows, truth))
        rest = np.setdiff1d(np.arange(len(data.y)), rows)
        keep = model.selection_.clean_mask[rest]
        failures.append(selection_quality(keep, data.right[rest]).fsr > 0.1)
        kept.append(keep.mean())
    assert np.mean(failures) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    # Transition trusts this noise at every level: its search starts too loose, and keeps nothing.
    assert control == "transition" or np.mean(kept) > 0.5


def test_the_noise_of_that_test_breaks_the_estimates():
    """Without checked rows, mean FSR of 20 draws is beyond q + 3 standard errors."""
    fsr = []
    for seed in range(20):
        data = instance_noise(seed)
        selection = KnockoffsSPR(q=0.1).fit(data.X, data.y).selection_
        fsr.append(selection_quality(selection.clean_mask, data.right).fsr)
    assert np.mean(fsr) > 0.1 + 3 * np.std(fsr) / np.sqrt(20)


def test_checked_rows_are_kept_as_they_were_found(digits40):
    rows, truth = checked_rows(digits40, 300)
    model = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y, checked=(rows, truth))
    assert np.array_equal(model.selection_.clean_mask[rows], digits40.right[rows])
    assert "checked" in set(model.selection_.cut_groups.status)
    assert "300 checked rows" in model.selection_.assumption
    assert "95%" in model.selection_.assumption


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_checked_rows_work_with_every_control(digits40, control):
    rows, truth = checked_rows(digits40, 400)
    model = KnockoffsSPR(q=0.1, control=control)
    selection = model.fit(digits40.X, digits40.y, checked=(rows, truth)).selection_
    quality = selection_quality(selection.clean_mask, digits40.right)
    assert quality.fsr < 0.1
    assert quality.recall > 0.6


def test_rows_of_a_mask_are_kept(digits40):
    mask = np.zeros(len(digits40.y), dtype=bool)
    mask[np.flatnonzero(digits40.right)[:200]] = True
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y, checked=mask).selection_
    assert selection.clean_mask[mask].all()
    assert np.array_equal(selection.checked.rows, np.flatnonzero(mask))


def test_a_mask_of_right_rows_vouches_for_no_others(digits40):
    """Right rows only, however many, say nothing of the wrong ones: the cut stays where it was."""
    mask = digits40.right.copy()
    alone = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    told = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y, checked=mask).selection_
    assert np.array_equal(told.clean_mask, alone.clean_mask | mask)
    assert told.assumption == alone.assumption


def test_a_higher_confidence_keeps_no_more(digits40):
    rows, truth = checked_rows(digits40, 300)
    kept = [
        KnockoffsSPR(q=0.1, confidence=confidence)
        .fit(digits40.X, digits40.y, checked=(rows, truth))
        .selection_.clean_mask.sum()
        for confidence in (0.6, 0.9, 0.99)
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > kept[-1]


def test_labels_of_names_are_compared_as_they_are(digits40):
    names = np.array([f"digit {k}" for k in range(10)])
    rows, truth = checked_rows(digits40, 300)
    numbers = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y, checked=(rows, truth))
    named = KnockoffsSPR(q=0.1).fit(digits40.X, names[digits40.y], checked=(rows, names[truth]))
    assert np.array_equal(named.selection_.clean_mask, numbers.selection_.clean_mask)


X = np.random.default_rng(0).standard_normal((60, 4))
Y = np.repeat([0, 1, 2], 20)


@pytest.mark.parametrize(
    ("checked", "sentence"),
    [
        (np.ones(59, dtype=bool), "got bool of shape (59,) for 60 rows."),
        (np.ones((60, 1), dtype=bool), "got bool of shape (60, 1) for 60 rows."),
        (np.arange(60), "`checked` must be a mask with one bool per row, or a pair (rows,"),
        (
            (np.array([1, 2]), np.array([0])),
            "one true label per row, got 2 rows and 1 true",
        ),
        ((np.array([3, 3]), np.array([0, 0])), "`checked` lists row 3 twice."),
        ((np.array([3, 60]), np.array([0, 0])), "`checked` lists row 60, but X has 60 rows."),
        ((np.array([-1, 5]), np.array([0, 0])), "`checked` lists row -1, but X has 60 rows."),
        ((np.array([0.5]), np.array([0])), "rows in `checked` must be whole numbers, got float64."),
        ((np.zeros((2, 2), int), np.zeros((2, 2))), "The rows in `checked` must"),
    ],
    ids=str,
)
def test_checked_rows_that_cannot_be_are_refused_in_a_sentence(checked, sentence):
    with pytest.raises(InputError) as caught:
        KnockoffsSPR().fit(X, Y, checked=checked)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("choice", [{}, {"control": "exchangeable"}, {"control": "paper"}], ids=str)
@pytest.mark.parametrize("told", [False, True])
def test_a_loaded_selection_answers_as_before(digits40, tmp_path, choice, told):
    checked = checked_rows(digits40, 300) if told else None
    model = KnockoffsSPR(q=0.05, **choice).fit(digits40.X, digits40.y, checked=checked)
    before = model.selection_
    after = Selection.load(before.save(tmp_path / "run"))
    np.testing.assert_array_equal(after.q_value, before.q_value)
    for q in (0.02, 0.1, 0.3):
        assert np.array_equal(after.at(q).clean_mask, before.at(q).clean_mask)
        assert str(after.at(q).summary()) == str(before.at(q).summary())
    assert str(after.curve()) == str(before.curve())
    assert (after.checked is None) == (not told)
    if told:
        np.testing.assert_array_equal(after.checked.rows, before.checked.rows)
        np.testing.assert_array_equal(after.checked.right, before.checked.right)
        assert after.checked.confidence == before.checked.confidence
    assert (after.noise is None) == (before.noise is None)
    if before.noise is not None:
        for name in ("rate", "rate_interval", "transition", "low", "high", "anchors", "classes"):
            np.testing.assert_array_equal(getattr(after.noise, name), getattr(before.noise, name))
