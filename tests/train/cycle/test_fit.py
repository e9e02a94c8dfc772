"""`fit` as a user calls it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.errors import InputError
from kspr.train import TrainSettings, fit
from kspr.train.cycle.select_step import Chosen


@pytest.fixture(scope="module")
def parts(digits40):
    train, rest = slice(0, 1200), slice(1200, None)
    X, y, truth = digits40.X, digits40.y, digits40.y_true
    return X[train], y[train], truth[train], (X[rest], truth[rest])


@pytest.fixture(scope="module")
def cycled(parts):
    X, y, truth, test = parts
    torch.set_num_threads(1)
    settings = TrainSettings.from_preset("cpu", epochs=10, batch_size=32)
    return fit(X, y, settings=settings, truth=truth, test=test)


def test_the_cycle_ends_above_plain_training(cycled):
    """The reference is plain training: the same network, steps and schedule, all labels."""
    last = cycled.history[-1]
    plain = max(last["reference_accuracy"], last["reference_accuracy_average"])
    assert cycled.handed_over.startswith("cycle")
    assert cycled.test_accuracy > plain + 0.05
    assert cycled.test_accuracy > 0.85


def test_each_epoch_is_measured(cycled):
    assert [line["epoch"] for line in cycled.history] == list(range(1, 11))
    last = cycled.history[-1]
    assert last["fsr"] < 0.15  # the network has seen the labels that it judges: q is not kept
    assert last["recall"] > 0.7
    assert 0.3 < last["kept"] < 0.7
    assert last["q_reached"] == pytest.approx(0.1)
    assert last["q_spread"] == 0  # a pooled cut is one cut group
    assert all(line["seconds"] > line["select_seconds"] for line in cycled.history)


def test_the_result_predicts_in_the_users_labels(cycled, parts):
    X_test, y_test = parts[3]
    assert (cycled.predict(X_test) == y_test).mean() == pytest.approx(
        cycled.test_accuracy, abs=1e-6
    )
    assert cycled.predict_proba(X_test).sum(axis=1) == pytest.approx(1.0)


def test_the_selection_speaks_of_every_row(cycled, parts):
    assert isinstance(cycled.selection, kspr.Selection)
    assert np.array_equal(cycled.selection.label, parts[1])


def test_labels_may_be_text(small, quick):
    names = np.array([f"digit {k}" for k in range(10)])
    trained = fit(small.X, names[small.y], settings=quick, test=(small.X, names[small.y_true]))
    assert set(trained.predict(small.X)) <= set(names)
    assert trained.test_accuracy > 0.5


def test_the_answer_depends_on_the_seed_alone(small, quick):
    torch.manual_seed(1)
    first = fit(small.X, small.y, settings=quick)
    torch.manual_seed(2)
    again = fit(small.X, small.y, settings=quick)
    other = fit(small.X, small.y, settings=quick.changed(seed=1))
    assert torch.equal(_weights(first), _weights(again))
    assert not torch.equal(_weights(first), _weights(other))


def test_the_callers_random_state_is_left_alone(small, quick):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    fit(small.X, small.y, settings=quick.changed(epochs=1))
    assert torch.equal(torch.rand(1), expected)


def test_a_module_of_the_users_own_is_trained(small, quick):
    own = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    before = own[0].weight.detach().clone()
    trained = fit(small.X, small.y, settings=quick, network=own)
    assert not torch.equal(own[0].weight, before)
    assert trained.predict(small.X[:3]).shape == (3,)


def test_once_selected_keeps_its_first_selection(small, quick):
    trained = fit(small.X, small.y, settings=quick.changed(select_every=0, warmup_epochs=0))
    assert {line["select_seconds"] > 0 for line in trained.history[1:]} == {False}
    assert len({line["kept"] for line in trained.history}) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(300, int)}, "only one class"),
        ({"y": np.arange(299) % 10}, "X has 300 rows but y has 299 labels"),
        ({"classes": range(5)}, "y must use the classes 0, 1, 2, 3, 4, got [5-9]"),
        ({"truth": [1, 2]}, "truth has 2 labels"),
        ({"resume": True}, "resume=True needs the folder"),
        ({"X": np.full((300, 4), np.nan)}, "NaN or inf in 300 rows"),
        ({"X": np.zeros((300, 3, 8, 8), np.uint8)}, "Vectors must have two dimensions"),
        ({"settings": "imagenet"}, "preset must be one of"),
    ],
)
def test_bad_input_is_one_sentence(small, quick, changes, message):
    given = {"X": small.X, "y": small.y, "settings": quick, **changes}
    with pytest.raises(InputError, match=message):
        fit(given.pop("X"), given.pop("y"), **given)


def test_a_test_set_with_another_class_is_named(small, quick):
    with pytest.raises(InputError, match=r"The test set must use the classes .* got 77 in row 0"):
        fit(small.X, small.y, settings=quick, test=(small.X[:1], [77]))


def test_an_unknown_parameter_of_the_selector_is_named(small, quick):
    with pytest.raises(InputError, match="KnockoffsSPR has no parameter 'quality'"):
        fit(small.X, small.y, settings=quick.changed(selection={"quality": 1}))


def test_fewer_samples_than_a_batch_still_train(small, quick):
    with pytest.warns(UserWarning, match="batch_size is 512 but there are only"):
        trained = fit(small.X, small.y, settings=quick.changed(batch_size=512))
    assert len(trained.history) == 4


def _weights(trained):
    return torch.cat([value.flatten().float() for value in trained.network.state_dict().values()])


def test_a_class_without_a_sample_is_known_and_never_trained(small, quick):
    trained = fit(small.X, small.y, settings=quick, classes=range(12))
    assert trained.predict_proba(small.X).shape == (300, 12)
    assert set(trained.predict(small.X)) <= set(range(10))


def test_an_empty_selection_is_replaced_by_the_labels_as_they_are(small, quick):
    noise = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    for guard in (True, False):
        settings = quick.changed(guard=guard, selection={"q": 0.001})
        with pytest.warns(UserWarning, match="the labels are used as they are"):
            trained = fit(noise, small.y, settings=settings)
        assert trained.history[-1]["used"] == 1.0


def test_the_spread_of_levels_is_over_the_cells_that_met_one(small):
    selection = kspr.KnockoffsSPR.paper().fit(small.X, small.y).selection_
    level = np.full(len(selection.cut_groups), np.nan)
    level[:2] = 0.02, 0.1
    chosen = Chosen(
        replace(selection, cut_groups=replace(selection.cut_groups, q_reached=level)), 0.0
    )
    assert chosen.q_spread == pytest.approx(0.04)
