"""Knockoffs-SPR on digits: measured margins, suggested labels, two classes."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, Selection, selection_quality
from kspr.noise import symmetric
from tests.selectors.simulated import by_control


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


# Over the noise seeds 0 to 9 at q = 0.05, mean +- standard deviation:
#                FSR          recall       f1
#   20 %  default  .041 +- .008   .979 +- .004   .969 +- .004
#         paper    .003 +- .002   .882 +- .011   .936 +- .006
#   40 %  default  .038 +- .008   .947 +- .013   .954 +- .006
#         paper    .007 +- .002   .873 +- .014   .929 +- .008
@pytest.mark.parametrize(
    ("control", "rate", "fsr", "recall", "f1"),
    [
        ("transition", 0.2, 0.06, 0.955, 0.95),
        ("transition", 0.4, 0.065, 0.94, 0.94),
        ("paper", 0.2, 0.02, 0.80, 0.88),
        ("paper", 0.4, 0.03, 0.78, 0.86),
    ],
)
def test_digits_stay_within_the_margins(control, rate, fsr, recall, f1):
    """One seeded draw of noise; recall and f1 have more than three standard deviations of room.

    The FSR of one draw is q give or take 0.007; its mean is tested with the controls.
    """
    X, y_true = load_digits(return_X_y=True)
    y = symmetric(y_true, rate, seed=1)
    selection = by_control(q=0.05, control=control).fit(X, y).selection_
    quality = selection_quality(selection.clean_mask, y == y_true)
    assert quality.fsr < fsr
    assert quality.recall > recall
    assert quality.f1 > f1


def test_suggested_labels_are_mostly_right_for_wrong_labels(digits40):
    wrong = ~digits40.right
    paper = by_control(control="paper").fit(digits40.X, digits40.y).selection_
    assert (paper.suggested_label[wrong] == digits40.y_true[wrong]).mean() > 0.85
    # Where labels may be believed, a doubtful one is; the suspects are what gets relabelled.
    default = KnockoffsSPR().fit(digits40.X, digits40.y).selection_
    wrong &= ~default.clean_mask
    assert (default.suggested_label[wrong] == digits40.y_true[wrong]).mean() > 0.8
    assert (default.suggested_label == digits40.y_true).mean() > 0.9


@pytest.mark.parametrize("control", ["transition", "paper"])
def test_two_classes_work(blobs, control):
    two = (blobs.y < 2) & (blobs.y_true < 2)
    X, y = blobs.X[two], blobs.y[two]
    selection = by_control(q=0.1, control=control).fit(X, y).selection_
    quality = selection_quality(selection.clean_mask, blobs.right[two])
    assert quality.fsr <= 0.1
    assert quality.recall > 0.8
    assert np.array_equal(selection.knockoff_label, 1 - y)
