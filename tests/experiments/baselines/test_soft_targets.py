"""Rules that learn labels, against their formulas written out; and mixtures of losses."""

from math import exp, log

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm
from torch.nn import functional

from kspr.experiments.baselines import soft_targets
from kspr.experiments.baselines.soft_targets import (
    D2L,
    ELR,
    PENCIL,
    DivideMix,
    JointOptim,
    MCorrection,
    clean_by_gaussians,
    early_learning_term,
    entropy,
    has_risen,
    intrinsic_dimension,
    prior_term,
    wrong_by_betas,
)
from tests.experiments.baselines.rules import random_logits, small_run


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


def two_kinds(seed=0):
    """Return small and large losses, and which are large."""
    rng = np.random.default_rng(seed)
    large = rng.random(2000) < 0.3
    return np.where(large, rng.beta(8, 4, 2000), rng.beta(2, 12, 2000)), large


def test_gaussians_give_bayes_probability_of_the_lower_part():
    rng = np.random.default_rng(0)
    large = rng.random(5000) < 0.4
    losses = np.where(large, rng.normal(3, 0.5, 5000), rng.normal(1, 0.3, 5000))
    lower, upper = 0.6 * norm.pdf(losses, 1, 0.3), 0.4 * norm.pdf(losses, 3, 0.5)
    found = clean_by_gaussians(losses, seed=0)
    assert np.abs(found - lower / (lower + upper)).mean() < 0.01


def test_betas_give_bayes_probability_of_the_upper_part():
    losses, large = two_kinds()
    lower, upper = 0.7 * beta.pdf(losses, 2, 12), 0.3 * beta.pdf(losses, 8, 4)
    found = wrong_by_betas(losses)
    # Scaling without the outer percents is part of the method, so agreement is not exact.
    assert np.abs(found - upper / (lower + upper)).mean() < 0.03
    assert ((found > 0.5) == large).mean() > 0.95


def test_equal_losses_are_no_error():
    assert np.isfinite(wrong_by_betas(np.ones(50))).all()
    assert np.isfinite(clean_by_gaussians(np.ones(50), seed=0)).all()


def without_mixing(view, target, alpha, draws):
    return view, target


def test_m_correction_replaces_targets_as_far_as_it_doubts_them(monkeypatch):
    monkeypatch.setattr(soft_targets, "_mixed", without_mixing)
    run, batch = small_run()
    method = MCorrection()
    method.begin(run)
    run.memory["wrong"] = torch.linspace(0, 1, 24)
    network = run.learners[0].network
    predicted = network.eval()(batch.view).logits.argmax(dim=1)
    network.train()
    logits = run.logits(batch)[0]
    rows = []
    for k in range(24):
        log_p, w = logits[k].log_softmax(dim=0), float(run.memory["wrong"][k])
        rows.append(-(1 - w) * log_p[batch.label[k]] - w * log_p[predicted[k]])
    expected = torch.stack(rows).mean() + prior_term(logits.softmax(dim=1))
    torch.testing.assert_close(method.losses(run, batch)[0], expected)


def test_m_correction_begins_to_doubt_after_a_third_of_the_run():
    run, _ = small_run()
    method = MCorrection()
    method.begin(run)
    run.epoch = 3
    method.after_epoch(run)
    assert not run.memory["wrong"].any()
    run.epoch = 4
    method.after_epoch(run)
    assert run.memory["wrong"].any()


def test_mixing_keeps_more_of_the_row_than_of_its_partner():
    view, target = torch.eye(8), torch.eye(8)
    mixed, mixed_target = soft_targets._mixed(view, target, 4.0, torch.Generator().manual_seed(0))
    torch.testing.assert_close(mixed, mixed_target)
    assert (mixed.diagonal() >= 0.5).all()
    torch.testing.assert_close(mixed.sum(dim=1), torch.ones(8))


def test_dividemix_refines_labelled_rows_and_guesses_the_others(monkeypatch):
    """Row by row: co-refinement, co-guessing, sharpening, and the three parts of the loss."""
    monkeypatch.setattr(soft_targets, "_mixed", without_mixing)
    run, batch = small_run(n_learners=2)
    method = DivideMix()
    method.begin(run)
    run.epoch = 5
    run.memory["clean"] = torch.stack([torch.linspace(0, 1, 24), torch.linspace(1, 0, 24)])
    guesses = []
    for learner in run.learners:
        learner.network.eval()
        guesses.append(learner.network(batch.view).logits.softmax(dim=1).detach())
        learner.network.train()
    for k, loss in enumerate(method.losses(run, batch)):
        logits = run.learners[k].logits(batch.view)
        p = logits.softmax(dim=1)
        labelled, unlabelled = [], []
        for row in range(24):
            w = float(run.memory["clean"][1 - k][row])
            given = functional.one_hot(batch.label[row], 4).float()
            if w >= 0.5:
                target = (w * given + (1 - w) * guesses[k][row]) ** 2
                target = target / target.sum()
                labelled.append(-(target * p[row].log()).sum())
            else:
                target = ((guesses[0][row] + guesses[1][row]) / 2) ** 2
                target = target / target.sum()
                unlabelled.append(((p[row] - target) ** 2).mean())
        expected = torch.stack(labelled).mean() + 25 * torch.stack(unlabelled).mean()
        torch.testing.assert_close(loss, expected + prior_term(p), rtol=1e-4, atol=1e-4)


def test_dividemix_trains_plainly_in_its_first_epoch():
    run, batch = small_run(n_learners=2)
    method = DivideMix()
    method.begin(run)
    expected = [functional.cross_entropy(own, batch.label) for own in run.logits(batch)]
    for found, own in zip(method.losses(run, batch), expected, strict=True):
        torch.testing.assert_close(found, own)
