"""A training in one sentence."""

import pytest

from kspr.report.training_run import in_short


@pytest.mark.parametrize(
    ("doubtful", "measured", "words"),
    [
        (488, {"test_accuracy": 0.931}, "488 of 5,000 labels look doubtful. The network is right"),
        (0, {"test_accuracy": 0.5}, "All 5,000 labels look right."),
        (5000, {"test_accuracy": 0.5}, "None of the 5,000 labels could be told from wrong ones."),
        (None, {"test_accuracy": 0.5}, "trained on 5,000 labels; none of them was judged."),
        (488, {"held_out": 0.87}, "for 87 of 100 rows it had not seen; some of those labels are"),
        (488, {}, "was not measured: that needs a test set (--test)."),
        (488, {"test_accuracy": 0.93, "items": "image"}, "right for 93 of 100 test images."),
        (488, {"held_out": 0.93, "items": "text"}, "for 93 of 100 texts it had not seen"),
    ],
)
def test_a_training_is_said_in_short(doubtful, measured, words):
    assert words in in_short(5000, doubtful, **measured)


def test_a_network_that_errs_is_never_said_to_be_right_every_time():
    assert "99 of 100" in in_short(10, 0, test_accuracy=0.9999)
    assert "100 of 100" in in_short(10, 0, test_accuracy=1.0)
    # 0.29 * 100 is 28.999999999999996.
    assert "29 of 100" in in_short(10, 0, test_accuracy=0.29)
