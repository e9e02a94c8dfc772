"""A network in training."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import Outputs, wrap_network
from kspr.train.learner import (
    Learner,
    Pools,
    averaged,
    cosine_rate,
    epoch_batches,
    make_optimizer,
    mean_loss,
    pseudo_labels,
    train_epoch,
)
from kspr.train.settings import TrainSettings
from kspr.train.world import World
from tests.train.digits import digit_images, network_of, setup_of


def learner(**changes):
    network = build_network("mlp", 3, in_shape=(4,), seed=0)
    settings = TrainSettings.from_preset("cpu", **changes)
    return Learner(network, settings, 100, World(torch.device("cpu")))


def step(trained, seed):
    batch = torch.rand(8, 4, generator=torch.Generator().manual_seed(seed))
    trained.learn(trained.logits(batch).square().mean())


def weights(trained):
    return torch.cat([parameter.detach().flatten() for parameter in trained.network.parameters()])


def test_a_copy_goes_its_own_way():
    first, second, alone = learner(), learner(), learner()
    for trained in (first, alone):
        trained.start_training()
        step(trained, 1)
    second.start_training()
    second.load(first.state())
    assert torch.equal(weights(first), weights(second))
    step(second, 2)
    step(first, 3)
    step(alone, 3)
    assert torch.equal(weights(first), weights(alone))
    assert not torch.equal(weights(first), weights(second))


def test_the_rate_falls_to_zero():
    trained = learner(learning_rate=0.1)
    trained.start_training()
    assert trained.rate == pytest.approx(0.1)
    for k in range(100):
        step(trained, k)
    assert trained.rate == 0.0


def test_the_average_follows_at_most_a_tenth_of_the_run_behind():
    trained = learner(ema_decay=0.9999)
    trained.start_training()
    began = weights(trained)
    for k in range(100):
        step(trained, k)
    average = torch.cat([p.flatten() for p in trained.average.module.parameters()])
    assert (average - weights(trained)).norm() < 0.3 * (began - weights(trained)).norm()


@pytest.fixture
def network():
    return build_network("mlp", 3, in_shape=(4,))


def learn(network, seed):
    """Change weights and statistics as a step of training would."""
    network(torch.randn(9, 4, generator=torch.Generator().manual_seed(seed)))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * (seed + 1)


def test_the_average_follows_by_the_decay_statistics_included(network):
    average = averaged(network, 0.9)
    expected = None
    for step in range(4):
        learn(network, step)
        average.update_parameters(network)
        now = {n: t.clone() for n, t in network.state_dict().items() if t.is_floating_point()}
        if expected is None:
            expected = now
        expected = {n: 0.9 * expected[n] + 0.1 * now[n] for n in now}
    found = average.module.state_dict()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor)
    assert found["body.1.num_batches_tracked"].dtype == torch.int64


def test_the_average_gives_outputs_and_learns_nothing_by_itself(network):
    average = averaged(network, 0.9)
    outputs = average(torch.rand(1, 4))  # one row: not in training mode
    assert isinstance(outputs, Outputs)
    assert not outputs.logits.requires_grad
    assert network.training
    assert all(p.requires_grad for p in network.parameters())


def test_a_wrapped_module_can_be_averaged():
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    network = wrap_network(module, 3, in_shape=(4,))
    average = averaged(network, 0.5)
    before = average(torch.ones(1, 4))
    learn(network, 0)
    torch.testing.assert_close(average(torch.ones(1, 4)), before)
    average.update_parameters(network)
    torch.testing.assert_close(average(torch.ones(1, 4)), network(torch.ones(1, 4)))


def test_an_average_can_be_saved_and_goes_on(network, tmp_path):
    average = averaged(network, 0.9)
    average.update_parameters(network)
    torch.save(average.state_dict(), tmp_path / "a.pt")
    other = averaged(build_network("mlp", 3, in_shape=(4,), seed=7), 0.9)
    other.load_state_dict(torch.load(tmp_path / "a.pt", weights_only=True))
    learn(network, 3)
    for each in (average, other):
        each.update_parameters(network)
    for mine, theirs in zip(average.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_the_rate_is_torchs_cosine_annealing():
    optimizer = make_optimizer(nn.Linear(2, 2), 0.3, 0.9, 5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
    for step in range(40):
        assert cosine_rate(step, 40, 0.3) == pytest.approx(schedule.get_last_lr()[0], abs=1e-9)
        optimizer.step()
        schedule.step()


def test_after_the_end_nothing_is_learned():
    assert cosine_rate(30, 30, 1.0) == 0
    assert cosine_rate(31, 30, 1.0) == 0
    assert cosine_rate(0, 0, 1.0) == 0


def test_a_step_is_the_papers_momentum_and_decay_on_every_parameter():
    layer = nn.Linear(1, 1)
    optimizer = make_optimizer(layer, 0.1, momentum=0.9, weight_decay=0.01)
    for parameter in layer.parameters():
        nn.init.constant_(parameter, 2.0)
    value, velocity = 2.0, 0.0
    for _ in range(3):
        optimizer.zero_grad()
        (layer.weight.sum() * 3 + layer.bias.sum() * 3).backward()
        optimizer.step()
        velocity = 0.9 * velocity + (3 + 0.01 * value)
        value -= 0.1 * velocity
    assert layer.weight.item() == pytest.approx(value)
    assert layer.bias.item() == pytest.approx(value)


def test_frozen_parameters_are_left_alone():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    assert make_optimizer(layer, 0.1, 0.9, 5e-4).param_groups[0]["params"] == [layer.weight]
    with pytest.raises(InputError, match="no parameter that learns"):
        make_optimizer(layer.requires_grad_(False), 0.1, 0.9, 5e-4)


def batches(n_clean=50, n_rejected=30, n_steps=10, size=8, p=1.0, seed=0):
    rows = torch.arange(n_clean + n_rejected)
    pools = Pools(rows[:n_clean], rows[n_clean:])
    generator = torch.Generator().manual_seed(seed)
    return pools, list(epoch_batches(pools, n_steps, size, p, generator))


def test_clean_rows_are_each_seen_before_any_is_seen_twice():
    pools, found = batches(n_steps=6)
    seen = torch.cat([batch.clean for batch in found])[:48]
    assert len(seen.unique()) == 48
    assert set(seen.tolist()) <= set(pools.clean.tolist())


def test_mixed_batches_pair_every_clean_row_with_a_rejected_one():
    pools, found = batches()
    for batch in found:
        assert len(batch.rejected) == len(batch.clean) == 8
        assert set(batch.rejected.tolist()) <= set(pools.rejected.tolist())


def test_the_share_of_mixed_batches_is_p():
    _, found = batches(n_steps=2000, p=0.3)
    share = sum(batch.rejected is not None for batch in found) / 2000
    assert abs(share - 0.3) < 3 * (0.3 * 0.7 / 2000) ** 0.5
    assert all(batch.rejected is None for batch in batches(p=0.0)[1])


def test_without_rejected_rows_every_step_is_supervised():
    assert all(batch.rejected is None for batch in batches(n_rejected=0)[1])


def test_a_clean_set_smaller_than_a_batch_is_taken_whole():
    _, found = batches(n_clean=5)
    assert len(found) == 10
    assert all(sorted(batch.clean.tolist()) == list(range(5)) for batch in found)


def test_the_order_follows_from_the_generator_alone():
    first, again, other = batches(seed=1)[1], batches(seed=1)[1], batches(seed=2)[1]
    assert all(torch.equal(a.clean, b.clean) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a.clean, b.clean) for a, b in zip(first, other, strict=True))


@pytest.fixture
def logits():
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)


LABELS = torch.tensor([0, 3, 1, 2, 2, 0])


def test_the_supervised_loss_is_minus_the_mean_log_probability_of_the_label(logits):
    expected = -logits.softmax(1)[torch.arange(6), LABELS].log().mean()
    torch.testing.assert_close(mean_loss(logits, LABELS), expected)


def test_the_soft_loss_of_hard_targets_is_the_supervised_loss(logits):
    soft = mean_loss(logits, one_hot(LABELS, 4).float())
    torch.testing.assert_close(soft, mean_loss(logits, LABELS))


def test_the_soft_loss_is_linear_in_the_targets(logits):
    first, second = (one_hot(labels, 4).float() for labels in (LABELS, LABELS.flip(0)))
    torch.testing.assert_close(
        mean_loss(logits, 0.3 * first + 0.7 * second),
        0.3 * mean_loss(logits, first) + 0.7 * mean_loss(logits, second),
    )


def test_a_batch_without_rows_teaches_nothing(logits):
    nothing = logits[:0]
    loss = mean_loss(nothing, LABELS[:0]) + mean_loss(nothing, torch.zeros(0, 4))
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


@pytest.fixture
def views():
    return torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(1)).unbind()


def test_one_view_gives_the_models_softmax(network, views):
    expected = network.eval()(views[0]).logits.softmax(1)
    torch.testing.assert_close(pseudo_labels(network, views[:1]), expected)


def test_two_views_give_their_mean_and_the_temperature_sharpens_it(network, views):
    network.eval()
    mean = torch.stack([network(view).logits.softmax(1) for view in views]).mean(0)
    torch.testing.assert_close(pseudo_labels(network, views), mean)
    sharpened = mean**2 / (mean**2).sum(1, keepdim=True)
    torch.testing.assert_close(pseudo_labels(network, views, temperature=0.5), sharpened)


def test_a_very_small_temperature_gives_finite_hard_labels(network, views):
    hard = pseudo_labels(network, views, temperature=1e-4)
    assert torch.isfinite(hard).all()
    torch.testing.assert_close(hard.max(1).values, torch.ones(8), atol=1e-3, rtol=0)


def test_labelling_passes_no_gradient_and_leaves_the_network_as_it_was(network, views):
    network.train()
    network.body.eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert not pseudo_labels(network, views).requires_grad
    assert network.training
    assert not network.body.training
    assert all(torch.equal(network.state_dict()[name], before[name]) for name in before)


def started(X, y, settings):
    setup = setup_of(X, y, settings)
    return setup, Learner(network_of(setup), settings, 40, setup.world)


def test_sure_labels_that_are_not_mixed_are_the_epoch_on_given_labels(small, quick):
    settings = quick.changed(mix_probability=0.0)
    setup, plain = started(small.X, small.y, settings)
    rows = torch.nonzero(~setup.task.held_out)[:, 0]
    expected = train_epoch(plain, setup, Pools(rows, rows[:0]), (0, 0))
    setup, soft = started(small.X, small.y, settings)
    sure = one_hot(setup.task.label, setup.task.n_classes).float()
    loss = train_epoch(soft, setup, Pools(rows, rows, sure), (0, 0))
    assert np.isclose(loss, expected, rtol=1e-4)
    for one, other in zip(soft.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_soft_labels_of_other_rows_are_never_read(small, quick):
    losses = []
    for others in (0.0, float("nan")):
        setup, learner = started(small.X, small.y, quick)
        rows = torch.arange(0, len(small.y), 2)
        targets = one_hot(setup.task.label, setup.task.n_classes).float()
        targets[1::2] = others
        pools = Pools(rows, rows, targets)
        losses.append(train_epoch(learner, setup, pools, (0, 0), n_rows=len(rows)))
    assert losses[0] == losses[1]


def test_images_learn_soft_labels_too():
    X, y = digit_images(64)
    settings = TrainSettings.from_preset(
        "cifar10", network="resnet_small", batch_size=16, padding=1
    )
    setup, learner = started(X, y, settings)
    rows = torch.arange(64)
    soft = torch.full((64, 10), 0.01) + 0.9 * one_hot(setup.task.label, 10)
    pools = Pools(rows, rows, soft)
    losses = [train_epoch(learner, setup, pools, (0, epoch)) for epoch in range(3)]
    assert losses[2] < losses[0]
