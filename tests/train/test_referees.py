"""Referees have not seen the labels that they judge; teachers make better soft labels."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from kspr.errors import InputError
from kspr.train import TrainSettings, fit, referees
from kspr.train.policies import choose_by_referees
from kspr.train.referees import Parts, Unseen, ask_referees, random_parts, teach
from kspr.train.run_folder import Checkpoints
from tests.train.digits import network_of, setup_of


@pytest.fixture(scope="module")
def settings():
    return TrainSettings.from_preset("cpu", epochs=6, batch_size=32, referee_parts=3)


def asked(X, y, part, settings, *, is_weak=False):
    setup = setup_of(X, y, settings)
    parts = Parts(setup, part, network_of(setup), Checkpoints(None, {}))
    features = Unseen(setup.task.inputs.take(torch.arange(len(X))), is_weak)
    return parts, features, ask_referees(parts, features, np.arange(len(X)))


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
    parts, features, chances = asked(X, y, part, settings, is_weak=is_weak)
    kept = choose_by_referees(settings, chances, parts.setup.task).selection.clean_mask
    assert (y != truth)[kept].mean() < 0.1 + 0.035
    assert kept[y == truth].mean() > 0.9
    taught = teach(parts, chances, features, np.arange(len(y)))
    targets, transition = (part.numpy() for part in taught)
    assert transition.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert 0.45 < np.diag(transition).mean() < 0.75  # 0.6 of the labels are right
    assert targets.sum(axis=1) == pytest.approx(1, abs=1e-5)
    known = (targets.argmax(axis=1) == truth).mean()
    assert known > (chances.numpy().argmax(axis=1) == truth).mean()
    assert known > 0.9


def parted(small, settings):
    setup = setup_of(small.X, small.y, settings)
    task = setup.task
    part = random_parts(task.label, None, settings.referee_parts, settings.seed)
    return task, part, Parts(setup, part, network_of(setup), Checkpoints(None, {}))


def sure(task, n):
    return [functional.one_hot(task.label, task.n_classes).float()] * n


@pytest.mark.parametrize("is_weak", [True, False])
def test_only_features_that_know_enough_are_read_by_the_selector(
    digits40, settings, is_weak, monkeypatch
):
    """Weak ones go to a linear model, before referees and before teachers."""
    used = []
    for name in ("held_out_values", "linear_soft_labels", "linear_probabilities"):
        plain = getattr(referees, name)
        spy = lambda *given, plain=plain, name=name: used.append(name) or plain(*given)  # noqa: E731
        monkeypatch.setattr(referees, name, spy)
    X, y = digits40.X[:300], digits40.y[:300]
    part = random_parts(torch.from_numpy(y), None, 3, 0)
    brief = settings.changed(epochs=1)
    parts, features, chances = asked(X, y, part, brief, is_weak=is_weak)
    assert used == (["linear_soft_labels"] if is_weak else ["held_out_values"]) * 3
    teach(parts, chances, features, np.arange(300))
    assert used[3:] == (["linear_soft_labels"] if is_weak else ["linear_probabilities"])


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

    def interrupted(checkpoints, epoch, content):
        nonlocal written
        write(checkpoints, epoch, content)
        written += 1
        if written == stop:
            raise KeyboardInterrupt

    write = Checkpoints.write
    monkeypatch.setattr(Checkpoints, "write", interrupted)
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
    setup = setup_of(small.X[:4], np.arange(4) % 2, settings.changed(guard=False))
    part = random_parts(setup.task.label, None, 5, 0)
    with pytest.raises(InputError, match="too few samples for referee_parts=5"):
        Parts(setup, part, network_of(setup), Checkpoints(None, {}))
