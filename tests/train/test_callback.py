"""The parts for a training loop of one's own, and the examples that show them."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

from kspr.errors import InputError
from kspr.models.build import build_network
from kspr.noise import symmetric
from kspr.train import CleanSampler, FeatureStore, SelectionCallback

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_last_features_of_a_sample_count():
    store = FeatureStore(4)
    store.put([0, 1, 2, 3], torch.zeros(4, 2), torch.ones(4, 3))
    store.put(torch.tensor([2]), torch.full((1, 2), 7.0))
    assert store.features.tolist() == [[0, 0], [0, 0], [7, 7], [0, 0]]
    assert store.scores.shape == (4, 3)


def test_features_are_detached_and_in_single_precision():
    store = FeatureStore(2)
    store.put([0, 1], torch.ones(2, 2, dtype=torch.bfloat16, requires_grad=True))
    assert store.features.dtype == torch.float32
    assert not store.features.requires_grad


def test_an_incomplete_store_says_how_many_are_missing():
    store = FeatureStore(5)
    store.put([0, 4], torch.zeros(2, 2))
    assert not store.is_complete
    with pytest.raises(InputError, match="3 of 5 samples have no features yet"):
        store.features  # noqa: B018 - the look-up is the point


@pytest.mark.parametrize(
    ("index", "rows", "message"),
    [([0, 1], 3, "index has 2 entries but there are 3"), ([0, 9], 2, r"index must lie in 0\.\.4")],
)
def test_a_wrong_index_is_one_sentence(index, rows, message):
    with pytest.raises(InputError, match=message):
        FeatureStore(5).put(index, torch.zeros(rows, 2))


def test_the_sampler_follows_the_selection(digits40):
    callback = SelectionCallback(digits40.y, digits40.X, q=0.1)
    sampler = CleanSampler(callback, seed=0)
    assert sorted(sampler) == callback.selection.clean_indices.tolist()
    # Without the last column: other features, which find as much noise.
    callback.collect(np.arange(len(digits40.y)), torch.tensor(digits40.X[:, :-1]))
    selection = callback.end_epoch()
    assert selection.manifest.seen_labels
    assert sorted(sampler) == selection.clean_indices.tolist()
    assert list(sampler) != list(sampler)
    assert list(CleanSampler(callback, seed=3)) == list(CleanSampler(callback, seed=3))


def test_an_unhealthy_selection_is_not_used_unless_asked_for(digits40):
    noise = np.random.default_rng(0).random((len(digits40.y), 4))
    with pytest.warns(UserWarning, match="the samples in use stay"):
        guarded = SelectionCallback(digits40.y, noise, q=0.01)
    assert guarded.clean_mask.all()
    bare = SelectionCallback(digits40.y, noise, q=0.01, guard=False)
    assert bare.clean_mask.sum() < 100


@pytest.mark.parametrize(("control", "found"), [("people", "8"), ("exchangeable", "[34].")])
def test_a_network_that_has_learned_the_labels_by_heart_does_not_undo_the_selection(
    digits40, control, found
):
    """Features that tell the given labels, wrong ones too: every label would be kept."""
    callback = SelectionCallback(digits40.y, digits40.X, q=0.1, control=control)
    before = callback.clean_mask
    learned = torch.eye(10)[torch.tensor(digits40.y)] + 0.1 * torch.rand(len(digits40.y), 10)
    callback.collect(np.arange(len(digits40.y)), learned)
    with pytest.warns(UserWarning, match=rf"by heart: .* 0\.\d% .* {found}\.\d%"):
        selection = callback.end_epoch()
    assert np.array_equal(callback.clean_mask, before)
    assert selection is callback.selection
    assert not selection.manifest.seen_labels


def test_the_selection_is_the_networks_until_it_begins_to_learn_wrong_labels():
    """Classes that overlap, 40 % wrong labels, q = .1: of those kept, .165 were wrong in the end.

    The noise that such a network finds hardly falls meanwhile, from .40 to .36.
    """
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 2000)
    X = torch.from_numpy(rng.normal(size=(5, 40))[truth] / 2 + rng.normal(size=(2000, 40))).float()
    y = symmetric(truth, 0.4, seed=0)
    callback, label = SelectionCallback(y, X, q=0.1), torch.from_numpy(y)
    network = build_network("mlp", 5, in_shape=(40,), seed=0)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    said = []
    for epoch in range(5):
        network.train()
        sampler = CleanSampler(callback, seed=epoch)
        for rows in DataLoader(range(2000), 64, sampler=sampler, drop_last=True):
            optimizer.zero_grad()
            functional.cross_entropy(network(X[rows]).logits, label[rows]).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            callback.collect(np.arange(2000), network(X).features)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            callback.end_epoch()
        said.append(any("by heart" in str(warning.message) for warning in caught))
    assert (said[0], said[-1]) == (False, True)
    assert callback.selection.manifest.seen_labels
    assert (y != truth)[callback.clean_mask].mean() < 0.13


def test_a_network_that_knows_more_than_the_first_features_is_used(digits40, recwarn):
    """A few pixels tell classes badly; all of them, which have not seen a label, find more."""
    wrong = digits40.y != digits40.y_true
    callback = SelectionCallback(digits40.y, digits40.X[:, 20:32], q=0.1)
    before = wrong[callback.clean_mask].mean()
    callback.collect(np.arange(len(wrong)), torch.from_numpy(digits40.X))
    assert callback.end_epoch().manifest.seen_labels
    assert wrong[callback.clean_mask].mean() < before - 0.03
    assert not [said for said in recwarn if "by heart" in str(said.message)]


@pytest.mark.parametrize("rate", [0.0, 0.06])
def test_where_no_more_can_be_wrong_than_asked_nothing_is_taken_for_memorised(
    digits40, recwarn, rate
):
    """A tenth may be wrong: all labels may be kept, and learning them loses nothing."""
    y = symmetric(digits40.y_true, rate, seed=0) if rate else digits40.y_true
    callback = SelectionCallback(y, digits40.X, q=0.1)
    callback.collect(np.arange(len(y)), torch.eye(10)[torch.tensor(y)])
    assert callback.end_epoch().manifest.seen_labels
    assert not [said for said in recwarn if "by heart" in str(said.message)]


@pytest.fixture
def example(monkeypatch, request):
    monkeypatch.syspath_prepend(EXAMPLES)
    yield __import__(request.param)
    sys.modules.pop(request.param)


@pytest.mark.parametrize("example", ["plain_pytorch"], indirect=True)
def test_the_plain_example_runs(example):
    assert example.main(epochs=6) > 0.9


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("lightning_trainer", ("lightning",)),
        ("huggingface_trainer", ("transformers", "accelerate")),
    ],
)
def test_the_other_examples_run_where_their_packages_are(name, needs):
    for package in needs:
        pytest.importorskip(package)
    import runpy

    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert example["main"](epochs=6) > 0.85


def test_the_selection_of_a_loop_has_seen_the_labels_and_a_diverged_network_is_named():
    y = torch.arange(60) % 3
    callback = SelectionCallback(y, torch.eye(3)[y], q=0.2)
    callback.collect(torch.arange(60), torch.eye(3)[y])
    assert callback.end_epoch().manifest.seen_labels
    callback.collect(torch.arange(60), torch.full((60, 3), float("nan")))
    with pytest.raises(InputError, match=r"The network diverged: .* Lower its learning rate"):
        callback.end_epoch()
