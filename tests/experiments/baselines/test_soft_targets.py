"""Rules that learn labels, against their formulas written out."""

from math import exp, log

import pytest
import torch
from torch.nn import functional

from kspr.experiments.baselines.soft_targets import (
    D2L,
    ELR,
    PENCIL,
    JointOptim,
    early_learning_term,
    entropy,
    has_risen,
    intrinsic_dimension,
    prior_term,
)
from tests.experiments.baselines.rules import accuracy_on_digits, random_logits, small_run


def test_the_prior_term_is_the_divergence_of_equal_classes_from_the_mean_prediction():
    p = random_logits()[0].softmax(dim=1)
    mean = [sum(row[k] for row in p.tolist()) / len(p) for k in range(5)]
    expected = sum(0.2 * log(0.2 / m) for m in mean)
    assert float(prior_term(p)) == pytest.approx(expected)


def test_entropy_is_the_mean_over_rows():
    p = random_logits()[0].softmax(dim=1)
    expected = [-sum(v * log(v) for v in row) for row in p.tolist()]
    assert float(entropy(p)) == pytest.approx(sum(expected) / len(expected))


def test_elr_rewards_agreement_with_the_average_of_earlier_predictions():
    p, average = random_logits()[0].softmax(dim=1), random_logits(seed=1)[0].softmax(dim=1)
    products = [
        sum(a * b for a, b in zip(x, t, strict=True))
        for x, t in zip(p.tolist(), average.tolist(), strict=True)
    ]
    expected = sum(log(1 - v) for v in products) / len(products)
    assert float(early_learning_term(p, average)) == pytest.approx(expected)


def test_elr_moves_the_average_of_the_batchs_rows_only():
    run, batch = small_run()
    method = ELR()
    method.begin(run)
    few = batch._replace(
        **{name: getattr(batch, name)[:5] for name in ("rows", "label", "taken", "view")}
    )
    (logits,) = run.logits(few)
    (loss,) = method.losses(run, few)
    p = logits.softmax(dim=1).clamp(1e-4, 1 - 1e-4)
    target = 0.3 * p / p.sum(dim=1, keepdim=True)
    torch.testing.assert_close(run.memory["average"][:5], target.detach())
    assert not run.memory["average"][5:].any()
    expected = functional.cross_entropy(logits, few.label) + 3 * early_learning_term(p, target)
    torch.testing.assert_close(loss, expected)


def test_joint_optimisation_takes_recent_predictions_as_labels_and_then_begins_anew():
    run, batch = small_run(epochs=40)
    method = JointOptim()
    method.begin(run)
    predictions = []
    for epoch in range(1, 41):
        for parameter in run.learners[0].network.parameters():
            parameter.data.mul_(0.99)
        run.epoch = epoch
        predictions.append(run.probabilities())
        method.after_epoch(run)
        # 70 of 200 epochs with given labels, then the mean over 10 of 200.
        expected = run.one_hot if epoch < 14 else torch.stack(predictions[-2:]).mean(dim=0)
        torch.testing.assert_close(run.memory["target"], expected)
    run.epoch = 41
    method.after_epoch(run)
    torch.testing.assert_close(run.memory["target"], torch.stack(predictions[-2:]).mean(dim=0))
    (logits,) = run.logits(batch)
    expected = -(run.memory["target"] * logits.log_softmax(dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(method.losses(run, batch)[0], expected)


def test_pencil_moves_the_labels_along_their_gradient_in_the_middle_part_only():
    run, batch = small_run(epochs=16)
    method = PENCIL()
    method.begin(run)
    before = run.memory["label_logits"].clone()
    for epoch, moves in ((0, False), (3, False), (4, True), (9, True), (10, False)):
        run.memory["label_logits"], run.epoch = before.clone(), epoch
        method.losses(run, batch)
        assert torch.equal(run.memory["label_logits"], before) != moves


def test_pencils_step_is_the_slope_of_its_three_terms():
    run, batch = small_run(epochs=16)
    method = PENCIL()
    method.begin(run)
    run.epoch = 5
    (logits,) = run.logits(batch)
    p = logits.softmax(dim=1).detach()
    # d KL(p || d) / d logits of d is d - p; of the given label's -log d it is d - one-hot.
    d = (10 * run.one_hot).softmax(dim=1)
    slope = ((d - p) / 4 + 0.1 * (d - run.one_hot)) / len(p)
    expected = 10 * run.one_hot - 10_000 * len(p) / 128 * slope
    method.losses(run, batch)
    torch.testing.assert_close(run.memory["label_logits"], expected, rtol=1e-3, atol=1e-3)


def test_the_local_dimension_is_the_maximum_likelihood_estimate():
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = []
    for i in range(30):
        near = sorted(float((rows[i] - rows[j]).norm()) for j in range(30) if j != i)[:5]
        found.append(-1 / (sum(log(r / near[-1]) for r in near) / 5))
    assert float(intrinsic_dimension(rows, 5)) == pytest.approx(sum(found) / 30)


def test_d2l_goes_back_at_the_first_rise_and_trusts_labels_less_from_then_on(monkeypatch):
    run, batch = small_run(epochs=10)
    method = D2L()
    method.begin(run)
    course = iter([5.0, 4.0, 6.0, 8.0])
    monkeypatch.setattr(D2L, "_dimension", lambda self, run: torch.tensor(next(course)))
    saved = {}
    for epoch in (1, 2, 3):
        run.learners[0].learn(super(D2L, method).losses(run, batch)[0])
        run.epoch = epoch
        saved[epoch] = run.learners[0].network.head.weight.clone()
        method.after_epoch(run)
    # 6 is more than two standard deviations above the mean of 5 and 4.
    assert int(run.memory["turned"]) == 3
    torch.testing.assert_close(run.learners[0].network.head.weight, saved[2])
    assert run.learners[0].steps == 3
    assert float(run.memory["trust"]) == pytest.approx(exp(-0.3 * 6 / 4))
    run.epoch = 4
    method.after_epoch(run)
    assert float(run.memory["trust"]) == pytest.approx(exp(-0.4 * 8 / 4))
    (logits,) = run.logits(batch)
    mixed = float(run.memory["trust"])
    target = mixed * run.one_hot + (1 - mixed) * functional.one_hot(logits.argmax(dim=1), 4)
    expected = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
    torch.testing.assert_close(method.losses(run, batch)[0], expected)


def test_a_rise_needs_two_values_to_rise_from():
    assert not has_risen(torch.tensor(9.0), torch.tensor([1.0]))
    assert has_risen(torch.tensor(9.0), torch.tensor([1.0, 2.0]))
    assert not has_risen(torch.tensor(2.4), torch.tensor([1.0, 2.0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["elr", "joint-optim", "pencil", "d2l"])
def test_the_method_beats_plain_training(name):
    """40 % symmetric noise on digits, seeded."""
    assert accuracy_on_digits(name) > accuracy_on_digits("standard")
