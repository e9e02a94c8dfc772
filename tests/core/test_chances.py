"""From fitted values to chances: Bayes' rule, row by row."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from kspr.core.fitting import _SOFTENING, Chances, calibration_rows
from tests.core.transitions import transition_of
from tests.selectors.simulated import symmetric

seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=40)


def chances_of(seed: int, c: int, e: float, n: int = 50) -> tuple[Chances, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    prediction, label = rng.standard_normal((n, c)), rng.integers(0, c, n)
    return (
        Chances.fit(prediction, label, transition_of(symmetric(c, e * (1 - 1 / c)))),
        prediction,
        label,
    )


@laws
@given(seed=seeds, c=st.integers(2, 5), e=st.floats(0, 0.7))
def test_the_chance_to_be_right_is_bayes_rule(seed: int, c: int, e: float) -> None:
    chances, prediction, label = chances_of(seed, c, e)
    matrix = chances.noise.matrix
    soft = softmax(prediction / (_SOFTENING * chances.temperature), axis=1)
    own = np.arange(len(label))
    expected = soft[own, label] * matrix[label, label] / (soft * matrix.T[label]).sum(axis=1)
    found = chances.right_of(prediction, label)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@laws
@given(seed=seeds, c=st.integers(2, 5), step=st.integers(1, 60))
def test_blocks_give_what_the_whole_gives(seed: int, c: int, step: int) -> None:
    chances, prediction, label = chances_of(seed, c, 0.3)
    blocks = [slice(start, start + step) for start in range(0, len(label), step)]
    found = np.concatenate([chances.right_of(prediction[rows], label[rows]) for rows in blocks])
    np.testing.assert_allclose(found, chances.right_of(prediction, label), rtol=1e-12)


def test_without_noise_every_label_is_right() -> None:
    chances = Chances.fit(np.eye(3), np.arange(3), transition_of(np.eye(3)))
    np.testing.assert_allclose(chances.right_of(np.eye(3), np.arange(3)), 1)


def test_the_temperature_is_the_one_that_made_the_labels() -> None:
    rng = np.random.default_rng(0)
    prediction = rng.standard_normal((20_000, 4))
    chance = np.cumsum(softmax(prediction / 0.2, axis=1), axis=1)
    label = np.argmax(rng.random((20_000, 1)) < chance, axis=1)
    assert Chances.fit(prediction, label, transition_of(np.eye(4))).temperature == pytest.approx(
        0.2, rel=0.2
    )


def test_few_rows_set_the_temperature_and_fewer_where_classes_are_very_many() -> None:
    assert len(calibration_rows(100, 10)) == 100
    assert 5_000 <= len(calibration_rows(123_456, 10)) < 10_000
    assert 500 <= len(calibration_rows(200_000, 20_000)) < 1_000
