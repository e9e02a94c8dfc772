"""Networks that are trained on one half and predict the other."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from kspr.errors import InputError
from kspr.train import fit
from kspr.train.cycle import halves as module
from kspr.train.cycle.halves import Halves, second_half
from kspr.train.cycle.task import make_task, network_for
from kspr.train.distributed import Alone
from kspr.train.pipelines import pipeline_for


def halved(small, settings, folder=None):
    task = make_task(small.X, small.y, settings)
    second = second_half(task.label, None, settings.seed)
    network = network_for(task, settings, None)
    pipeline, world = pipeline_for(task.inputs, settings), Alone(torch.device("cpu"))
    return task, second, Halves(task, second, pipeline, network, settings, world, folder, {})


def sure(task):
    return functional.one_hot(task.label, task.n_classes).float()


def test_halves_share_every_class():
    label = torch.tensor([0] * 10 + [1] * 7 + [2] * 2)
    mask = second_half(label, None, seed=0)
    assert torch.bincount(label[mask], minlength=3).tolist() == [5, 3, 1]
    assert not torch.equal(mask, second_half(label, None, seed=1))


def test_copies_are_in_the_same_half():
    label = torch.arange(40) % 2
    copies = np.where(np.arange(40) < 12, np.arange(40) // 3, -1)
    for seed in range(5):
        mask = second_half(label, copies, seed).numpy()
        assert {len(set(mask[copies == k])) for k in range(4)} == {1}
        assert 8 <= mask.sum() <= 32


def test_a_row_is_predicted_without_the_labels_of_its_half(small, refereed):
    """Nor by those of held-out samples, which train no network."""
    task, second, halves = halved(small, refereed)
    targets = sure(task)
    found = halves.predict_across(targets, "referee")
    changed = targets.roll(1, dims=1)
    changed[~second & ~task.held_out] = targets[~second & ~task.held_out]
    other = halves.predict_across(changed, "referee")
    assert torch.equal(found[second], other[second])
    assert not torch.equal(found[~second], other[~second])
    torch.testing.assert_close(found.sum(dim=1), torch.ones(len(found)))


def test_the_initial_weights_are_left_alone_and_pairs_differ(small, refereed):
    task, _, halves = halved(small, refereed)
    before = [value.clone() for value in halves._network.state_dict().values()]
    found = [halves.predict_across(sure(task), name) for name in ("referee", "teacher")]
    assert all(
        torch.equal(a, b)
        for a, b in zip(before, halves._network.state_dict().values(), strict=True)
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


def test_too_few_rows_for_two_networks_are_named(small, refereed):
    settings = refereed.changed(batch_size=2)
    task = make_task(small.X[:6], np.arange(6) % 2, settings.changed(guard=False))
    second = torch.tensor([True, False, False, False, False, False])
    network = network_for(task, settings, None)
    pipeline, world = pipeline_for(task.inputs, settings), Alone(torch.device("cpu"))
    with pytest.raises(InputError, match="too few samples to train two networks on halves"):
        Halves(task, second, pipeline, network, settings, world, None, {})
