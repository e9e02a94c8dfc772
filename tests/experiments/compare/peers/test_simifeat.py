"""SimiFeat against a literal form of its rules, and triples whose noise is known."""

from collections import Counter

import numpy as np
import pytest

from kspr.experiments.compare.peers.simifeat import SimiFeat, fit_triples
from tests.experiments.compare.peers.test_others import literal_nearest


@pytest.mark.parametrize(
    "matrix",
    [
        np.full((3, 3), 0.1) + 0.7 * np.eye(3),
        np.array([[0.6, 0.4, 0.0], [0.0, 0.9, 0.1], [0.1, 0.1, 0.8]]),
    ],
)
def test_triples_of_labels_show_how_labels_go_wrong(matrix):
    rng = np.random.default_rng(0)
    share = np.array([0.5, 0.3, 0.2])
    true = rng.choice(3, 20_000, p=share)
    draws = rng.random((20_000, 3, 1))
    triples = (draws > np.cumsum(matrix, axis=1)[true][:, None, :]).sum(axis=2)
    found, estimate = fit_triples(triples, 3)
    np.testing.assert_allclose(estimate, matrix, atol=0.03)
    np.testing.assert_allclose(found, share, atol=0.03)


def test_labels_without_noise_give_a_matrix_without_noise():
    triples = np.repeat(np.arange(4)[:, None], 3, axis=1).repeat(5, axis=0)
    share, matrix = fit_triples(triples, 4)
    np.testing.assert_allclose(matrix, np.eye(4), atol=1e-6)
    np.testing.assert_allclose(share, 0.25)


def test_a_vote_keeps_the_most_frequent_label_around(tiny):
    judged = SimiFeat("vote", k=5).judge(tiny, seed=0)
    for i, around in enumerate(literal_nearest(tiny.X, 5)):
        votes = Counter(int(tiny.y[j]) for j in around)
        length = sum(v * v for v in votes.values()) ** 0.5
        assert judged.clean[i] == (votes[int(tiny.y[i])] == max(votes.values()))
        assert judged.suspicion[i] == pytest.approx(-votes[int(tiny.y[i])] / length)


def test_a_rank_keeps_the_estimated_share_of_every_class(tiny):
    judged = SimiFeat("rank", k=5).judge(tiny, seed=0)
    nearest = literal_nearest(tiny.X, 2)
    triples = np.array([[tiny.y[i], *tiny.y[nearest[i]]] for i in range(60)])
    share, matrix = fit_triples(triples, 3)
    for k in range(3):
        own = tiny.y == k
        right = share[k] * matrix[k, k] / (share @ matrix)[k]
        assert judged.clean[own].sum() == round(right * own.sum())
        if (own & ~judged.clean).any() and (own & judged.clean).any():
            kept, dropped = (judged.suspicion[own & m] for m in (judged.clean, ~judged.clean))
            assert kept.max() <= dropped.min()
    assert judged.noise_rate == pytest.approx(1 - share @ np.diag(matrix))
