"""Cuts that checked samples vouch for: exact bounds, and the promise under any noise."""

import numpy as np
import pytest

from kspr.core.calibration import CheckedCut, checked_cut
from kspr.core.intervals import clopper_pearson_bounds

# Chance of a wrong label by doubt in [0, 1]: no assumption of any control holds.
NOISES = {
    "grows": lambda d: 0.5 * d**2,
    "shrinks": lambda d: 0.3 * (1 - d),
    "waves": lambda d: 0.12 + 0.12 * np.sin(14 * d),
    "flat, at q": lambda d: np.full_like(d, 0.1),
    "a trap": lambda d: np.where((d > 0.2) & (d < 0.3), 0.9, 0.03),
    "step": lambda d: np.where(d < 0.5, 0.02, 0.6),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n_checked", [60, 300])
def test_the_cut_keeps_the_rate_with_the_confidence_asked_for(noise: str, n_checked: int) -> None:
    """Over 400 draws, FSR below the cut exceeds q = 0.1 in at most 10 % (confidence 0.9), plus 3
    standard errors of that share: 14.5 %.
    """
    rng, grid = np.random.default_rng(9), (np.arange(20_000) + 0.5) / 20_000
    below = np.cumsum(NOISES[noise](grid)) / np.arange(1, 20_001)
    failures = []
    for _ in range(400):
        doubt = rng.random(n_checked)
        right = rng.random(n_checked) >= NOISES[noise](doubt)
        found = checked_cut(doubt, right, 0.1, 0.9, np.array([0.1, 0.25, 0.5, 0.9]))
        inside = np.searchsorted(grid, found.cut)
        failures.append(inside > 0 and below[inside - 1] > 0.1)
    assert np.mean(failures) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 400)


def test_clear_samples_are_kept_up_to_where_errors_begin() -> None:
    """300 checked, 2 % wrong up to a doubt of 0.5 and 60 % beyond: the cut lies near 0.6, where
    the share below passes q = 0.1.
    """
    rng = np.random.default_rng(1)
    cuts = []
    for _ in range(50):
        doubt = rng.random(300)
        right = rng.random(300) >= NOISES["step"](doubt)
        cuts.append(checked_cut(doubt, right, 0.1, 0.9, np.array([0.2, 0.4])).cut)
    assert 0.45 < np.mean(cuts) < 0.6


def test_too_few_vouch_for_nothing() -> None:
    """Ten right ones leave up to 26 % possible; 59 are needed for 5 %."""
    starts = np.array([1.0])
    nothing = CheckedCut(-np.inf, 0, 0, 1.0)
    assert checked_cut(np.zeros(10), np.ones(10, dtype=bool), 0.05, 0.95, starts) == nothing
    found = checked_cut(np.zeros(59), np.ones(59, dtype=bool), 0.05, 0.95, starts)
    assert (found.cut, found.n_kept, found.n_wrong) == (0.0, 59, 0)
    assert checked_cut(np.zeros(0), np.zeros(0, dtype=bool), 0.05, 0.95, starts) == nothing


def test_what_is_said_of_the_cut_is_what_lies_below_it() -> None:
    rng = np.random.default_rng(2)
    doubt = np.round(rng.random(300), 1)  # tied, and ties enter together
    right = rng.random(300) >= 0.3 * doubt**2
    found = checked_cut(doubt, right, 0.1, 0.95, np.array([0.3]))
    inside = doubt <= found.cut
    assert found.n_kept == inside.sum() > 0
    assert found.n_wrong == np.sum(~right[inside])
    assert found.upper == clopper_pearson_bounds(found.n_wrong, found.n_kept, 0.95)[1] <= 0.1


def test_the_order_of_the_checked_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    doubt, right, order = rng.random(200), rng.random(200) > 0.02, rng.permutation(200)
    starts = np.array([0.3, 0.6])
    assert checked_cut(doubt, right, 0.1, 0.9, starts) == checked_cut(
        doubt[order], right[order], 0.1, 0.9, starts
    )


def test_every_start_takes_its_part_of_the_error() -> None:
    """59 right ones vouch for 5 % with 95 % confidence from one start, from four it takes 86."""
    starts = np.zeros(4)
    few, enough = (
        checked_cut(np.zeros(n), np.ones(n, dtype=bool), 0.05, 0.95, starts) for n in (85, 86)
    )
    assert few.n_kept == 0
    assert enough.n_kept == 86
    assert enough.upper == pytest.approx(1 - (0.05 / 4) ** (1 / 86))
