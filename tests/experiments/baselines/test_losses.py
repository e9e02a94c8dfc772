"""Losses against their formulas, written out row by row."""

from math import exp, log

import numpy as np
import pytest
import torch

from kspr.experiments.baselines.losses import (
    GCE,
    SL,
    Bootstrap,
    Forgetting,
    Forward,
    bootstrapped,
    corrected,
    generalised,
    symmetric_cross_entropy,
    transition_by_anchors,
)
from kspr.models.wrap import wrap_network
from kspr.noise import circular
from tests.experiments.baselines.rules import accuracy_on_digits, random_logits, small_run


def probabilities(row):
    total = sum(exp(v) for v in row)
    return [exp(v) / total for v in row]


def rows():
    logits, label = random_logits()
    return [(probabilities(row), int(y)) for row, y in zip(logits.tolist(), label, strict=True)]


def same(found, expected):
    np.testing.assert_allclose(found.tolist(), expected, rtol=1e-9)


def test_gce_is_the_authors_formula_and_cross_entropy_in_the_limit():
    logits, label = random_logits()
    same(generalised(logits, label, 0.7), [(1 - p[y] ** 0.7) / 0.7 for p, y in rows()])
    limit = generalised(logits, label, 1e-7)
    np.testing.assert_allclose(limit, [-log(p[y]) for p, y in rows()], rtol=1e-4)


def test_symmetric_cross_entropy_adds_the_reverse_with_minus_four_for_the_logarithm_of_zero():
    logits, label = random_logits()
    expected = []
    for p, y in rows():
        reverse = -sum(p[k] * (0.0 if k == y else -4.0) for k in range(len(p)))
        expected.append(0.1 * -log(p[y]) + 1.0 * reverse)
    same(symmetric_cross_entropy(logits, label, 0.1, 1.0), expected)


@pytest.mark.parametrize(("hard", "share"), [(True, 0.8), (False, 0.95)])
def test_bootstrap_mixes_label_and_prediction_in_the_target(hard, share):
    logits, label = random_logits()
    expected = []
    for p, y in rows():
        best = max(range(len(p)), key=p.__getitem__)
        own = [float(k == best) if hard else p[k] for k in range(len(p))]
        target = [share * (k == y) + (1 - share) * own[k] for k in range(len(p))]
        expected.append(-sum(t * log(q) for t, q in zip(target, p, strict=True)))
    same(bootstrapped(logits, label, share, hard=hard), expected)


def test_the_corrected_loss_sees_predictions_through_the_transition_matrix():
    logits, label = random_logits(n_classes=3)
    transition = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]]).double()
    expected = []
    for row, y in zip(logits.tolist(), label.tolist(), strict=True):
        p = probabilities(row)
        expected.append(-log(sum(p[k] * float(transition[k, y]) for k in range(3))))
    same(corrected(logits, label, transition), expected)


def test_anchors_read_the_transition_matrix_off_their_predictions():
    true = np.repeat(np.arange(3), 50)
    transition = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.3, 0.7]])
    found = transition_by_anchors(transition[torch.from_numpy(true)], 0.97)
    torch.testing.assert_close(found, transition)


def test_with_many_classes_the_anchor_is_the_surest_row():
    """Of 60 classes each has less than 3 % of the rows: that percentile is a row of another."""
    run, _ = small_run(n=240, n_classes=60, epochs=2)
    true = torch.arange(240) % 60
    transition = 0.7 * torch.eye(60) + 0.3 * torch.eye(60).roll(1, 0)
    run.probabilities = lambda: transition[true]
    run.epoch = 2
    Forward().after_epoch(run)
    torch.testing.assert_close(run.memory["transition"], transition)


def test_forward_estimates_after_its_first_stage_and_uses_it_in_the_second():
    run, batch = small_run(epochs=2)
    method = Forward()
    assert torch.equal(method.losses(run, batch)[0], super(Forward, method).losses(run, batch)[0])
    run.epoch = 1
    method.after_epoch(run)
    assert "transition" not in run.memory
    run.epoch = 2
    method.after_epoch(run)
    assert run.memory["transition"].shape == (4, 4)
    assert not torch.equal(
        method.losses(run, batch)[0], super(Forward, method).losses(run, batch)[0]
    )


def test_constants_follow_the_number_of_classes():
    few, _ = small_run()
    assert few.few_or_many("few", "many") == "few"
    many, _ = small_run(n=102, n_classes=51)
    assert many.few_or_many("few", "many") == "many"


@pytest.mark.parametrize("method", [GCE(), SL(), Bootstrap(), Forgetting()])
def test_every_loss_is_one_number_with_a_gradient(method):
    run, batch = small_run()
    (loss,) = method.losses(run, batch)
    assert loss.shape == ()
    assert loss.requires_grad


def test_dropout_needs_a_classifier_on_the_features():
    from kspr.errors import InputError
    from kspr.experiments.baselines.method import classifier_of

    own = wrap_network(torch.nn.Sequential(torch.nn.Linear(6, 4)), 4, in_shape=(6,))
    with pytest.raises(InputError, match="needs a network of kspr"):
        classifier_of(own)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forgetting", "bootstrap", "gce", "sl", "forward"])
def test_the_method_beats_plain_training(name):
    """40 % symmetric noise on digits, seeded; for Forward 40 % of each class to the next."""
    noise = circular if name == "forward" else None
    given = {} if noise is None else {"noise": noise}
    assert accuracy_on_digits(name, **given) > accuracy_on_digits("standard", **given)
