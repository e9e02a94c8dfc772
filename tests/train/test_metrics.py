"""Outputs of a network for all rows, and the metrics of an epoch."""

import math

import numpy as np
import pytest
import torch

from kspr.models.build import build_network
from kspr.train.inputs import Vectors, pipeline_for
from kspr.train.settings import TrainSettings
from kspr.train.task import (
    Epoch,
    accuracy,
    make_task,
    network_outputs,
    performance_of,
    quality_of,
)
from kspr.train.world import World

WORLD = World(torch.device("cpu"))
EPOCH = Epoch(
    epoch=2,
    loss=1.23456789,
    reference_loss=None,
    rate=0.1,
    accuracy=None,
    accuracy_average=None,
    reference_accuracy=None,
    reference_accuracy_average=None,
    held_out=0.5,
    reference_held_out=None,
    kept=0.6,
    used=1.0,
    q_reached=math.nan,
    q_spread=None,
    quality=None,
    notes=("a note",),
    seconds=4.0,
    select_seconds=1.0,
)


def test_outputs_do_not_depend_on_batches_and_follow_the_rows():
    rows = torch.rand(2500, 4, generator=torch.Generator().manual_seed(0))
    inputs, network = Vectors(rows), build_network("mlp", 3, in_shape=(4,))
    pipeline = pipeline_for(inputs, TrainSettings())
    whole = network_outputs(network, inputs, pipeline, WORLD)
    some = network_outputs(network, inputs, pipeline, WORLD, torch.tensor([2400, 7]))
    assert whole.features.shape == (2500, 512)
    torch.testing.assert_close(some.logits, whole.logits[[2400, 7]])
    assert network.training  # its mode came back


def test_accuracy_is_the_share_of_largest_scores_at_the_label():
    scores = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0], [1.0, 0.0]])
    assert accuracy(scores, torch.tensor([0, 1, 0, 0])) == 0.75
    assert math.isnan(accuracy(scores[:0], torch.tensor([], dtype=torch.long)))


def test_performance_is_measured_on_held_out_rows_and_on_the_test_set(small, quick):
    test = (small.X, small.y_true)
    task = make_task(small.X, small.y, quick, test=test)
    network = build_network("mlp", 10, in_shape=(64,))
    found = performance_of(network, task, pipeline_for(task.inputs, quick), WORLD)
    assert len(found.right) == int(task.held_out.sum())
    assert found.held_out == pytest.approx(float(found.right.double().mean()))
    assert 0 <= found.test_accuracy <= 1
    assert torch.equal(found.worth, found.right.float())
    twice = performance_of(
        network, task, pipeline_for(task.inputs, quick), WORLD, 2 * torch.eye(10) - 1
    )
    assert torch.equal(twice.worth, 2 * found.right.float() - 1)
    assert twice.held_out == found.held_out
    bare = make_task(small.X, small.y, quick.changed(guard=False))
    none = performance_of(network, bare, pipeline_for(bare.inputs, quick), WORLD)
    assert none.test_accuracy is None
    assert math.isnan(none.held_out)


def test_an_epoch_is_flat_rounded_and_free_of_nan_in_json():
    flat = EPOCH.as_dict()
    assert flat["loss"] == 1.23457
    assert flat["q_reached"] is None
    assert {flat[name] for name in ("fsr", "recall", "f1")} == {None}
    assert (flat["select_share"], flat["notes"]) == (0.25, ["a note"])


def test_quality_needs_a_selection_and_the_truth():
    mask, clean = torch.tensor([True, True, False]), np.array([True, False, True])
    assert quality_of(None, clean) is None
    assert quality_of(mask, None) is None
    assert quality_of(mask, clean).fsr == 0.5
