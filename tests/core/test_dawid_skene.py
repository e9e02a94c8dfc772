"""EM is the textbook's, and what it finds is what the labels were made from."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kspr.core import dawid_skene as module
from kspr.core.dawid_skene import Votes, dawid_skene, find_consensus


def literal(votes: Votes, log_prior, rounds: int) -> np.ndarray:
    """Return the chances of EM, row by row and label by label."""
    n, c, shrink = votes.n_rows, votes.n_classes, module._SHRINK
    given = [
        [(a, j) for i, a, j in zip(votes.row, votes.annotator, votes.label, strict=True) if i == r]
        for r in range(n)
    ]
    chance = np.array([[sum(j == k for _, j in g) / len(g) for k in range(c)] for g in given])
    for _ in range(rounds):
        counts = {a: np.zeros((c, c)) for a in votes.annotator.tolist()}
        for r, labels in enumerate(given):
            for a, j in labels:
                counts[a][:, j] += chance[r]
        common = sum(counts.values())
        right = (np.trace(common) + 1) / (common.sum() + 2)
        even = np.where(np.eye(c) > 0, right, (1 - right) / (c - 1))
        common = (common + shrink * even) / (common.sum(axis=1, keepdims=True) + shrink)
        matrix = {
            a: (m + shrink * common) / (m.sum(axis=1, keepdims=True) + shrink)
            for a, m in counts.items()
        }
        shares = np.log(chance.mean(axis=0) + 1e-12)
        for r, labels in enumerate(given):
            product = np.exp(shares if log_prior is None else log_prior[r])
            for a, j in labels:
                product = product * matrix[a][:, j]
            chance[r] = product / product.sum()
    return chance


def simulated(rng, n=2_000, c=4, annotators=5, labels=3, right=(0.6, 0.9)):
    """Return votes of independent annotators, the true classes and the annotators' matrices."""
    truth = rng.integers(0, c, n)
    matrices = rng.dirichlet(np.ones(c), (annotators, c)) * 0.5
    matrices /= matrices.sum(axis=2, keepdims=True)
    share = rng.uniform(*right, annotators)[:, None, None]
    matrices = share * np.eye(c) + (1 - share) * matrices
    who = np.argsort(rng.random((n, annotators)), axis=1)[:, :labels].ravel()
    row = np.repeat(np.arange(n), labels)
    label = (matrices[who, truth[row]].cumsum(axis=1) > rng.random((n * labels, 1))).argmax(axis=1)
    return Votes(row, who, label, n, c), truth, matrices


@settings(max_examples=25)
@example(seed=1140, with_prior=False, rounds=1)  # nobody gives the last class
@given(seed=st.integers(0, 10_000), with_prior=st.booleans(), rounds=st.integers(1, 4))
def test_em_is_the_textbooks(seed, with_prior, rounds):
    rng = np.random.default_rng(seed)
    votes, _, _ = simulated(rng, n=12, c=3, annotators=4, labels=int(rng.integers(1, 4)))
    prior = np.log(rng.dirichlet(np.ones(3), 12)) if with_prior else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ROUNDS", rounds)
        patch.setattr(module, "_SETTLED", 0.0)
        found = dawid_skene(votes, prior).chance
    np.testing.assert_allclose(found, literal(votes, prior, rounds), atol=1e-9)


def test_neither_the_order_of_the_labels_nor_the_names_of_annotators_matter():
    votes, _, _ = simulated(np.random.default_rng(0), n=200)
    order = np.random.default_rng(1).permutation(len(votes.row))
    other = Votes(votes.row[order], 4 - votes.annotator[order], votes.label[order], 200, 4)
    np.testing.assert_allclose(dawid_skene(other).chance, dawid_skene(votes).chance, atol=1e-9)


def test_an_annotator_with_one_label_is_taken_for_a_common_one():
    votes, _, _ = simulated(np.random.default_rng(0), n=400)
    one = Votes(
        np.append(votes.row, 0), np.append(votes.annotator, 5), np.append(votes.label, 1), 400, 4
    )
    fit = dawid_skene(one)
    own = np.exp(fit.log_chance[fit.pair[-1]])
    others = np.exp(fit.log_chance[[fit.pair[k] for k in np.flatnonzero(votes.label == 1)]])
    assert (own > 0.8 * others.min(axis=0)).all()
    assert (own < 1.2 * others.max(axis=0) + 0.05).all()


def test_what_a_row_looks_like_settles_a_tie():
    votes = Votes(np.array([0, 0, 1, 1, 2, 2]), np.tile([0, 1], 3), np.array([0, 1, 0, 0, 1, 1]),
                  n_rows=3, n_classes=2)  # fmt: skip
    for wins in (0, 1):
        prior = np.log(np.where(np.arange(2) == wins, 0.8, 0.2) * np.ones((3, 2)))
        assert dawid_skene(votes, prior).chance[0].argmax() == wins


@pytest.mark.slow
def test_known_matrices_are_recovered():
    """With 20,000 rows and three labels each, no entry of a matrix is off by 0.03 or more."""
    votes, truth, matrices = simulated(np.random.default_rng(0), n=20_000)
    fit = dawid_skene(votes)
    assert (fit.chance.argmax(axis=1) == truth).mean() > 0.9
    found = np.exp(fit.log_chance[fit.pair])
    expected = matrices[votes.annotator, :, votes.label]
    assert np.abs(found - expected).max() < 0.03


def looks(rng, truth, c, strength=1.0):
    """Return fitted values as a regression gives them: noisy indicators of the class."""
    return strength * np.eye(c)[truth] + 0.3 * rng.standard_normal((len(truth), c))


def consensus_of(votes, values):
    label = dawid_skene(votes).chance.argmax(axis=1)
    return find_consensus(votes, label, values, np.arange(votes.n_classes))


@pytest.mark.slow
def test_chances_are_true_where_annotators_err_independently():
    """The mean doubt is within 0.01 of the share of wrong ones, over all and below any cut."""
    rng = np.random.default_rng(1)
    votes, truth, _ = simulated(rng, n=20_000)
    found = consensus_of(votes, looks(rng, truth, 4))
    assert found.evidence_weight > 0.85
    wrong = found.chance.argmax(axis=1) != truth
    order = np.argsort(1 - found.chance.max(axis=1))
    for part in (5_000, 10_000, 15_000, 20_000):
        rows = order[:part]
        doubt = 1 - found.chance[rows].max(axis=1).mean()
        assert abs(doubt - wrong[rows].mean()) < 0.01


@pytest.mark.slow
def test_errors_that_are_made_together_lower_the_worth():
    """With 30 % hard rows, the estimate of the wrong ones is nearer the truth than the model's."""
    rng = np.random.default_rng(2)
    n, c = 20_000, 4
    truth, hard = rng.integers(0, c, n), rng.random(n) < 0.3
    right = np.where(hard, 0.5, 0.95)
    label = np.where(rng.random((3, n)) < right, truth, (truth + 1) % c).T
    votes = Votes(np.repeat(np.arange(n), 3), np.tile(np.arange(3), n), label.ravel(), n, c)
    shown = looks(rng, truth, c, 0.6)
    found = consensus_of(votes, shown)
    assert found.evidence_weight < 0.9
    model = dawid_skene(votes, np.log(module.softmax(shown / 0.2, axis=1))).chance
    wrong = (found.chance.argmax(axis=1) != truth).mean()
    ends = [1 - end.max(axis=1).mean() for end in (found.independent, found.together)]
    assert ends[0] < ends[1]
    doubts = [1 - chance.max(axis=1).mean() for chance in (found.chance, model)]
    assert abs(doubts[0] - wrong) < abs(doubts[1] - wrong)


def test_one_who_gives_all_rows_one_label_tells_nothing():
    """Beside two independent annotators the consensus is nearly as good as without the third."""
    rng = np.random.default_rng(3)
    n, c = 3_000, 4
    truth = rng.integers(0, c, n)
    label = np.where(rng.random((2, n)) < 0.8, truth, rng.integers(0, c, (2, n)))
    shown = looks(rng, truth, c, 0.6)
    share = []
    for labels in (label, np.vstack([label, np.zeros(n, dtype=int)])):
        row, who = np.tile(np.arange(n), len(labels)), np.repeat(np.arange(len(labels)), n)
        found = consensus_of(Votes(row, who, labels.ravel(), n, c), shown)
        share.append((found.chance.argmax(axis=1) != truth).mean())
    assert share[1] < share[0] + 0.01
