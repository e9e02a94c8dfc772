"""What a rule is given."""

import torch
from torch.nn import functional

from kspr.experiments.baselines.method import Method
from tests.experiments.baselines.rules import small_run


def test_a_run_knows_its_place_in_stages():
    run, _ = small_run(epochs=4)
    places = []
    for epoch in range(9):
        run.epoch = epoch
        places.append((run.stage, run.epoch_of_stage, run.progress, run.stage_is_done))
    assert places[:2] == [(0, 0, 0.0, False), (0, 1, 0.25, False)]
    assert places[4] == (1, 0, 0.0, True)
    assert places[7] == (1, 3, 0.75, False)
    assert [k for k, place in enumerate(places) if place[-1]] == [4, 8]


def test_a_rule_that_changes_nothing_is_plain_training():
    run, batch = small_run(n_learners=2)
    expected = [functional.cross_entropy(own, batch.label) for own in run.logits(batch)]
    for found, own in zip(Method().losses(run, batch), expected, strict=True):
        torch.testing.assert_close(found, own)


def test_what_networks_say_of_rows_has_no_gradient():
    run, _ = small_run()
    assert not run.probabilities().requires_grad
    torch.testing.assert_close(run.probabilities().sum(dim=1), torch.ones(24))
    expected = -run.probabilities()[torch.arange(24), run.task.label].log()
    torch.testing.assert_close(run.row_losses(), expected)


def test_outputs_in_training_are_those_of_the_learner():
    run, batch = small_run()
    found = run.training_outputs(batch)
    assert found.logits.requires_grad
    assert found.features.shape == (24, 512)
    torch.testing.assert_close(found.logits, run.logits(batch)[0])


def test_labels_are_rows_with_a_one():
    run, _ = small_run()
    assert run.one_hot.sum() == 24
    assert torch.equal(run.one_hot.argmax(dim=1), run.task.label)
