"""`fit` as a user calls it."""

import numpy as np
import pytest
import torch

import kspr
from kspr.errors import InputError
from kspr.train import fit


def test_the_cycle_ends_above_plain_training(cycled):
    """The reference is plain training: the same network, steps and schedule, all labels."""
    last = cycled.history[-1]
    plain = max(last["reference_accuracy"], last["reference_accuracy_average"])
    assert cycled.model_choice.startswith("cycle")
    assert cycled.test_accuracy > plain + 0.05
    assert cycled.test_accuracy > 0.85


def test_each_epoch_is_measured(cycled):
    assert [line["epoch"] for line in cycled.history] == list(range(1, 11))
    last = cycled.history[-1]
    assert last["fsr"] < 0.13  # 700 kept labels: q = 0.1 and less than three standard errors
    assert last["recall"] > 0.7
    assert 0.3 < last["kept"] < 0.7
    assert last["used"] == 1  # every sample is trained on, with a soft label
    first = cycled.history[0]  # the epoch before which the referees judged
    assert first["q_reached"] == pytest.approx(0.1)
    assert first["q_spread"] == 0  # a pooled cut is one cut group
    assert all(line["seconds"] > line["select_seconds"] for line in cycled.history)


def test_the_selection_has_every_row(cycled, parts):
    assert isinstance(cycled.selection, kspr.Selection)
    assert np.array_equal(cycled.selection.label, parts[1])


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


def test_no_selection_by_a_network_that_has_seen_the_labels_counts_as_assumed(
    small, quick, tmp_path
):
    own = fit(small.X, small.y, settings=quick).selection
    stored = kspr.Selection.load(own.save(tmp_path / "s"))
    for selection in (own, stored, stored.at(0.3)):
        assert "assumed" not in selection.cut_groups.status
        assert "estimated" in selection.cut_groups.status
        assert "is an estimate that is too low" in selection.assumption
        text = str(selection.summary())
        assert "assumed" not in text.replace("rather than assumed", "")
        assert "was asked for and is not held" in " ".join(text.split())


def test_the_frozen_selection_is_the_one_on_the_embeddings(cycled, parts):
    X, y, _truth, _test = parts
    own = kspr.KnockoffsSPR(q=0.1, cut="pooled", random_state=0).fit(X, y).selection_
    assert np.array_equal(cycled.frozen.clean_mask, own.clean_mask)
    assert not cycled.frozen.manifest.seen_labels
    assert set(cycled.frozen.cut_groups.status) == {"assumed"}


def test_a_selection_by_referees_has_not_seen_the_labels(cycled, parts):
    assert not cycled.selection.manifest.seen_labels
    assert cycled.selection.manifest.method == "ProbabilitySelector"
    assert set(cycled.selection.cut_groups.status) == {"assumed"}
    assert "by their true class" in cycled.selection.assumption


def test_a_selection_on_the_inputs_has_not_seen_the_labels(small, quick):
    trained = fit(small.X, small.y, settings=quick.changed(select_on="inputs"))
    assert not trained.selection.manifest.seen_labels
