"""Checked rows: how they are told, what they promise, and that a saved selection keeps them."""

import numpy as np
import pytest

from kspr import SPR, InputError, KnockoffsSPR, Selection, selection_quality
from tests.conftest import Noisy
from tests.selectors.simulated import by_control


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
    """300 draws of instance-dependent noise, 250 rows checked, q = 0.1, confidence 0.95: FSR among
    the rows that nobody checked is above q in at most 5 % of them plus 3 standard errors, 8.8 %.
    With `mean`, its mean is at most q plus 3 standard errors.
    """
    fsr: dict[str, list[float]] = {"mean": [], "confidence": []}
    kept = []
    for seed in range(300):
        data = instance_noise(seed)
        alone = by_control(q=0.1, control=control).fit(data.X, data.y).selection_
        rows = alone.draw_checks(250, seed=seed)
        rest = np.setdiff1d(np.arange(len(data.y)), rows)
        for guarantee, found in fsr.items():
            told = alone.with_checks(rows, data.y_true[rows], guarantee=guarantee, seed=seed)
            keep = told.clean_mask[rest]
            found.append(selection_quality(keep, data.right[rest]).fsr)
            kept.append(keep.mean())
    passed = np.mean(np.array(fsr["confidence"]) > 0.1)
    assert passed <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    assert np.mean(fsr["mean"]) <= 0.1 + 3 * np.std(fsr["mean"]) / np.sqrt(300)
    # The order of `transition` trusts this very noise: hardly any cut of it can be kept.
    assert control == "transition" or np.mean(kept) > 0.3


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
    inside = int(model.selection_.checked.counted.sum())
    assert 0 < inside <= 300
    assert f"The {inside} checked rows were drawn at random" in model.selection_.assumption
    assert "on average over such draws" in model.selection_.assumption


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_checked_rows_work_with_every_control(digits40, control):
    rows, truth = checked_rows(digits40, 400)
    selection = by_control(q=0.1, control=control).fit(digits40.X, digits40.y).selection_
    selection = selection.with_checks(rows, truth, q=0.1, drawn="all")
    quality = selection_quality(selection.clean_mask, digits40.right)
    assert quality.fsr < 0.15
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
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    how = {"guarantee": "confidence", "drawn": "all"}
    kept = [
        selection.with_checks(rows, truth, confidence=confidence, **how).clean_mask.sum()
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
            "one true label per checked row, got 2 rows and 1 true",
        ),
        ((np.array([3, 3]), np.array([0, 0])), "checked rows list row 3 twice."),
        ((np.array([3, 60]), np.array([0, 0])), "checked rows list row 60, but there are 60 rows."),
        ((np.array([-1, 5]), np.array([0, 0])), "checked rows list row -1, but there are 60 rows."),
        ((np.array([0.5]), np.array([0])), "must be a list of row numbers, got float64."),
        (
            (np.zeros((2, 2), int), np.zeros((2, 2))),
            "The checked rows must be a list of row numbers",
        ),
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
    before = by_control(q=0.05, **choice).fit(digits40.X, digits40.y).selection_
    if told:
        before = before.with_checks(*checked_rows(digits40, 300), drawn="all")
    after = Selection.load(before.save(tmp_path / "run"))
    np.testing.assert_array_equal(after.q_value, before.q_value)
    for q in (0.02, 0.1, 0.3):
        assert np.array_equal(after.at(q).clean_mask, before.at(q).clean_mask)
        assert str(after.at(q).summary()) == str(before.at(q).summary())
    assert str(after.curve()) == str(before.curve())
    assert (after.checked is None) == (not told)
    if told:
        for name in vars(before.checked):
            np.testing.assert_array_equal(
                getattr(after.checked, name), getattr(before.checked, name)
            )
    assert (after.noise is None) == (before.noise is None)
    if before.noise is not None:
        for name in ("rate", "rate_interval", "transition", "low", "high", "anchors", "classes"):
            np.testing.assert_array_equal(getattr(after.noise, name), getattr(before.noise, name))


def alone(data, **choice):
    return KnockoffsSPR(q=0.1, **choice).fit(data.X, data.y).selection_


def test_rows_are_drawn_from_those_that_could_be_kept_at_twice_the_level(digits40):
    selection = alone(digits40, cut="pooled")
    loose = selection.at(0.2).clean_mask
    pool = selection.draw_checks(10_000)
    assert len(pool) == max(loose.sum(), 1000)
    assert np.isin(np.flatnonzero(loose), pool).all()


@pytest.mark.parametrize("guarantee", ["mean", "confidence", "anytime", "anywhere"])
def test_portions_are_one_draw(digits40, guarantee):
    """Answers to 50 rows and then to the next 70 are answers to the first 120."""
    selection = alone(digits40)
    every = selection.draw_checks(120)
    first = selection.draw_checks(50)
    half = selection.with_checks(first, digits40.y_true[first], guarantee=guarantee)
    more = half.draw_checks(70)
    assert np.array_equal(np.concatenate([first, more]), every)
    late = half.with_checks(more, digits40.y_true[more], guarantee=guarantee)
    once = selection.with_checks(every, digits40.y_true[every], guarantee=guarantee)
    assert np.array_equal(late.q_value, once.q_value)
    assert np.array_equal(late.clean_mask, once.clean_mask)
    # The order in which answers are given does not matter.
    turned = selection.with_checks(every[::-1], digits40.y_true[every[::-1]], guarantee=guarantee)
    assert np.array_equal(turned.q_value, once.q_value)


def test_a_checked_label_is_final(digits40):
    """At every level: right ones are kept, wrong ones are not, and the answer is the suggestion."""
    selection = alone(digits40)
    rows = selection.draw_checks(150)
    answered = selection.with_checks(rows, digits40.y_true[rows])
    right = digits40.right[rows]
    assert 0 < right.sum() < 150
    for q in (0.001, 0.1, 0.9):
        assert np.array_equal(answered.at(q).clean_mask[rows], right)
    assert np.array_equal(answered.suggested_label[rows], digits40.y_true[rows])
    # Also after rows of another draw.
    others = answered.draw_checks(50, seed=1)
    both = answered.with_checks(others, digits40.y_true[others], seed=1)
    assert np.array_equal(both.clean_mask[rows], right)
    assert both.checked.counted.sum() == 50


def test_answers_about_other_rows_change_nothing_of_a_draw(digits40):
    """Wrong labels that somebody found elsewhere are removed; the draw goes on as it was."""
    selection = alone(digits40)
    rows = selection.draw_checks(100)
    answered = selection.with_checks(rows, digits40.y_true[rows])
    found = np.setdiff1d(np.flatnonzero(answered.clean_mask & ~digits40.right), rows)[:3]
    assert len(found)
    fixed = answered.with_checks(found, digits40.y_true[found], drawn="chosen")
    changed = np.flatnonzero(fixed.q_value != answered.q_value)
    assert np.array_equal(changed, found)
    assert np.array_equal(fixed.draw_checks(20), answered.draw_checks(20))
    assert fixed.checked.counted.sum() == 100


def test_what_nobody_can_tell_counts_as_wrong_and_no_class_is_wrong(digits40):
    selection = alone(digits40)
    rows = selection.draw_checks(60)
    truth = digits40.y_true[rows].astype(object)
    truth[0], truth[1] = None, 77
    answered = selection.with_checks(rows, truth)
    assert answered.checked.true_code[:2].tolist() == [-2, -1]
    assert not answered.clean_mask[rows[:2]].any()
    assert (answered.suggested_label[rows[:2]] == selection.suggested_label[rows[:2]]).all()


def test_rows_that_were_not_drawn_need_a_declaration(digits40):
    selection = alone(digits40)
    rows = selection.draw_checks(60)
    with pytest.raises(InputError, match="is not among the first 59 rows") as caught:
        selection.with_checks(rows[1:], digits40.y_true[rows[1:]])
    assert "drawn='all'" in str(caught.value)
    outside = np.setdiff1d(np.arange(len(digits40.y)), selection.draw_checks(10_000))[:3]
    with pytest.raises(InputError, match=f"Row {outside[0]} is not among"):
        selection.with_checks(outside, digits40.y_true[outside])
    chosen = selection.with_checks(outside, digits40.y_true[outside], drawn="chosen")
    rest = np.setdiff1d(np.arange(len(digits40.y)), outside)
    assert np.array_equal(chosen.clean_mask[rest], selection.clean_mask[rest])
    assert np.array_equal(chosen.clean_mask[outside], digits40.right[outside])


def test_rows_drawn_from_all_count_where_they_are_in_the_pool(digits40):
    selection = alone(digits40)
    rows, truth = checked_rows(digits40, 300)
    answered = selection.with_checks(rows, truth, drawn="all")
    inside = np.isin(answered.checked.rows, selection.draw_checks(10_000))
    assert np.array_equal(answered.checked.counted, inside)
    assert np.array_equal(answered.clean_mask[rows], digits40.right[rows])


def test_checks_give_spr_an_error_rate(digits40):
    selection = SPR().fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="SPR has no error rate of its own: pass q"):
        selection.draw_checks(100)
    rows = selection.draw_checks(200, q=0.1)
    answered = selection.with_checks(rows, digits40.y_true[rows], q=0.1)
    quality = selection_quality(answered.clean_mask, digits40.right)
    assert quality.fsr < 0.15
    assert quality.recall > 0.6
    assert set(answered.cut_groups.status) <= {"checked", "empty"}
    assert "on average" in answered.assumption


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"guarantee": "maybe"}, "guarantee must be one of"),
        ({"drawn": "somehow"}, "drawn must be one of"),
        ({"confidence": 1.0}, "confidence must"),
        ({"q": 0}, "q must"),
    ],
    ids=str,
)
def test_arguments_of_checks_are_refused_in_a_sentence(digits40, arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        alone(digits40).with_checks([0], [0], **arguments)


def test_nothing_is_left_to_draw_when_all_is_checked(digits40):
    selection = alone(digits40)
    rows = selection.draw_checks(10_000)
    done = selection.with_checks(rows, digits40.y_true[rows])
    assert np.array_equal(done.clean_mask[rows], digits40.right[rows])
    with pytest.raises(InputError, match="there is none to draw"):
        done.draw_checks(1)


def test_only_rows_of_the_draw_count_when_others_are_added(digits40):
    """Rows from all, then chosen ones: these are no part of the draw."""
    selection = alone(digits40)
    rows, truth = checked_rows(digits40, 200)
    answered = selection.with_checks(rows, truth, drawn="all")
    chosen = np.setdiff1d(np.flatnonzero(~digits40.right), rows)[:150]
    more = answered.with_checks(chosen, digits40.y_true[chosen], drawn="chosen")
    assert more.noise.rate == answered.noise.rate
    low, high = answered.noise.rate_interval
    assert low <= np.mean(~digits40.right) <= high
    assert more.checked.sampled.sum() == 200
    others = np.setdiff1d(np.arange(len(digits40.y)), chosen)
    assert np.array_equal(more.q_value[others], answered.q_value[others])


def test_checks_do_not_bring_back_a_label_that_a_copy_contradicts(digits40):
    """Fifty rows stand there again with another label; all rows but these are checked."""
    n = len(digits40.y)
    twice = np.flatnonzero(digits40.right)[:50]
    X = np.concatenate([digits40.X, digits40.X[twice]])
    y = np.concatenate([digits40.y, (digits40.y[twice] + 1) % 10])
    selection = KnockoffsSPR(q=0.1).fit(X, y).selection_
    assert selection.duplicate_set is not None
    never = np.isinf(selection.q_value)
    assert never[n:].mean() > 0.9
    true = np.concatenate([digits40.y_true, digits40.y_true[twice]])
    rows = selection.draw_checks(300)
    assert not never[rows].any()
    assert not selection.with_checks(rows, true[rows]).at(0.9).clean_mask[never].any()


@pytest.mark.parametrize("seed", [-1, 10**40])
def test_a_seed_that_cannot_be_used_is_one_sentence(digits40, seed):
    selection = alone(digits40)
    for call in (
        lambda: selection.draw_checks(5, seed=seed),
        lambda: selection.with_checks([0], [0], seed=seed),
    ):
        with pytest.raises(InputError, match="must be a whole number from 0 to"):
            call()


def test_a_rate_that_holds_anywhere_may_be_chosen_after_looking(digits40):
    selection = alone(digits40)
    rows = selection.draw_checks(300)
    answered = selection.with_checks(rows, digits40.y_true[rows], guarantee="anywhere")
    assert "for any q that you choose when you have seen the result" in answered.assumption
    wrong = ~digits40.right
    for q in (0.03, 0.08, 0.2):
        clean = answered.at(q).clean_mask
        assert clean.any()
        assert wrong[clean].mean() <= q
