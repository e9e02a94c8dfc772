"""Referees have not seen the labels that they judge; teachers make better soft labels."""

import numpy as np
import pytest
import torch

from kspr.train import TrainSettings
from kspr.train.distributed import Alone
from kspr.train.pipelines import pipeline_for
from kspr.train.referees import Parts, Unseen, ask_referees, random_parts, teach
from kspr.train.select_step import choose_by_referees
from kspr.train.task import make_task, network_for

ALONE = Alone(torch.device("cpu"))


@pytest.fixture(scope="module")
def settings():
    return TrainSettings.from_preset("cpu", epochs=6, batch_size=32, referee_parts=3)


def asked(X, y, part, settings, *, is_weak=False):
    task = make_task(X, y, settings)
    network = network_for(task, settings, None)
    pipeline = pipeline_for(task.inputs, settings)
    parts = Parts(task, part, pipeline, network, settings, ALONE, None, {})
    features = Unseen(task.inputs.take(torch.arange(len(X))), is_weak)
    found = ask_referees(parts, task, features, np.arange(len(X)), settings, ALONE)
    return task, parts, found


@pytest.mark.parametrize("is_weak", [True, False])
def test_no_label_has_a_part_in_its_own_judgement(digits40, settings, is_weak):
    """Other labels in a part change how the other parts are judged, and nothing in it."""
    X, y = digits40.X[:600], digits40.y[:600]
    bare = settings.changed(guard=False)  # held-out samples are drawn by label
    part = random_parts(torch.from_numpy(y), None, 3, 0)
    own = part == 1
    other = np.where(own.numpy(), np.roll(y, 7), y)
    found, changed = (asked(X, labels, part, bare, is_weak=is_weak)[2] for labels in (y, other))
    assert torch.equal(found[own], changed[own])
    assert not torch.equal(found[~own], changed[~own])


@pytest.mark.parametrize("is_weak", [True, False])
def test_referees_keep_the_error_rate_and_teachers_know_more(digits40, settings, is_weak):
    """1,200 digits, 40 % wrong labels: about 690 are kept, so three standard errors are 0.035."""
    X, y, truth = digits40.X[:1200], digits40.y[:1200], digits40.y_true[:1200]
    part = random_parts(torch.from_numpy(y), None, 3, 0)
    task, parts, chances = asked(X, y, part, settings, is_weak=is_weak)
    kept = choose_by_referees(settings, chances, task).selection.clean_mask
    assert (y != truth)[kept].mean() < 0.1 + 0.035
    assert kept[y == truth].mean() > 0.9
    features = Unseen(task.inputs.take(torch.arange(len(y))), is_weak)
    taught = teach(parts, task, chances, features, np.arange(len(y)), settings, ALONE)
    targets, transition = (part.numpy() for part in taught)
    assert transition.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert 0.45 < np.diag(transition).mean() < 0.75  # 0.6 of the labels are right
    assert targets.sum(axis=1) == pytest.approx(1, abs=1e-5)
    known = (targets.argmax(axis=1) == truth).mean()
    assert known > (chances.numpy().argmax(axis=1) == truth).mean()
    assert known > 0.9
