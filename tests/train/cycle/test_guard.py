"""The guard: nobody is worse off for having used the cycle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from kspr.train.cycle.guard import examine, is_behind, keeps_nearly_all
from kspr.train.cycle.metrics import Standing
from kspr.train.cycle.model_choice import Best, hand_over

import kspr
from kspr.train import fit


@pytest.fixture(scope="module")
def selection(digits40):
    return kspr.KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_


def emptied(selection, *labels):
    """The same selection, with nothing kept of some classes."""
    return replace(selection, clean_mask=selection.clean_mask & ~np.isin(selection.label, labels))


def test_a_healthy_selection_is_used_as_it_is(selection):
    health = examine(selection)
    assert np.array_equal(health.keep, selection.clean_mask)
    assert health.reasons == ()


def test_an_empty_class_gets_its_best_ranked_samples(selection):
    health = examine(emptied(selection, 3))
    of_three = selection.label == 3
    assert np.array_equal(health.keep[~of_three], selection.clean_mask[~of_three])
    share = health.keep[of_three].mean()
    assert 0.3 < share < 0.8
    worst_used = selection.selection_time[of_three & health.keep].max()
    assert worst_used <= selection.selection_time[of_three & ~health.keep].min()
    assert "1 classes kept hardly any labels (3)" in health.reasons[0]


def test_a_selection_that_starves_most_classes_is_not_used(selection):
    health = examine(emptied(selection, *range(6)))
    assert health.keep is None
    assert "the labels are used as they are" in health.reasons[0]
    assert examine(emptied(selection, *range(10))).keep is None


def test_behind_is_more_than_luck():
    generator = torch.Generator().manual_seed(0)
    own = torch.rand(1000, generator=generator) < 0.6
    better = own | (torch.rand(1000, generator=generator) < 0.1)
    assert is_behind(own, better)
    assert not is_behind(better, own)
    assert not is_behind(own, own)
    one_more = own.clone()
    one_more[int(torch.nonzero(~own)[0])] = True
    assert not is_behind(own, one_more)


def test_chance_alone_seldom_stops_the_cycle():
    """Two equal networks: at two standard errors, about 2.5 % of 400 draws; at most 6 %."""
    generator = torch.Generator().manual_seed(1)
    draws = torch.rand(400, 2, 500, generator=generator) < 0.5
    assert sum(is_behind(a, b) for a, b in draws) <= 24


def standing(share, n=1000):
    return Standing(torch.arange(n) < share * n, share)


def test_the_best_of_any_epoch_is_handed_over_if_it_is_clearly_better():
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    early = dict(zip(NAMES, map(standing, (0.5, 0.5, 0.7, 0.9)), strict=True))
    late = dict(zip(NAMES, map(standing, (0.6, 0.5, 0.4, 0.4)), strict=True))
    best = Best()
    best.consider(3, early, networks)
    best.consider(4, late, networks)
    found = hand_over(4, late, networks, best)
    assert (found.name, found.epoch, found.test_accuracy) == ("reference average", 3, 0.9)
    assert torch.equal(found.weights["weight"], networks["reference average"].weight)


def test_the_cycle_is_handed_over_unless_the_other_is_clearly_better():
    networks = {name: torch.nn.Linear(2, 2) for name in NAMES}
    close = dict(zip(NAMES, map(standing, (0.7, 0.69, 0.6, 0.7)), strict=True))
    # One more than the cycle, and right where the other is not in twenty more.
    ahead = (torch.arange(1000) >= 10) & (torch.arange(1000) < 711)
    close["reference average"] = Standing(ahead, 0.7)
    best = Best()
    best.consider(4, close, networks)
    assert hand_over(4, close, networks, best).name == "cycle weights"


NAMES = ("cycle weights", "cycle average", "reference weights", "reference average")


class Misled(kspr.KnockoffsSPR):
    """A selection that keeps wrong labels, and only those of a half."""

    def fit(self, X, y, *arguments, **given):
        super().fit(X, y, *arguments, **given)
        wrong = np.asarray(y) % 2 == self.selection_.suggested_label % 2
        self.selection_ = replace(
            self.selection_, clean_mask=~wrong | (np.arange(len(wrong)) % 7 == 0)
        )
        return self


def test_a_misleading_selection_does_not_make_the_user_worse_off(digits40, monkeypatch, quick):
    """Bare, the network learns what it is told; guarded, it stays close to plain training.

    Close: 120 samples are held out, which cannot tell differences of a few points.
    """
    monkeypatch.setattr("kspr.train.cycle.select_step.KnockoffsSPR", Misled)
    X, y, truth = digits40.X[:1200], digits40.y[:1200], digits40.y_true[:1200]
    test = digits40.X[1200:], digits40.y_true[1200:]
    long = quick.changed(epochs=8, held_out=0.1)
    bare = fit(X, y, settings=long.changed(guard=False), test=test)
    with pytest.warns(UserWarning, match="was behind the network"):
        guarded = fit(X, y, settings=long, truth=truth, test=test)
    last = guarded.history[-1]
    plain = max(last["reference_accuracy"], last["reference_accuracy_average"])
    assert bare.test_accuracy < plain - 0.2
    assert guarded.test_accuracy > plain - 0.06


def test_without_wrong_labels_the_guard_lets_go_and_the_cycle_is_plain_training(digits40, quick):
    X, y, test = (
        digits40.X[:1200],
        digits40.y_true[:1200],
        (digits40.X[1200:], digits40.y_true[1200:]),
    )
    guarded = quick.changed(epochs=4, warmup_epochs=0, select_every=2)
    plain = guarded.changed(guard=False, select_every=0, warmup_epochs=4)
    trained, other = (fit(X, y, settings=chosen, test=test) for chosen in (guarded, plain))
    assert trained.history[0]["kept"] == 1
    assert trained.held_out == {}
    assert trained.test_accuracy == other.test_accuracy
    assert_same_weights(trained.network, other.network)


def test_a_run_whose_guard_let_go_is_resumed_as_it_was(digits40, quick, tmp_path):
    X, y = digits40.X[:600], digits40.y_true[:600]
    chosen = quick.changed(epochs=3, warmup_epochs=0, select_every=1)
    whole = fit(X, y, settings=chosen)

    def stop(epoch):
        if epoch.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(X, y, settings=chosen, out=tmp_path / "run", on_epoch=stop)
    resumed = fit(X, y, settings=chosen, out=tmp_path / "run", resume=True)
    assert resumed.held_out == {}
    assert_same_weights(resumed.network, whole.network)


def assert_same_weights(first, second):
    for name, value in first.state_dict().items():
        torch.testing.assert_close(value, second.state_dict()[name], rtol=0, atol=0)


@pytest.mark.parametrize(("n_rejected", "lets_go"), [(0, True), (1, True), (2, False), (50, False)])
def test_the_guard_lets_go_where_nearly_every_label_is_kept(n_rejected, lets_go):
    keep = torch.ones(100, dtype=torch.bool)
    keep[:n_rejected] = False
    assert keeps_nearly_all(keep) == lets_go
    assert not keeps_nearly_all(None)


def test_the_bare_procedure_has_no_reference_and_holds_nothing_out(small, quick):
    trained = fit(small.X, small.y, settings=quick.changed(guard=False))
    assert trained.held_out == {}
    assert {line["reference_loss"] for line in trained.history} == {None}
    assert trained.handed_over == "cycle average"
