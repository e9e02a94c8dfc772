"""Steps that wrong labels would disturb little."""

import copy

import pytest
import torch
from torch.nn import functional

from kspr.experiments.baselines.meta import MetaLearning, neighbours_labels
from tests.experiments.baselines.rules import accuracy_on_digits, small_run


def test_half_of_the_labels_come_from_near_rows():
    features = torch.arange(20.0)[:, None]
    label = torch.arange(20)
    found = neighbours_labels(features, label, 0.5, 2, torch.Generator().manual_seed(0))
    changed = [k for k in range(20) if found[k] != k]
    assert len(changed) == 10
    assert all(abs(int(found[k]) - k) <= 2 for k in changed)


def test_the_disturbance_is_that_of_a_step_on_the_replaced_labels():
    """Against a copy of the network that really takes the step; its gradient is of first order."""
    run, batch = small_run()
    run.epoch = 5
    method = MetaLearning(n_disturbed=1)
    state = batch.draws.get_state()
    (found,) = method.losses(run, batch)
    batch.draws.set_state(state)
    learner = run.learners[0]
    told = learner.average.module.eval()(batch.view)
    label = neighbours_labels(told.features, batch.label, 0.5, 10, batch.draws)
    tried = copy.deepcopy(learner.network).train()
    loss = functional.cross_entropy(tried(batch.view).logits, label)
    slopes = torch.autograd.grad(loss, list(tried.parameters()))
    with torch.no_grad():
        for parameter, slope in zip(tried.parameters(), slopes, strict=True):
            parameter -= 2 * learner.rate * slope
    p, log_q = told.logits.softmax(dim=1), tried(batch.view).logits.log_softmax(dim=1)
    expected = (p * (p.log() - log_q)).sum(dim=1).mean()
    plain = functional.cross_entropy(learner.logits(batch.view), batch.label)
    torch.testing.assert_close(found, plain + expected, rtol=1e-4, atol=1e-4)


def test_it_begins_with_plain_training():
    run, batch = small_run(epochs=40)
    expected = functional.cross_entropy(run.logits(batch)[0], batch.label)
    torch.testing.assert_close(MetaLearning().losses(run, batch)[0], expected)


@pytest.mark.slow
def test_the_method_beats_plain_training():
    """40 % symmetric noise on digits, seeded."""
    assert accuracy_on_digits("meta-learning") > accuracy_on_digits("standard")
