"""SPR keeps a fixed share, the smallest selection times first."""

import numpy as np
import pytest

from kspr import SPR, InputError, KnockoffsSPR, Selection, selection_quality


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_spr_keeps_its_share_of_the_data_or_of_every_class(digits40):
    selection = SPR(clean_ratio=0.3, cut="per_class").fit(digits40.X, digits40.y).selection_
    for row in selection.summary().per_class:
        assert row.n_kept == int(np.ceil(0.3 * row.n))
    pooled = SPR(clean_ratio=0.3).fit(digits40.X, digits40.y).selection_
    assert pooled.clean_mask.sum() == int(np.ceil(0.3 * len(digits40.y)))
    assert set(selection.cut_groups.status) == {"share"}


def test_spr_has_no_level_to_move(digits40):
    with pytest.raises(InputError, match="SPR does not have"):
        SPR().fit(digits40.X, digits40.y).selection_.at(0.1)


def test_spr_puts_wrong_labels_first(digits40):
    selection = SPR(clean_ratio=0.6).fit(digits40.X, digits40.y).selection_
    assert selection_quality(selection.clean_mask, digits40.right).f1 > 0.93
