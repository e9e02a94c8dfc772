"""Steps that wrong labels would disturb little, and weighted means of few rows of a class."""

import copy

import pytest
import torch
from torch.nn import functional

from kspr.experiments.baselines.losses import (
    MetaCleaner,
    MetaLearning,
    confidences,
    neighbours_labels,
    same_label_rows,
)
from kspr.experiments.baselines.method import classifier_of
from tests.experiments.baselines.rules import small_run


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


def test_meta_learning_begins_with_plain_training():
    run, batch = small_run(epochs=40)
    expected = functional.cross_entropy(run.logits(batch)[0], batch.label)
    torch.testing.assert_close(MetaLearning().losses(run, batch)[0], expected)


def weighting(width=6, hidden=8, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(width, hidden, generator=draws), torch.randn(hidden, generator=draws)


def subsets(n=7, size=5, width=6, seed=1):
    return torch.randn(n, size, width, generator=torch.Generator().manual_seed(seed))


def test_a_row_is_compared_with_the_mean_of_the_others():
    """Against loops over subsets and rows."""
    features, (first, second) = subsets().double(), (w.double() for w in weighting())
    expected = torch.zeros(7, 5, dtype=torch.float64)
    for s in range(7):
        unit = [row / row.norm() for row in features[s]]
        for k in range(5):
            others = sum(unit[j] for j in range(5) if j != k)
            product = 6 * unit[k] * others / others.norm()
            hidden = torch.tensor([max(float(product @ column), 0.0) for column in first.T])
            expected[s, k] = hidden.double() @ second
    expected = expected.exp() / expected.exp().sum(dim=1, keepdim=True)
    torch.testing.assert_close(confidences(features, first, second), expected, rtol=1e-5, atol=0)


def test_weights_do_not_depend_on_the_order_of_a_subset_or_on_the_scale_of_features():
    features, learned = subsets(), weighting()
    order = torch.tensor([3, 0, 4, 1, 2])
    found = confidences(features, *learned)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(7))
    torch.testing.assert_close(confidences(features[:, order], *learned), found[:, order])
    torch.testing.assert_close(confidences(40 * features, *learned), found)


def test_a_subset_holds_the_row_itself_and_rows_of_its_label():
    label = torch.tensor([2, 0, 1, 0, 2, 2, 0, 3])
    found = same_label_rows(label, torch.arange(8), 30, torch.Generator().manual_seed(0))
    assert found.shape == (8, 30)
    assert found[:, 0].tolist() == list(range(8))
    assert (label[found] == label[:, None]).all()
    # Every row of a class is drawn, and the only row of class 3 again and again.
    assert set(found[0].tolist()) == {0, 4, 5}
    assert set(found[7].tolist()) == {7}


def test_meta_cleaner_begins_with_the_plain_means_of_subsets():
    """The weighting network gives equal weights until its first step."""
    run, batch = small_run()
    method = MetaCleaner(size=4)
    method.begin(run)
    state = batch.draws.get_state()
    (found,) = method.losses(run, batch)
    batch.draws.set_state(state)
    rows = same_label_rows(run.task.label, batch.rows[:6], 4, batch.draws)
    view = run.pipeline.train_view(run.task.inputs.take(rows.flatten()), batch.draws)
    network = run.learners[0].network
    means = network(view).features.reshape(6, 4, -1).mean(dim=1)
    expected = functional.cross_entropy(classifier_of(network)(means), batch.label[:6])
    torch.testing.assert_close(found, expected)


def test_a_step_of_the_weighting_network_follows_its_gradient():
    """The step of the second layer against differences of the loss."""
    run, batch = small_run()
    method = MetaCleaner(size=5)
    method.begin(run)
    width = run.learners[0].network.n_features
    run.memory["first"], run.memory["second"] = weighting(width)
    before, state = run.memory["second"].clone(), batch.draws.get_state()
    method.losses(run, batch)
    step = (run.memory["second"] - before) / (-method.pace * run.learners[0].rate)

    def loss(second):
        batch.draws.set_state(state)
        run.memory["first"], run.memory["second"] = weighting(width)[0], second
        return float(method.losses(run, batch)[0].detach())

    for k in range(3):
        moved = torch.zeros_like(before)
        moved[k] = 1e-2
        slope = (loss(before + moved) - loss(before - moved)) / 2e-2
        assert float(step[k]) == pytest.approx(slope, rel=0.05, abs=1e-3)
