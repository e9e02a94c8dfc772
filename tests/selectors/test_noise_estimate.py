"""The estimated noise in words."""

import numpy as np

from kspr.selectors.noise_estimate import NoiseEstimate


def estimate(ends, **more):
    nothing = np.empty((0, 0))
    return NoiseEstimate(0.12, ends, nothing, nothing, nothing, np.array([3]), np.arange(1), **more)


def test_a_sentence_has_the_rate_and_both_ends():
    assert str(estimate((0.1, 0.15))) == (
        "About 12% of the labels are wrong: 10% or 15%, by whether mistakes depend on the class "
        "only or people mistake what looks alike."
    )


def test_ends_that_agree_are_one_number():
    assert str(estimate((0.118, 0.122))) == "About 12% of the labels are wrong."


def test_checked_rows_give_an_interval():
    words = str(estimate((0.1, 0.15), checked=True))
    assert words == "By the checked rows 12.0% of the labels are wrong (10.0% to 15.0%)."
