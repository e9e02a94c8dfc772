"""Networks that are trained on all parts but one and predict that one."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from kspr.errors import InputError
from kspr.train import fit
from kspr.train import referees as module
from kspr.train.distributed import Alone
from kspr.train.pipelines import pipeline_for
from kspr.train.referees import Parts, random_parts
from kspr.train.task import make_task, network_for


def parted(small, settings):
    task = make_task(small.X, small.y, settings)
    part = random_parts(task.label, None, settings.referee_parts, settings.seed)
    network = network_for(task, settings, None)
    pipeline, world = pipeline_for(task.inputs, settings), Alone(torch.device("cpu"))
    return task, part, Parts(task, part, pipeline, network, settings, world, None, {})


def sure(task, n):
    return [functional.one_hot(task.label, task.n_classes).float()] * n


def test_parts_share_every_class():
    label = torch.tensor([0] * 10 + [1] * 7 + [2] * 2)
    part = random_parts(label, None, 3, seed=0)
    for code, size in enumerate((10, 7, 2)):
        counts = torch.bincount(part[label == code], minlength=3)
        assert int(counts.max() - counts.min()) <= 1
        assert int(counts.sum()) == size
    assert not torch.equal(part, random_parts(label, None, 3, seed=1))


def test_copies_are_in_the_same_part():
    label = torch.arange(40) % 2
    copies = np.where(np.arange(40) < 12, np.arange(40) // 3, -1)
    for seed in range(5):
        part = random_parts(label, copies, 4, seed).numpy()
        assert {len(set(part[copies == k])) for k in range(4)} == {1}
        assert set(part) == {0, 1, 2, 3}


@pytest.mark.parametrize("n", [2, 3])
def test_a_row_is_predicted_without_the_labels_of_its_part(small, refereed, n):
    """Nor by those of held-out samples, which train no network."""
    task, part, parts = parted(small, refereed.changed(referee_parts=n))
    targets = sure(task, n)
    found = parts.predict_across(targets, "referee")
    own = part == 1
    changed = targets[0].clone()
    changed[own | task.held_out] = changed[own | task.held_out].roll(1, dims=1)
    other = parts.predict_across([changed] * n, "referee")
    assert torch.equal(found[own], other[own])
    assert not torch.equal(found[~own], other[~own])
    torch.testing.assert_close(found.sum(dim=1), torch.ones(len(found)))


def test_the_initial_weights_are_left_alone_and_teachers_are_no_referees(small, refereed):
    task, _, parts = parted(small, refereed)
    before = [value.clone() for value in parts._network.state_dict().values()]
    targets = sure(task, refereed.referee_parts)
    found = [parts.predict_across(targets, name) for name in ("referee", "teacher")]
    assert all(
        torch.equal(a, b) for a, b in zip(before, parts._network.state_dict().values(), strict=True)
    )
    assert not torch.equal(*found)


@pytest.mark.parametrize("stop", [1, 4])
def test_an_interrupted_run_goes_on_to_the_same_network(
    small, refereed, tmp_path, monkeypatch, stop
):
    """The first checkpoint is of the referees, the fourth of the teachers."""
    settings = refereed.changed(epochs=3)
    whole = fit(small.X, small.y, settings=settings)
    written = 0

    def interrupted(folder, epoch, content):
        nonlocal written
        write(folder, epoch, content)
        written += 1
        if written == stop:
            raise KeyboardInterrupt

    write = module.write_checkpoint
    monkeypatch.setattr(module, "write_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(small.X, small.y, settings=settings, out=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "teachers").exists() == (stop == 4)
    resumed = fit(small.X, small.y, settings=settings, out=tmp_path / "run", resume=True)
    for name, value in resumed.network.state_dict().items():
        assert torch.equal(value, whole.network.state_dict()[name])
    assert np.array_equal(resumed.selection.clean_mask, whole.selection.clean_mask)


def test_a_run_with_other_parts_is_not_continued(small, refereed, tmp_path):
    settings = refereed.changed(epochs=1)
    fit(small.X, small.y, settings=settings, out=tmp_path / "run")
    with pytest.raises(InputError, match="its referee_parts is '3', not '2'"):
        fit(
            small.X,
            small.y,
            settings=settings.changed(referee_parts=2),
            out=tmp_path / "run",
            resume=True,
        )


def test_too_few_rows_for_the_parts_are_named(small, refereed):
    settings = refereed.changed(batch_size=2, referee_parts=5)
    task = make_task(small.X[:4], np.arange(4) % 2, settings.changed(guard=False))
    part = random_parts(task.label, None, 5, 0)
    network = network_for(task, settings, None)
    pipeline, world = pipeline_for(task.inputs, settings), Alone(torch.device("cpu"))
    with pytest.raises(InputError, match="too few samples for referee_parts=5"):
        Parts(task, part, pipeline, network, settings, world, None, {})
