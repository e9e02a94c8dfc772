"""The estimated noise in words."""

import numpy as np

from kspr.selectors.provenance import NoiseEstimate


def estimate(ends, **more):
    nothing = np.empty((0, 0))
    return NoiseEstimate(0.12, ends, nothing, nothing, nothing, np.array([3]), np.arange(1), **more)


def test_a_sentence_has_the_rate_and_both_ends():
    assert str(estimate((0.1, 0.15))) == (
        "About 12.0 % of all labels are wrong: 10.0 % to 15.0 %, by the kind of mistakes."
    )


def test_ends_that_agree_are_one_number():
    assert str(estimate((0.1199, 0.1201))) == "About 12.0 % of all labels are wrong."


def test_checked_rows_give_an_interval():
    words = str(estimate((0.1, 0.15), checked=True))
    assert words == (
        "12.0 % of all labels are wrong, by the checked rows and the fit (95 %: 10.0 % to 15.0 %)."
    )
