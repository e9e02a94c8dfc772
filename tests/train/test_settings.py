"""Settings: presets, changes, and what is refused."""

import pytest

from kspr.errors import InputError
from kspr.train.settings import PRESETS, TrainSettings


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_survives_json(name):
    settings = TrainSettings.from_preset(name)
    assert TrainSettings(**settings.as_dict()) == settings


@pytest.mark.parametrize(
    ("name", "epochs", "decay", "pretrain", "p", "network"),
    [
        ("cifar10", 180, 5e-4, 100, 1.0, "cifar_resnet18"),
        ("cifar100", 180, 5e-4, 100, 1.0, "cifar_resnet18"),
        ("webvision", 300, 5e-4, 350, 1.0, "inception_resnet_v2"),
        ("clothing1m", 5, 1e-4, 0, 0.5, "resnet50"),
    ],
)
def test_presets_hold_what_the_paper_says(name, epochs, decay, pretrain, p, network):
    found = TrainSettings.from_preset(name)
    assert (found.epochs, found.weight_decay, found.pretrain_epochs) == (epochs, decay, pretrain)
    assert (found.mix_probability, found.network, found.mix_alpha) == (p, network, 0.5)
    assert (found.learning_rate, found.momentum, found.batch_size) == (0.01, 0.9, 128)
    assert (found.selector, found.select_on, found.guard) == ("default", "referees", True)
    assert found.selection == {"q": 0.1, "cut": "pooled"}


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "webvision", "clothing1m"])
def test_a_preset_called_paper_is_the_papers_procedure(name):
    """Alg. 3 after every epoch on the network's features, with the paper's selector and no more."""
    paper, ours = (TrainSettings.from_preset(kind + name) for kind in ("paper-", ""))
    assert (paper.selector, paper.select_on, paper.select_every) == ("paper", "network", 1)
    assert not paper.guard
    assert paper.warmup_epochs == 0
    # "For Clothing1M, this is 14 and for other datasets the reduced dimension is 10".
    assert paper.selection == ({"classes_per_group": 14} if name == "clothing1m" else {})
    judging = ("selector", "select_on", "guard", "selection", "referee_parts")
    assert paper.changed(**{field: getattr(ours, field) for field in judging}) == ours


def test_a_changed_selection_is_laid_over_the_presets():
    found = TrainSettings.from_preset("clothing1m", selection={"n_splits": 3})
    assert found.selection == {"q": 0.1, "cut": "pooled", "n_splits": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"mix_probability": 1.5}, "mix_probability must be a number from 0 to 1, got 1.5"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0"),
        ({"network_name": "mlp"}, "'network_name' is no setting"),
        ({"warmup_epochs": 99}, "the selection would never be used"),
        ({"held_out": 0}, "held_out must be above 0 with the guard"),
        ({"selector": "magic"}, "selector must be one of"),
        ({"selector": "spr", "select_on": "referees"}, "'referees' needs selector='default'"),
        ({"input": "images", "select_on": "inputs"}, "select_on='inputs' is for embeddings"),
        ({"mean": (0.5,)}, "mean has 1 channels but std has 3"),
        ({"std": (0.5, 0.0, 0.5)}, "std must be above 0"),
        ({"seed": 10**40}, "seed must be a whole number from 0 to 4294967295"),
        ({"epochs": "3"}, "epochs must be a whole number, got '3'"),
        ({"epochs": True}, "epochs must be a whole number, got True"),
        ({"guard": 1}, "guard must be true or false, got 1"),
        ({"weights": 7}, "weights must be text, got 7"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number, got nan"),
        ({"mean": "abc"}, "mean must be a list of numbers, got 'abc'"),
        ({"std": [1, "x", 1]}, "std must be a list of numbers"),
        ({"selection": 3}, "selection must be a table, got 3"),
        ({"pretrain": [1]}, "pretrain must be a table"),
        ({"selector": "spr", "selection": 3}, "selection must be a table"),
    ],
)
def test_a_wrong_setting_is_one_sentence(change, message):
    with pytest.raises(InputError, match=message):
        TrainSettings.from_preset("cpu", **change)


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(InputError, match="preset must be one of 'cpu'"):
        TrainSettings.from_preset("imagenet")


def test_another_selector_starts_from_its_own_defaults():
    assert TrainSettings.from_preset("cpu").selection["q"] == 0.1
    assert TrainSettings.from_preset("cpu", selector="spr").selection == {}
    own = TrainSettings.from_preset("cpu", selector="paper", selection={"q": 0.04})
    assert own.selection == {"q": 0.04}
