"""Levels with a confidence: exact bounds, and the promise under any noise and any stopping."""

import numpy as np
import pytest

from kspr.core.conformal import anytime_steps, confidence_steps

N = 3000
DOUBT = (np.arange(N) + 0.5) / N
# Chance of a wrong label by doubt in [0, 1]: no assumption of any control holds.
NOISES = {
    "grows": 0.5 * DOUBT**2,
    "shrinks": 0.3 * (1 - DOUBT),
    "waves": 0.12 + 0.12 * np.sin(14 * DOUBT),
    "flat, above q": np.full(N, 0.11),
    "a trap": np.where((DOUBT > 0.2) & (DOUBT < 0.3), 0.9, 0.03),
    "step": np.where(DOUBT < 0.5, 0.02, 0.6),
}


def confidence_levels(doubt, *rest):
    return confidence_steps(doubt, *rest).of(doubt)


def anytime_levels(doubt, *rest):
    return anytime_steps(doubt, *rest).of(doubt)


def wrong_labels(noise: str) -> np.ndarray:
    return np.random.default_rng(5).random(N) < NOISES[noise]


def share_wrong(keep: np.ndarray, wrong: np.ndarray) -> float:
    return float(wrong[keep].mean()) if keep.any() else 0.0


def share_of_failures(noise: str, n_checked: int, draws: int) -> float:
    """Return how often the share of wrong labels is above q = 0.1, with a confidence of 0.9."""
    rng, wrong, failures = np.random.default_rng(9), wrong_labels(noise), []
    for _ in range(draws):
        rows = rng.permutation(N)[:n_checked]
        keep = confidence_levels(DOUBT, rows, wrong[rows], 0.1, 0.9) <= 0.1
        failures.append(share_wrong(keep, wrong) > 0.1)
    return float(np.mean(failures))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n_checked", [60, 300])
def test_the_rate_holds_with_the_confidence_asked_for(noise: str, n_checked: int) -> None:
    """Over 300 draws, in at most 10 % plus 3 standard errors of that share: 15.2 %."""
    assert share_of_failures(noise, n_checked, 300) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 300)


def test_the_rate_holds_where_the_next_cut_would_break_it() -> None:
    """Over 60 draws of 200 checks, in at most 10 % plus 3 standard errors: 21.6 %."""
    assert share_of_failures("flat, above q", 200, 60) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 60)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_a_person_may_stop_at_any_time(noise: str) -> None:
    """A person looks after every 20 checks up to 300, and stops at the most that is ever kept. Over
    200 draws the share of wrong labels exceeds q = 0.1 in at most 10 %, plus 3 standard errors.
    """
    rng, wrong, failures = np.random.default_rng(9), wrong_labels(noise), []
    for _ in range(200):
        rows = rng.permutation(N)[:300]
        looks = [
            anytime_levels(DOUBT, rows[:n], wrong[rows[:n]], 0.9) <= 0.1 for n in range(20, 301, 20)
        ]
        failures.append(share_wrong(max(looks, key=np.sum), wrong) > 0.1)
    assert np.mean(failures) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 200)


def test_rows_are_kept_up_to_where_errors_begin() -> None:
    """300 checks, 2 % wrong up to a doubt of 0.5 and 60 % beyond: the share passes q = 0.1 at 0.58.
    `anytime` costs part of what lies beyond 0.5.
    """
    rng, wrong, kept = np.random.default_rng(1), wrong_labels("step"), []
    for _ in range(30):
        rows = rng.permutation(N)[:300]
        sure = confidence_levels(DOUBT, rows, wrong[rows], 0.1, 0.9) <= 0.1
        whenever = anytime_levels(DOUBT, rows, wrong[rows], 0.9) <= 0.1
        kept.append((sure.mean(), whenever.mean()))
    sure, whenever = np.mean(kept, axis=0)
    assert 0.5 < sure < 0.58
    assert 0.4 < whenever < sure


def test_59_right_ones_are_needed_for_five_percent() -> None:
    """Without replacement from very many rows that is the exact binomial number."""
    many = np.zeros(1_000_000)
    few, enough = (
        confidence_levels(many, np.arange(n), np.zeros(n, dtype=bool), 0.05, 0.95)[0]
        for n in (58, 59)
    )
    assert enough <= 0.05 < few


def test_checking_every_row_gives_the_share_itself() -> None:
    wrong = np.arange(200) % 10 == 0
    level = confidence_levels(np.zeros(200), np.arange(200), wrong, 0.1, 0.95)
    assert level[0] == pytest.approx(0.1)


@pytest.mark.parametrize("levels", [confidence_levels, anytime_levels])
def test_levels_grow_with_doubt_and_rows_of_equal_doubt_share_one(levels) -> None:
    doubt = np.round(np.random.default_rng(0).random(500), 1)
    rows = np.random.default_rng(1).permutation(500)[:100]
    wrong = doubt[rows] > 0.7
    told = (0.1, 0.9) if levels is confidence_levels else (0.9,)
    found = levels(doubt, rows, wrong, *told)
    by_doubt = [np.unique(found[doubt == value]) for value in np.unique(doubt)]
    assert all(len(values) == 1 for values in by_doubt)
    assert (np.diff(np.concatenate(by_doubt)) >= 0).all()


def test_without_checks_only_level_one_keeps() -> None:
    none = np.zeros(0, dtype=int)
    assert confidence_levels(DOUBT, none, none.astype(bool), 0.1, 0.9).min() == 1.0
    assert anytime_levels(DOUBT, none, none.astype(bool), 0.9).min() == pytest.approx(1.0)
