"""The kinds of trial, by name."""

import math
from importlib import import_module

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.trials import KINDS, TIMED, module_of, plain


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_function_of_its_module(kind):
    assert callable(getattr(import_module(module_of(kind)), kind))
    assert set(TIMED) <= set(KINDS)


def test_an_unknown_kind_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="no kind of trial 'magic'; there are examples"):
        module_of("magic")


def test_values_are_rounded_to_six_digits_and_ready_for_json():
    value = {"a": np.float64(1 / 3), "b": [math.inf, math.nan], 3: np.arange(2), "c": "text"}
    assert plain(value) == {"a": 0.333333, "b": [None, None], "3": [0, 1], "c": "text"}
