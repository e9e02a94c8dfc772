"""An epoch on soft labels."""

import numpy as np
import torch
from torch.nn import functional

from kspr.train import TrainSettings
from kspr.train.distributed import Alone
from kspr.train.learner import Learner, Pools, train_epoch
from kspr.train.pipelines import pipeline_for
from kspr.train.soft_epoch import train_soft_epoch
from kspr.train.task import make_task, network_for
from tests.train.digits import digit_images

ALONE = Alone(torch.device("cpu"))


def started(small, settings):
    task = make_task(small.X, small.y, settings)
    network = network_for(task, settings, None)
    return task, Learner(network, settings, 40, ALONE), pipeline_for(task.inputs, settings)


def test_sure_labels_that_are_not_mixed_are_the_epoch_on_given_labels(small, quick):
    settings, place = quick.changed(mix_probability=0.0), (0, 0)
    task, plain, pipeline = started(small, settings)
    rows = torch.nonzero(~task.held_out)[:, 0]
    expected = train_epoch(plain, task, Pools(rows, rows[:0]), pipeline, settings, ALONE, place)
    task, soft, pipeline = started(small, settings)
    sure = functional.one_hot(task.label, task.n_classes).float()
    found = train_soft_epoch(
        soft, task, rows, sure, pipeline, settings, ALONE, place, n=len(task.label)
    )
    assert np.isclose(found, expected, rtol=1e-4)
    for one, other in zip(soft.network.parameters(), plain.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_soft_labels_of_other_rows_are_never_read(small, quick):
    task, _, pipeline = started(small, quick)
    rows = torch.arange(0, len(task.label), 2)
    losses = []
    for others in (0.0, float("nan")):
        targets = functional.one_hot(task.label, task.n_classes).float()
        targets[1::2] = others
        _, learner, _ = started(small, quick)
        losses.append(
            train_soft_epoch(learner, task, rows, targets, pipeline, quick, ALONE, (0, 0))
        )
    assert losses[0] == losses[1]


def test_images_learn_soft_labels_too():
    X, y = digit_images(64)
    settings = TrainSettings.from_preset(
        "cifar10", network="resnet_small", batch_size=16, padding=1
    )
    task = make_task(X, y, settings)
    learner = Learner(network_for(task, settings, None), settings, 12, ALONE)
    pipeline, rows = pipeline_for(task.inputs, settings), torch.arange(64)
    soft = torch.full((64, 10), 0.01) + 0.9 * functional.one_hot(task.label, 10)
    losses = [
        train_soft_epoch(learner, task, rows, soft, pipeline, settings, ALONE, (0, epoch))
        for epoch in range(3)
    ]
    assert losses[2] < losses[0]
