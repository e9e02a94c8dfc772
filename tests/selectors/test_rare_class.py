"""A rare class with many wrong labels is named, though the rate over all classes holds."""

import numpy as np
import pytest

from kspr import KnockoffsSPR


@pytest.fixture(scope="module")
def fraud():
    """Features, given and true labels of 6,000 rows: of the 60 of a rare class half are wrong."""
    rng = np.random.default_rng(0)
    y_true = np.repeat([0, 1, 2], [3000, 2970, 30])
    X = rng.normal(size=(6000, 16)) + 4 * np.eye(16)[y_true]
    y = y_true.copy()
    y[rng.choice(5970, 30, replace=False)] = 2
    return X, np.array(["paid", "late", "fraud"])[y]


def test_a_rare_class_with_a_rate_of_its_own_is_named(fraud):
    selection = KnockoffsSPR(q=0.05).fit(*fraud).selection_
    named = [notice for notice in selection.summary().notices if notice.status == "uneven"]
    assert [entry.label for entry in named[0].classes] == ["fraud"]
    assert "of 60 kept labels wrong" in named[0].classes[0].detail
    assert "A rate far above q in 1 of 3 classes (60 kept rows): fraud" in str(selection.summary())


def test_a_cut_per_class_holds_the_rate_there_and_names_none(fraud):
    selection = KnockoffsSPR(q=0.05, cut="per_class").fit(*fraud).selection_
    assert "uneven" not in [notice.status for notice in selection.summary().notices]
    assert selection.clean_mask[fraud[1] == "fraud"].sum() <= 33
