"""The two losses and the pseudo-labels."""

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.train.learner import pseudo_labels, soft_loss, supervised_loss


@pytest.fixture
def logits():
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)


LABELS = torch.tensor([0, 3, 1, 2, 2, 0])


def test_the_supervised_loss_is_minus_the_mean_log_probability_of_the_label(logits):
    expected = -logits.softmax(1)[torch.arange(6), LABELS].log().mean()
    torch.testing.assert_close(supervised_loss(logits, LABELS), expected)


def test_the_soft_loss_of_hard_targets_is_the_supervised_loss(logits):
    soft = soft_loss(logits, one_hot(LABELS, 4).float())
    torch.testing.assert_close(soft, supervised_loss(logits, LABELS))


def test_the_soft_loss_is_linear_in_the_targets(logits):
    first, second = (one_hot(labels, 4).float() for labels in (LABELS, LABELS.flip(0)))
    torch.testing.assert_close(
        soft_loss(logits, 0.3 * first + 0.7 * second),
        0.3 * soft_loss(logits, first) + 0.7 * soft_loss(logits, second),
    )


def test_a_batch_without_rows_teaches_nothing(logits):
    nothing = logits[:0]
    loss = supervised_loss(nothing, LABELS[:0]) + soft_loss(nothing, torch.zeros(0, 4))
    loss.backward()
    assert loss == 0
    assert (logits.grad == 0).all()


def test_targets_must_match_the_logits(logits):
    with pytest.raises(InputError, match=r"logits have shape \(6, 4\), targets \(6, 3\)"):
        soft_loss(logits, torch.zeros(6, 3))


@pytest.fixture
def network():
    return build_network("mlp", 3, in_shape=(5,), seed=1)


@pytest.fixture
def views():
    return torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(1)).unbind()


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


def test_views_and_temperature_are_checked(network, views):
    with pytest.raises(InputError, match="views must hold at least one batch"):
        pseudo_labels(network, [])
    with pytest.raises(InputError, match="temperature must be positive, got 0"):
        pseudo_labels(nn.Identity(), views, temperature=0)
