"""The cycle of Alg. 3, with and without its guard."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import kspr
from kspr.errors import InputError
from kspr.noise import symmetric
from kspr.train import fit
from kspr.train.cycle import Cycle
from kspr.train.guard import ModelChoice
from kspr.train.inputs import as_inputs
from kspr.train.policies import choose
from kspr.train.task import network_outputs
from kspr.train.world import World


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

    def misled(settings, _epoch):
        return Misled(random_state=settings.seed, progress=False, **settings.selection)

    monkeypatch.setattr("kspr.train.policies.make_selector", misled)
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


@pytest.mark.parametrize("select_on", ["network", "referees"])
def test_without_wrong_labels_the_guard_lets_go_and_the_cycle_is_plain_training(
    digits40, quick, select_on
):
    X, y, test = (
        digits40.X[:1200],
        digits40.y_true[:1200],
        (digits40.X[1200:], digits40.y_true[1200:]),
    )
    guarded = quick.changed(epochs=4, warmup_epochs=0, select_on=select_on, select_every=2)
    plain = guarded.changed(guard=False, select_every=0, warmup_epochs=4)
    trained, other = (fit(X, y, settings=chosen, test=test) for chosen in (guarded, plain))
    assert trained.history[0]["kept"] == 1
    assert trained.held_out == {}
    assert trained.test_accuracy == other.test_accuracy
    assert_same_weights(trained.network, other.network)


def test_without_wrong_labels_referees_are_not_asked(digits40, refereed, monkeypatch):
    """Without the guard too: there is nothing to judge."""
    monkeypatch.setattr("kspr.train.policies.ask_referees", None)
    trained = fit(digits40.X[:600], digits40.y_true[:600], settings=refereed.changed(guard=False))
    assert trained.history[-1]["kept"] == 1


def test_referees_that_find_no_wrong_label_end_the_guard_too(digits40, refereed):
    """With a warm-up there is no selection before theirs."""
    chosen = refereed.changed(epochs=3, warmup_epochs=1)
    trained = fit(digits40.X[:1200], digits40.y_true[:1200], settings=chosen)
    plain = chosen.changed(guard=False, select_every=0, warmup_epochs=3)
    other = fit(digits40.X[:1200], digits40.y_true[:1200], settings=plain)
    assert trained.history[0]["kept"] == 1
    assert trained.held_out == {}
    assert_same_weights(trained.network, other.network)


def test_labels_that_may_all_be_kept_at_q_are_still_not_all_right(digits40, refereed):
    """8 % are wrong and a tenth is allowed: plain training would keep them all, and learn them."""
    truth = digits40.y_true[:1200]
    y = symmetric(truth, 0.08, seed=0)
    chosen = refereed.changed(selection={"q": 0.1}, epochs=6)
    trained = fit(digits40.X[:1200], y, settings=chosen)
    assert trained.clean_mask.mean() > 0.97
    assert trained.held_out != {}  # the guard goes on
    assert (trained.predict(digits40.X[:1200]) == truth).mean() > 0.95


def test_where_nothing_can_be_kept_the_soft_labels_are_trained_on(digits40, refereed):
    """At this error rate no label is kept; plain training would learn four of ten wrong labels."""
    X, y, truth = digits40.X[:1200], digits40.y[:1200], digits40.y_true[:1200]
    chosen = refereed.changed(selection={"q": 1e-5}, epochs=6)
    with pytest.warns(UserWarning, match="all soft labels are used"):
        trained = fit(X, y, settings=chosen)
    assert trained.clean_mask.sum() == 0
    assert (trained.predict(X) == truth).mean() > 0.9


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


def test_the_bare_procedure_has_no_reference_and_holds_nothing_out(small, quick):
    trained = fit(small.X, small.y, settings=quick.changed(guard=False))
    assert trained.held_out == {}
    assert {line["reference_loss"] for line in trained.history} == {None}
    assert trained.model_choice == "cycle average"


def test_once_selected_keeps_its_first_selection(small, quick):
    trained = fit(small.X, small.y, settings=quick.changed(select_every=0, warmup_epochs=0))
    assert {line["select_seconds"] > 0 for line in trained.history[1:]} == {False}
    assert len({line["kept"] for line in trained.history}) == 1


def test_an_empty_selection_is_replaced_by_the_labels_as_they_are(small, quick):
    noise = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    for guard in (True, False):
        settings = quick.changed(guard=guard, selection={"q": 0.001})
        with pytest.warns(UserWarning, match="all given labels are used"):
            trained = fit(noise, small.y, settings=settings)
        assert trained.history[-1]["used"] == 1.0


@pytest.mark.parametrize("name", ["reference average", "cycle average"])
def test_the_selection_belongs_to_the_network_that_is_handed_over(small, quick, monkeypatch, name):
    """Also where that is the plain network, or one of an earlier epoch."""
    earlier = {}

    def chosen(epoch, found, networks, best):
        weights = earlier if name == "cycle average" else networks[name].module.state_dict()
        return ModelChoice(weights, name, 2 if name == "cycle average" else epoch, {}, None)

    def keep(cycle):
        epoch = train(cycle)
        if epoch.epoch == 2:
            state = cycle.learner.average.module.state_dict()
            earlier.update({key: value.clone() for key, value in state.items()})
        return epoch

    train = Cycle.train
    monkeypatch.setattr(Cycle, "train", keep)
    monkeypatch.setattr("kspr.train.cycle.choose_model", chosen)
    trained = fit(small.X, small.y, settings=quick)
    inputs = as_inputs(small.X, "embeddings")
    outputs = network_outputs(trained.network, inputs, trained.pipeline, World(torch.device("cpu")))
    own = choose(quick, outputs.features, small.y, outputs.logits, None, quick.epochs).selection
    assert np.array_equal(trained.selection.doubt, own.doubt)
    assert np.array_equal(trained.clean_mask, own.clean_mask)


def test_a_network_that_diverges_is_named_with_what_to_try(small, quick):
    with pytest.raises(InputError, match=r"The network diverged: .* learning_rate \(1e\+08"):
        fit(small.X, small.y, settings=quick.changed(learning_rate=1e9))
