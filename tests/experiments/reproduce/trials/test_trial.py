"""The description of a trial."""

import numpy as np
import pytest

from kspr import SPR, KnockoffsSPR
from kspr.experiments.reproduce.recipes import Variant
from kspr.experiments.reproduce.trials.trial import principal, selector_of
from tests.experiments.reproduce.samples import spec

DIGITS = {"source": "digits", "rows": 300}


def test_a_trial_has_the_noise_of_its_seed():
    first, again = (spec("select", DIGITS, Variant()).sample() for _ in range(2))
    assert np.array_equal(first.label, again.label)
    assert (first.label != first.truth).mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(("name", "kind"), [("spr", SPR), ("paper", KnockoffsSPR)])
def test_a_variant_names_its_selector_and_parameters(name, kind):
    selector = selector_of(spec("select", DIGITS, Variant(name, {"min_class_size": 3})))
    assert type(selector) is kind
    assert selector.min_class_size == 3
    assert selector.random_state == 0


def test_principal_components_keep_distances_in_the_leading_directions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 9)) + 5
    reduced = principal(X, 4)
    assert reduced.shape == (30, 4)
    assert np.linalg.norm(reduced[0] - reduced[1]) == pytest.approx(np.linalg.norm(X[0] - X[1]))
