"""Mixtures of losses, and the two methods that use them."""

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm
from torch.nn import functional

from kspr.experiments.baselines import mixtures
from kspr.experiments.baselines.mixtures import (
    DivideMix,
    MCorrection,
    clean_by_gaussians,
    wrong_by_betas,
)
from kspr.experiments.baselines.soft_targets import prior_term
from tests.experiments.baselines.rules import accuracy_on_digits, small_run


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
    monkeypatch.setattr(mixtures, "_mixed", without_mixing)
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
    mixed, mixed_target = mixtures._mixed(view, target, 4.0, torch.Generator().manual_seed(0))
    torch.testing.assert_close(mixed, mixed_target)
    assert (mixed.diagonal() >= 0.5).all()
    torch.testing.assert_close(mixed.sum(dim=1), torch.ones(8))


def test_dividemix_refines_labelled_rows_and_guesses_the_others(monkeypatch):
    """Row by row: co-refinement, co-guessing, sharpening, and the three parts of the loss."""
    monkeypatch.setattr(mixtures, "_mixed", without_mixing)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["m-correction", "dividemix"])
def test_the_method_beats_plain_training(name):
    """40 % symmetric noise on digits, seeded."""
    assert accuracy_on_digits(name) > accuracy_on_digits("standard")
