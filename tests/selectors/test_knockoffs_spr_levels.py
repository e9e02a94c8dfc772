"""level='f1' cuts where the estimated F1 is greatest."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, PaperKnockoffsSPR, Selection
from kspr.core.metrics import selection_quality


def f1_of(selection: Selection, data) -> float:
    return selection_quality(selection.clean_mask, data.right).f1


@pytest.mark.parametrize("cut", ["per_class", "pooled"])
def test_level_f1_cuts_where_the_estimated_f1_is_greatest(digits40, cut):
    fixed = KnockoffsSPR(cut=cut).fit(digits40.X, digits40.y).selection_
    chosen = KnockoffsSPR(cut=cut, level="f1").fit(digits40.X, digits40.y).selection_
    curve = fixed.curve()
    right = 1 - fixed.doubt
    by_hand = [
        2 * right[fixed.q_value <= q].sum() / (n + right.sum())
        for q, n in zip(curve.q, curve.n_kept, strict=True)
    ]
    best = curve.q[int(np.argmax(by_hand))]
    assert curve.best_f1_level == best
    np.testing.assert_array_equal(chosen.clean_mask, fixed.at(best).clean_mask)
    assert chosen.manifest.parameters["level"] == "f1"
    assert chosen.manifest.parameters["q"] == best
    far = [f1_of(fixed.at(q), digits40) for q in (0.01, 0.3, 0.5)]
    assert f1_of(chosen, digits40) > max(far)


def test_level_f1_keeps_everything_where_nothing_is_wrong(blobs):
    selection = KnockoffsSPR(level="f1", cut="pooled").fit(blobs.X, blobs.y_true).selection_
    assert selection.clean_mask.mean() > 0.98


def test_level_f1_says_what_it_goes_with(blobs):
    with pytest.raises(InputError, match="control='people' or 'transition'"):
        KnockoffsSPR(level="f1", control="exchangeable").fit(blobs.X, blobs.y)
    with pytest.raises(InputError, match="level must be one of 'smallest', 'fixed', got 'f1'"):
        PaperKnockoffsSPR(level="f1").fit(blobs.X, blobs.y)
