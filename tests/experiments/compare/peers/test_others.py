"""Each method of others against a slow, literal form of its rule."""

import sys
from collections import Counter, deque
from math import log

import numpy as np
import pytest

from kspr.errors import InputError, MissingExtraError
from kspr.experiments.compare.peers import PEERS, Shared, import_needs
from kspr.experiments.compare.peers.others import (
    Neighbours,
    SimiFeat,
    SmallLoss,
    TopoFilter,
    fit_triples,
    largest_components,
)


def literal_nearest(X, k):
    """Return each row's nearest other rows, one distance at a time."""
    found = []
    for i, x in enumerate(X.astype(float)):
        distance = [(float(np.sum((x - z) ** 2)), j) for j, z in enumerate(X.astype(float))]
        found.append([j for _, j in sorted(d for d in distance if d[1] != i)[:k]])
    return found


def literal_component(nearest, y, mutual):
    """Walk through each class's graph, row by row, and keep the largest part."""
    edges = {(i, j) for i, around in enumerate(nearest) for j in around if y[i] == y[j]}
    both = {(j, i) for i, j in edges}
    edges = edges & both if mutual else edges | both
    parts: dict[int, list[int]] = {}
    seen: set[int] = set()
    for start in range(len(y)):
        if start in seen:
            continue
        part, queue = [], deque([start])
        seen.add(start)
        while queue:
            i = queue.popleft()
            part.append(i)
            for j in range(len(y)):
                if (i, j) in edges and j not in seen:
                    seen.add(j)
                    queue.append(j)
        if len(part) > len(parts.get(int(y[start]), [])):
            parts[int(y[start])] = part
    return sorted(row for part in parts.values() for row in part)


def test_small_loss_keeps_the_known_share_with_the_smallest_loss(tiny):
    judged = SmallLoss().judge(tiny, seed=0)
    losses = [-log(row[k]) for row, k in zip(tiny.probabilities(), tiny.y, strict=True)]
    worst_kept = sorted(losses)[53]
    assert judged.clean.sum() == 54
    assert judged.clean.tolist() == [loss <= worst_kept for loss in losses]
    np.testing.assert_allclose(judged.suspicion, losses)


def test_a_label_stays_if_no_other_has_more_votes(tiny):
    judged = Neighbours(k=5).judge(tiny, seed=0)
    for i, around in enumerate(literal_nearest(tiny.X, 5)):
        votes = Counter(int(tiny.y[j]) for j in around)
        own = votes[int(tiny.y[i])]
        others = max(votes[k] for k in range(3) if k != tiny.y[i])
        assert judged.clean[i] == (own >= others)
        assert judged.suspicion[i] == others - own


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_core_is_the_largest_component_of_each_class(tiny, mutual, k):
    core = largest_components(tiny.neighbours(k), tiny.y, mutual=mutual)
    expected = literal_component(literal_nearest(tiny.X, k), tiny.y, mutual)
    assert np.flatnonzero(core).tolist() == expected


def test_the_core_is_peeled_where_core_neighbours_disagree(tiny):
    judged = TopoFilter(k=3, k_outlier=8).judge(tiny, seed=0)
    rows = literal_component(literal_nearest(tiny.X, 3), tiny.y, False)
    kept = []
    for place, around in enumerate(literal_nearest(tiny.X[rows], 8)):
        votes = Counter(int(tiny.y[rows[j]]) for j in around)
        own = votes[int(tiny.y[rows[place]])]
        if own == max(votes.values()) and own >= 0.5 * 8:
            kept.append(rows[place])
    assert np.flatnonzero(judged.clean).tolist() == kept
    outside = np.setdiff1d(np.arange(60), rows)
    assert judged.suspicion[outside].min() >= judged.suspicion[rows].max()


def test_small_loss_must_be_told_the_rate(tiny):
    with pytest.raises(InputError, match="must be told the noise rate"):
        PEERS["small-loss"].judge(Shared(tiny.X, tiny.y), seed=0)


@pytest.mark.parametrize("name", ["cleanlab-both", "datalab"])
def test_a_missing_extra_is_named(name, tiny, monkeypatch):
    for module in PEERS[name].needs:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"needs 'knockoffs-spr\[peers\]'"):
        import_needs([(name, PEERS[name])])
    with pytest.raises(MissingExtraError, match=r"needs 'knockoffs-spr\[peers\]'"):
        PEERS[name].judge(tiny, seed=0)


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
