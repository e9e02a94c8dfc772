"""What the error rate would be if hard rows were mislabelled more often."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, selection_quality
from tests.selectors.simulated import by_control


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
def test_the_rate_is_near_what_such_noise_gives(times):
    """Mean of four draws, q = 0.05, pooled: within a third of the realised FSR."""
    said, got = [], []
    for seed in range(4):
        X, y, true = labels_of(times, seed)
        selection = KnockoffsSPR(q=0.05, cut="pooled", random_state=seed).fit(X, y).selection_
        said.append(selection.sensitivity(times))
        got.append(selection_quality(selection.clean_mask, y == true).fsr)
    assert np.mean(said) == pytest.approx(np.mean(got), rel=0.34)


def test_once_as_likely_is_the_estimate_itself(digits40):
    selection = KnockoffsSPR(q=0.1, cut="pooled").fit(digits40.X, digits40.y).selection_
    assert selection.sensitivity(1) == pytest.approx(selection.cut_groups.estimated_fsr[0])


def test_it_grows_with_the_factor_and_stays_a_share(digits40):
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    rates = [selection.sensitivity(times) for times in (1, 2, 4, 1e9)]
    assert rates == sorted(rates)
    assert rates[-1] <= 1


def test_nothing_kept_has_no_rate(digits40):
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    assert np.isnan(selection.at(1e-6).sensitivity(2))


def test_what_cannot_be_said_is_refused(digits40):
    selection = by_control(control="paper").fit(digits40.X, digits40.y).selection_
    with pytest.raises(InputError, match="only control='transition'"):
        selection.sensitivity(2)
    with pytest.raises(InputError, match="times must be at least 1"):
        KnockoffsSPR().fit(digits40.X, digits40.y).selection_.sensitivity(0.5)
