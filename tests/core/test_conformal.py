"""Levels from checked rows: what they are, and that their promise holds for any noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspr.core import conformal
from kspr.core.conformal import (
    anywhere_limits,
    conformal_steps,
    draw_order,
    loose_pool,
    most_checked_wrong,
)


def conformal_levels(doubt, checked, wrong):
    return conformal_steps(doubt, checked, wrong).of(doubt)


@st.composite
def checked_pools(draw):
    """Doubts of a pool, with ties, positions that were checked, and the answers."""
    n = draw(st.integers(3, 25))
    doubt = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))) / 6
    size = draw(st.integers(0, n))
    checked = draw(st.permutations(range(n)).map(lambda order: np.array(order[:size], int)))
    # Few are wrong: otherwise hardly any level below 1 keeps a row, and every rule agrees.
    answers = st.sampled_from([False, False, False, False, True])
    wrong = np.array(draw(st.lists(answers, min_size=size, max_size=size)), dtype=bool)
    return doubt, checked, wrong


def kept_by_benjamini_hochberg(doubt, checked, wrong, q):
    """Return what Jin and Candes' procedure keeps, as they write it: p-values, then BH."""
    rest = [j for j in range(len(doubt)) if j not in set(checked.tolist())]
    bad = doubt[checked[wrong]]
    p = {j: (1 + np.sum(bad <= doubt[j])) / (len(checked) + 1) for j in rest}
    ranked = sorted(p.values())
    fits = [k for k in range(1, len(rest) + 1) if ranked[k - 1] <= q * k / len(rest) + 1e-12]
    bound = q * max(fits) / len(rest) if fits else -1.0
    return {j for j in rest if p[j] <= bound + 1e-12}


@given(checked_pools(), st.sampled_from([0.1, 0.2, 0.35, 0.5, 0.8]))
def test_a_level_keeps_what_conformal_p_values_and_benjamini_hochberg_keep(drawn, q):
    doubt, checked, wrong = drawn
    level = conformal_levels(*drawn)
    own = {j for j in np.flatnonzero(level <= q + 1e-12) if j not in set(checked.tolist())}
    assert own == kept_by_benjamini_hochberg(doubt, checked, wrong, q)


def test_a_wrong_row_counts_against_rows_of_equal_doubt():
    """Five checked rows, the wrong one tied with three that are not checked."""
    doubt = np.array([0.1, 0.2, 0.2, 0.2, 0.3, 0.1, 0.1, 0.2, 0.3, 0.3])
    checked, wrong = np.arange(5, 10), np.array([False, False, True, False, False])
    level = conformal_levels(doubt, checked, wrong)[:5]
    # M = 5, n = 5: one row without a wrong one at or below it, then 4 and 5 rows with one.
    expected = [min(5 / (6 * 1), 10 / (6 * 4), 10 / (6 * 5))] * 5
    np.testing.assert_allclose(level, expected)


def test_rows_of_equal_doubt_are_kept_together():
    """Nine rows that look alike, four checked and right: the others share the level 1 / 5."""
    none = np.zeros(4, dtype=bool)
    level = conformal_levels(np.ones(9), np.arange(4), none)
    np.testing.assert_allclose(level[4:], 1 / 5)


@given(checked_pools())
def test_more_doubt_never_lowers_a_level(drawn):
    level = conformal_levels(*drawn)[np.argsort(drawn[0], kind="stable")]
    assert (level[1:] >= level[:-1]).all()


def people(rng, n):
    """Return doubts and wrong labels that no model of the noise explains.

    Wrong labels come in clusters that look sure, so that the order of doubt is poor and its own
    estimate of the error rate would be far off.
    """
    doubt = rng.random(n)
    chance = np.where(doubt < 0.5, 0.02 + 0.3 * (np.sin(40 * doubt) > 0.8), 0.1 + 0.8 * doubt**3)
    return doubt, rng.random(n) < chance


@pytest.mark.parametrize("n_checked", [20, 100, 400])
@pytest.mark.parametrize("q", [0.05, 0.1, 0.2])
def test_the_mean_error_rate_stays_within_q_for_any_noise(n_checked, q):
    """Mean FSR over 1,500 draws of the checked rows is below q + 3 standard errors."""
    doubt, wrong = people(np.random.default_rng(0), 4000)
    rng, found = np.random.default_rng(1), []
    for _ in range(1500):
        rows = rng.choice(4000, n_checked, replace=False)
        kept = conformal_levels(doubt, rows, wrong[rows]) <= q
        kept[rows] = False
        found.append((kept & wrong).sum() / max(1, kept.sum()))
    assert np.mean(found) <= q + 3 * np.std(found) / np.sqrt(len(found))


def test_the_promise_is_used_up_where_checks_are_many():
    """With 1,000 checks of 4,000 rows the mean FSR comes within a fifth of q: nothing is wasted."""
    doubt, wrong = people(np.random.default_rng(0), 4000)
    rng, found = np.random.default_rng(1), []
    for _ in range(200):
        rows = rng.choice(4000, 1000, replace=False)
        open_rows = conformal_levels(doubt, rows, wrong[rows]) <= 0.1
        open_rows[rows] = False
        found.append((open_rows & wrong).sum() / max(1, open_rows.sum()))
    assert 0.08 < np.mean(found) <= 0.1 + 3 * np.std(found) / np.sqrt(200)


def test_portions_are_one_draw():
    pool = np.arange(50) % 3 > 0
    order = draw_order(pool, seed=4)
    assert sorted(order) == np.flatnonzero(pool).tolist()
    assert (order == draw_order(pool, seed=4)).all()
    assert not (order == draw_order(pool, seed=5)).all()


def test_every_row_is_as_likely_to_be_drawn_first():
    """Chi-squared over 10 rows and 2,000 seeds: wrong by chance once in a thousand."""
    first = [draw_order(np.ones(10, dtype=bool), seed)[0] for seed in range(2000)]
    assert ((np.bincount(first, minlength=10) - 200) ** 2 / 200).sum() < 27.9


def test_without_checks_nothing_is_kept_below_level_one():
    none = np.array([], dtype=int)
    assert conformal_levels(np.arange(5.0), none, none.astype(bool)).min() == 1.0


def test_a_pool_is_what_twice_the_level_keeps_and_a_thousand_at_least():
    doubt, level = np.arange(5000) / 5000, np.linspace(0, 1, 5000)
    assert loose_pool(doubt, level, 0.25).sum() == (level <= 0.5).sum()
    assert loose_pool(doubt, level, 0.01).sum() == 1000
    assert loose_pool(doubt[:300], level[:300], 0.0001).all()
    assert loose_pool(doubt, level, 0.25)[:2000].all()


def test_rows_of_infinite_doubt_are_in_no_pool():
    doubt = np.array([0.1, np.inf, 0.2])
    assert loose_pool(doubt, None, 0.1).tolist() == [True, False, True]
    assert loose_pool(doubt, np.zeros(3), 0.1).tolist() == [True, False, True]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 30))
def test_a_pool_takes_the_least_doubtful_rows_and_of_equal_ones_the_first(doubts, size):
    doubt = np.array(doubts, dtype=float)
    # As many rows as are to be in it have a low level, whichever these are.
    level = np.where(np.arange(len(doubt)) < size, 0.0, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conformal, "_LEAST_POOL", 1)
        found = loose_pool(doubt, level, 0.1)
    expected = np.argsort(doubt, kind="stable")[:size]
    assert np.flatnonzero(found).tolist() == sorted(expected.tolist())


def unchecked_rates(doubt, rows, wrong, steps):
    """Return the share of wrong labels that every level keeps, and these levels."""
    rest = np.ones(len(doubt), dtype=bool)
    rest[rows] = False
    place = steps.places(doubt[rest])
    count = np.bincount(place, minlength=len(steps.levels))
    bad = np.bincount(place, weights=wrong[rest], minlength=len(steps.levels))
    # A level keeps all rows of this level: up to the last cut that has it.
    last = steps.levels[:-1] < steps.levels[1:]
    return (np.cumsum(bad)[:-1] / np.cumsum(count)[:-1])[last], steps.levels[:-1][last]


@pytest.mark.parametrize("n_checked", [60, 300])
def test_levels_that_hold_anywhere_hold_for_all_cuts_at_once(n_checked):
    """In 1,000 draws at a confidence of 0.8 any cut fails in 0.1 to 0.2 + 3 standard errors."""
    doubt, wrong = people(np.random.default_rng(0), 4000)
    rng, failed = np.random.default_rng(1), []
    limits = anywhere_limits(4000 - n_checked, n_checked, 0.8)
    for _ in range(1000):
        rows = rng.choice(4000, n_checked, replace=False)
        steps = conformal.conformal_steps(doubt, rows, wrong[rows], limits)
        found, level = unchecked_rates(doubt, rows, wrong, steps)
        failed.append((found > level).any())
    assert 0.1 < np.mean(failed) < 0.2 + 3 * 0.4 / np.sqrt(1000)


@given(st.integers(0, 300), st.integers(0, 60))
def test_more_checked_wrong_rows_never_lower_a_limit(n_rest, n_checked):
    limits = anywhere_limits(n_rest, n_checked, 0.9)
    assert len(limits) == n_checked + 1
    assert limits[-1] == n_rest
    assert (np.diff(limits) >= 0).all()


@pytest.mark.parametrize(("n_checked", "allowed"), [(60, 200), (200, 200), (200, 80)])
def test_what_a_plan_leaves_has_few_wrong_rows(n_checked, allowed):
    """In 2,000 draws at a confidence of 0.8 too many are wrong in at most 0.2 + 3 s.e."""
    doubt, wrong = people(np.random.default_rng(0), 2000)
    rng, failed = np.random.default_rng(1), []
    most = most_checked_wrong(2000, n_checked, allowed, 0.8)
    assert most >= 0
    for _ in range(2000):
        rows = rng.choice(2000, n_checked, replace=False)
        bad = np.sort(doubt[rows[wrong[rows]]])
        left = wrong & (doubt < (bad[most] if len(bad) > most else np.inf))
        left[rows] = False
        failed.append(left.sum() > allowed)
    assert np.mean(failed) < 0.2 + 3 * 0.4 / np.sqrt(2000)
    assert np.mean(failed) > 0.05
