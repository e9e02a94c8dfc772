"""The training problem: labels, held-out samples, test set."""

import numpy as np
import pytest
import torch

from kspr.errors import InputError
from kspr.train import fit
from kspr.train.task import make_task, network_for, signature_of, steps_per_epoch


def test_a_test_set_with_another_class_is_named(small, quick):
    with pytest.raises(InputError, match=r"The test set must use the classes .* got 77 in row 0"):
        fit(small.X, small.y, settings=quick, test=(small.X[:1], [77]))


def test_a_class_without_a_sample_is_known_and_never_trained(small, quick):
    trained = fit(small.X, small.y, settings=quick, classes=range(12))
    assert trained.predict_proba(small.X).shape == (300, 12)
    assert set(trained.predict(small.X)) <= set(range(10))


def test_labels_may_be_text(small, quick):
    names = np.array([f"digit {k}" for k in range(10)])
    trained = fit(small.X, names[small.y], settings=quick, test=(small.X, names[small.y_true]))
    assert set(trained.predict(small.X)) <= set(names)
    assert trained.test_accuracy > 0.5


def test_an_epoch_has_a_step_even_with_few_samples():
    assert steps_per_epoch(5, 128) == 1
    assert steps_per_epoch(1000, 128) == 7


def task(small, quick, **given):
    return make_task(small.X, small.y, quick, **given)


def test_held_out_samples_are_a_tenth_of_small_data_and_of_each_class(small, quick):
    made = task(small, quick)
    sizes = torch.bincount(made.label)
    held = torch.bincount(made.label[made.held_out], minlength=10)
    assert ((held - 0.1 * sizes).abs() <= 0.5).all()
    assert not task(small, quick.changed(guard=False)).held_out.any()


def test_held_out_samples_depend_on_the_seed_alone(small, quick):
    first, again, other = (task(small, quick.changed(seed=s)).held_out for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_labels_are_codes_of_classes_and_come_back(small, quick):
    names = np.array([f"digit {k}" for k in range(10)])[small.y]
    made = make_task(small.X, names, quick, truth=names)
    assert made.label.tolist() == small.y.tolist()
    assert made.given.tolist() == names.tolist()
    assert made.truly_clean.all()


@pytest.mark.parametrize(
    ("changes", "differs"),
    [({}, set()), ({"device": "cpu", "strict": True}, set()), ({"seed": 3}, {"seed"})],
)
def test_a_signature_names_what_changes_the_numbers(small, quick, changes, differs):
    made = task(small, quick)
    network = network_for(quick, made.n_classes, made.inputs.shape)
    first = signature_of(made, quick, network)
    other = signature_of(made, quick.changed(**changes), network)
    assert {name for name in first if first[name] != other[name]} == differs


def test_a_signature_names_the_content_and_the_number_of_processes(small, quick):
    made, other = task(small, quick), make_task(small.X + 1, small.y, quick)
    network = network_for(quick, made.n_classes, made.inputs.shape)
    first = signature_of(made, quick, network)
    for found, name in (
        (signature_of(other, quick, network), "content of X"),
        (signature_of(made, quick, network, 2), "number of processes"),
    ):
        assert {key for key in first if first[key] != found[key]} == {name}
