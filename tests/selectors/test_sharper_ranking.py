"""Several splits, and votes of neighbours: the rate, and how little the seed matters."""

import numpy as np
import pytest

from kspr import KnockoffsSPR, selection_quality
from tests.selectors.simulated import KINDS, gaussian

DRAWS = 24


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return np.sum(one & other) / np.sum(one | other)


def test_more_splits_make_the_answer_depend_less_on_the_seed(digits40):
    """Kept sets of three seeds, pair by pair: five splits share more of them than one."""

    def shared(n_splits: int) -> float:
        masks = [
            KnockoffsSPR(q=0.1, n_splits=n_splits, random_state=seed)
            .fit(digits40.X, digits40.y)
            .selection_.clean_mask
            for seed in range(3)
        ]
        return np.mean([overlap(masks[a], masks[b]) for a, b in ((0, 1), (0, 2), (1, 2))])

    assert shared(5) > shared(1) + 0.01


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        ("sym 40", {"n_splits": 2}),
        ("pairs 40", {"n_splits": 2}),
        ("sym 20", {"n_splits": 2, "control": "exchangeable"}),
        ("sym 40", {"neighbours": 50}),
        pytest.param("pairs 40", {"neighbours": 50}, marks=pytest.mark.slow),
        pytest.param("sym 40", {"n_splits": 5}, marks=pytest.mark.slow),
        pytest.param("pairs 40", {"n_splits": 3, "neighbours": 50}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_sharper_ranking_keeps_its_rate(kind, choice):
    """Mean FSR over 24 draws at q = 0.1 is below q + 2 standard errors, as with one split."""
    fsr, recall = [], []
    for seed in range(DRAWS):
        data = gaussian(seed, KINDS[kind])
        selection = KnockoffsSPR(q=0.1, **choice).fit(data.X, data.y).selection_
        quality = selection_quality(selection.clean_mask, data.right)
        fsr.append(quality.fsr)
        recall.append(quality.recall)
    assert np.mean(fsr) <= 0.1 + 2 * np.std(fsr) / np.sqrt(DRAWS)
    assert np.mean(recall) > 0.8
