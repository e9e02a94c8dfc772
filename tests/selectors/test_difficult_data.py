"""Difficult shapes of data are split, reduced and judged by every control."""

import numpy as np
import pytest

from kspr import KnockoffsSPR
from tests.selectors.simulated import by_control


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper"])
@pytest.mark.parametrize("shape", ["constant", "duplicated", "rank 1", "scales", "wide", "one"])
def test_difficult_features_are_ordinary_input(blobs, shape, control):
    X = blobs.X[:, :5]
    rng = np.random.default_rng(0)
    altered = {
        "constant": np.hstack([X, np.full((360, 3), 7.0)]),
        "duplicated": np.hstack([X, X, X]),
        "rank 1": np.outer(X[:, 0], [1.0, -2.0, 3.0]),
        "scales": X * [1e-6, 1, 1e6, 1e3, 1e-3],
        "wide": np.hstack([X, 0.1 * rng.standard_normal((360, 1000))]),
        "one": X[:, :1],
    }[shape]
    for dtype in (np.float32, np.float64):
        for reduction in (64, None):
            selector = by_control(q=0.2, reduction=reduction, control=control, cut="per_class")
            selection = selector.fit(altered.astype(dtype), blobs.y).selection_
            assert not np.isnan(selection.doubt).any()
            if shape not in ("rank 1", "one"):
                kept_wrong = (selection.clean_mask & ~blobs.right).sum()
                assert kept_wrong <= 0.2 * max(1, selection.clean_mask.sum())
                # A fifth wrong of three classes adds 1/8 to the estimate of exchange: its floor.
                assert selection.clean_mask.mean() > (0.05 if control == "exchangeable" else 0.4)


def test_fewer_samples_than_dimensions_work():
    rng = np.random.default_rng(0)
    y = np.repeat(["p", "q"], 12)
    X = rng.standard_normal((24, 300)) + 1.5 * (y == "p")[:, None]
    selection = KnockoffsSPR(q=0.3).fit(X, y).selection_
    assert np.isfinite(selection.doubt).all()
    assert selection.clean_mask.sum() >= 12


def test_classes_of_very_unequal_size_are_all_judged():
    rng = np.random.default_rng(0)
    sizes = [600, 60, 6, 2]
    y = np.repeat(np.arange(4), sizes)
    X = rng.standard_normal((len(y), 8)) + 6 * np.eye(8)[y]
    for choice in (
        {},
        {"control": "exchangeable"},
        {"control": "paper"},
        {"control": "paper", "classes_per_group": 2, "samples_per_class": 20},
    ):
        selection = (
            by_control(q=0.1, reduction=None, cut="per_class", **choice).fit(X, y).selection_
        )
        assert (selection.cut_groups.piece[selection.cut_group] >= 0).all()
        assert (
            np.bincount(selection.cut_groups.class_code, selection.cut_groups.n).tolist() == sizes
        )
        assert selection.clean_mask[y == 0].mean() > 0.8
