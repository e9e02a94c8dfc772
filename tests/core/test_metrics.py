"""The paper's measures of a selection."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score

from kspr.core.metrics import selection_quality

masks = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(pairs=masks)
def test_measures_are_those_of_scikit_learn(pairs: list[tuple[bool, bool]]) -> None:
    kept, clean = np.array(pairs).T
    quality = selection_quality(kept, clean)
    precision = precision_score(clean, kept, zero_division=1.0)
    assert quality.fsr == pytest.approx(1 - precision)
    assert quality.recall == pytest.approx(recall_score(clean, kept, zero_division=0.0))
    assert quality.f1 == pytest.approx(f1_score(clean, kept, zero_division=0.0))


@given(pairs=masks)
def test_f1_is_the_harmonic_mean_of_its_parts(pairs: list[tuple[bool, bool]]) -> None:
    kept, clean = np.array(pairs).T
    quality = selection_quality(kept, clean)
    if quality.f1 > 0:
        assert 2 / quality.f1 == pytest.approx(1 / (1 - quality.fsr) + 1 / quality.recall)
    else:
        assert quality.fsr == 1 or quality.recall == 0


def test_keeping_nothing_makes_no_error_and_finds_nothing() -> None:
    quality = selection_quality(np.zeros(4, dtype=bool), np.ones(4, dtype=bool))
    assert (quality.fsr, quality.recall, quality.f1) == (0.0, 0.0, 0.0)
