"""The exchangeable control's error rate, where wrong labels fall evenly."""

import numpy as np
import pytest

from kspr import KnockoffsSPR, selection_quality
from tests.selectors.simulated import (
    KINDS,
    Kind,
    assert_within,
    gaussian,
    realised,
    symmetric,
)


@pytest.mark.parametrize("remove_floor", [False, True])
@pytest.mark.parametrize("kind", ["sym 20", "sym 40", "uneven, sym 30"])
def test_exchange_keeps_its_rate_under_even_noise(kind, remove_floor):
    """Mean FSR over 24 draws is below q + 2 standard errors at 0.05, 0.1 and 0.2."""
    fsr, recall = realised(KINDS[kind], control="exchangeable", remove_floor=remove_floor)
    assert_within(fsr)
    assert recall.mean(axis=0)[2] > 0.7


@pytest.mark.parametrize("c", [3, 5, 7])
def test_exchange_works_with_odd_numbers_of_classes(c):
    data = gaussian(0, Kind(np.full(c, 1 / c), symmetric(c, 0.1)))
    selection = KnockoffsSPR(q=0.1, control="exchangeable").fit(data.X, data.y).selection_
    quality = selection_quality(selection.clean_mask, data.right)
    assert quality.fsr <= 0.1
    assert quality.recall > 0.7


def test_taking_off_the_floor_never_keeps_less(digits40):
    model = KnockoffsSPR(control="exchangeable")
    plain = model.fit(digits40.X, digits40.y).selection_
    removed = model.set_params(remove_floor=True).fit(digits40.X, digits40.y).selection_
    for q in (0.05, 0.1, 0.2):
        assert (removed.at(q).clean_mask >= plain.at(q).clean_mask).all()
    assert removed.at(0.1).clean_mask.sum() > plain.at(0.1).clean_mask.sum()
