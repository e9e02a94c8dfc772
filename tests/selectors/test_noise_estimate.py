"""The estimated noise in words."""

import numpy as np

from kspr.selectors.noise_estimate import NoiseEstimate


def test_a_sentence_has_the_rate_and_its_sampling_error():
    nothing = np.empty((0, 0))
    found = NoiseEstimate(
        0.123, (0.1, 0.15), nothing, nothing, nothing, np.array([3]), np.arange(1)
    )
    assert str(found) == "About 12.3% of the labels are wrong (sampling error: 10.0% to 15.0%)."
