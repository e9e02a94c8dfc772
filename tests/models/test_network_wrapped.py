"""Any module as a network."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kspr.errors import InputError
from kspr.models.network import wrap_network


def plain():
    return nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)
    )


class Backwards(nn.Module):
    """Registers its layers in the opposite order of their use."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(7, 3)
        self.first = nn.Linear(6, 7)

    def forward(self, x):
        return SimpleNamespace(logits=self.last(self.first(x).relu()))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.embed(x.view(-1, 2, 6))[:, 0]), "something else"


def test_found_features_are_what_the_last_linear_layer_sees():
    module, x = plain(), torch.rand(6, 3, 9, 9)
    outputs = wrap_network(module, 4, in_shape=(3, 9, 9))(x)
    torch.testing.assert_close(outputs.features, module[:4](x))
    torch.testing.assert_close(outputs.logits, module(x))


def test_last_is_what_runs_last_not_what_was_registered_last():
    module, x = Backwards(), torch.rand(2, 6)
    outputs = wrap_network(module, 3, in_shape=(6,))(x)
    torch.testing.assert_close(outputs.features, module.first(x).relu())


def test_maps_of_a_named_layer_are_averaged():
    module, x = plain(), torch.rand(2, 3, 9, 9)
    network = wrap_network(module, 4, in_shape=(3, 9, 9), feature_layer="0")
    assert network.n_features == 5
    torch.testing.assert_close(network(x).features, module[0](x).mean((2, 3)))


def test_tokens_of_a_named_layer_are_averaged_and_tuples_start_with_logits():
    module, x = Tokens(), torch.rand(2, 12)
    outputs = wrap_network(module, 3, in_shape=(12,), feature_layer="embed")(x)
    torch.testing.assert_close(outputs.features, module.embed(x.view(2, 2, 6)).mean(1))


def test_features_and_logits_come_from_one_pass():
    calls = []
    module = plain()
    module[0].register_forward_hook(lambda *_: calls.append(1))
    network = wrap_network(module, 4, in_shape=(3, 9, 9))
    calls.clear()
    network(torch.rand(2, 3, 9, 9))
    assert len(calls) == 1


def test_wrapping_leaves_no_trace_in_the_module():
    module = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 4))
    module[0].eval()  # statistics that a user froze
    before = copy.deepcopy(module.state_dict())
    network = wrap_network(module, 4, in_shape=(5,))
    assert [part.training for part in module] == [False, True, True]
    assert all(torch.equal(module.state_dict()[name], before[name]) for name in before)
    copy.deepcopy(network)(torch.rand(3, 5))
    assert not module[2]._forward_hooks


def test_gradients_flow_through_features_and_logits():
    module = plain()
    outputs = wrap_network(module, 4, in_shape=(3, 9, 9))(torch.rand(2, 3, 9, 9))
    (outputs.features.sum() + outputs.logits.sum()).backward()
    assert module[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("module", "options", "says"),
    [
        (plain(), {"n_classes": 5}, "must give 5 logits per sample .* Replace its last layer"),
        (plain(), {"feature_layer": "body"}, "feature_layer 'body' is no part of the module"),
        (plain(), {"in_shape": (1, 9, 9)}, r"cannot take samples of in_shape=\(1, 9, 9\)"),
        (nn.Conv2d(3, 4, 9), {}, "no linear layer to take features before"),
        (nn.LSTM(9, 4), {"feature_layer": ""}, "cannot take samples|must return logits|must give"),
    ],
)
def test_a_module_that_does_not_fit_is_refused_in_words(module, options, says):
    with pytest.raises(InputError, match=says):
        wrap_network(module, **{"n_classes": 4, "in_shape": (3, 9, 9), **options})
