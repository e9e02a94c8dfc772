"""The moving average of weights and batch statistics."""

import pytest
import torch

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.models.network import Outputs, wrap_network
from kspr.train.cycle.learner import averaged


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


@pytest.mark.parametrize("decay", [-0.1, 1.0, 99.9])
def test_the_decay_is_a_share(network, decay):
    with pytest.raises(InputError, match=r"decay must lie in \[0, 1\)"):
        averaged(network, decay)
