"""Losses against their formulas, and rules by small losses against loops over rows."""

from math import exp, log

import numpy as np
import pytest
import torch
from torch.nn import functional

from kspr.experiments.baselines.losses import (
    GCE,
    SL,
    Bootstrap,
    CoTeaching,
    CoTeachingPlus,
    Decoupling,
    Forgetting,
    Forward,
    MentorNet,
    bootstrapped,
    corrected,
    disputed,
    exchanged,
    generalised,
    keep_share,
    mean_over,
    smallest,
    symmetric_cross_entropy,
    transition_by_anchors,
)
from kspr.models.network import wrap_network
from tests.experiments.baselines.rules import random_logits, small_run


def probabilities(row):
    total = sum(exp(v) for v in row)
    return [exp(v) / total for v in row]


def rows():
    logits, label = random_logits()
    return [(probabilities(row), int(y)) for row, y in zip(logits.tolist(), label, strict=True)]


def same(found, expected):
    np.testing.assert_allclose(found.tolist(), expected, rtol=1e-9)


def test_gce_is_the_authors_formula_and_cross_entropy_in_the_limit():
    logits, label = random_logits()
    same(generalised(logits, label, 0.7), [(1 - p[y] ** 0.7) / 0.7 for p, y in rows()])
    limit = generalised(logits, label, 1e-7)
    np.testing.assert_allclose(limit, [-log(p[y]) for p, y in rows()], rtol=1e-4)


def test_symmetric_cross_entropy_adds_the_reverse_with_minus_four_for_the_logarithm_of_zero():
    logits, label = random_logits()
    expected = []
    for p, y in rows():
        reverse = -sum(p[k] * (0.0 if k == y else -4.0) for k in range(len(p)))
        expected.append(0.1 * -log(p[y]) + 1.0 * reverse)
    same(symmetric_cross_entropy(logits, label, 0.1, 1.0), expected)


@pytest.mark.parametrize(("hard", "share"), [(True, 0.8), (False, 0.95)])
def test_bootstrap_mixes_label_and_prediction_in_the_target(hard, share):
    logits, label = random_logits()
    expected = []
    for p, y in rows():
        best = max(range(len(p)), key=p.__getitem__)
        own = [float(k == best) if hard else p[k] for k in range(len(p))]
        target = [share * (k == y) + (1 - share) * own[k] for k in range(len(p))]
        expected.append(-sum(t * log(q) for t, q in zip(target, p, strict=True)))
    same(bootstrapped(logits, label, share, hard=hard), expected)


def test_the_corrected_loss_sees_predictions_through_the_transition_matrix():
    logits, label = random_logits(n_classes=3)
    transition = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]]).double()
    expected = []
    for row, y in zip(logits.tolist(), label.tolist(), strict=True):
        p = probabilities(row)
        expected.append(-log(sum(p[k] * float(transition[k, y]) for k in range(3))))
    same(corrected(logits, label, transition), expected)


def test_anchors_read_the_transition_matrix_off_their_predictions():
    true = np.repeat(np.arange(3), 50)
    transition = torch.tensor([[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.3, 0.7]])
    found = transition_by_anchors(transition[torch.from_numpy(true)], 0.97)
    torch.testing.assert_close(found, transition)


def test_with_many_classes_the_anchor_is_the_surest_row():
    """Of 60 classes each has less than 3 % of the rows: that percentile is a row of another."""
    run, _ = small_run(n=240, n_classes=60, epochs=2)
    true = torch.arange(240) % 60
    transition = 0.7 * torch.eye(60) + 0.3 * torch.eye(60).roll(1, 0)
    run.probabilities = lambda: transition[true]
    run.epoch = 2
    Forward().after_epoch(run)
    torch.testing.assert_close(run.memory["transition"], transition)


def test_forward_estimates_after_its_first_stage_and_uses_it_in_the_second():
    run, batch = small_run(epochs=2)
    method = Forward()
    assert torch.equal(method.losses(run, batch)[0], super(Forward, method).losses(run, batch)[0])
    run.epoch = 1
    method.after_epoch(run)
    assert "transition" not in run.memory
    run.epoch = 2
    method.after_epoch(run)
    assert run.memory["transition"].shape == (4, 4)
    assert not torch.equal(
        method.losses(run, batch)[0], super(Forward, method).losses(run, batch)[0]
    )


def test_constants_follow_the_number_of_classes():
    few, _ = small_run()
    assert few.few_or_many("few", "many") == "few"
    many, _ = small_run(n=102, n_classes=51)
    assert many.few_or_many("few", "many") == "many"


@pytest.mark.parametrize("method", [GCE(), SL(), Bootstrap(), Forgetting()])
def test_every_loss_is_one_number_with_a_gradient(method):
    run, batch = small_run()
    (loss,) = method.losses(run, batch)
    assert loss.shape == ()
    assert loss.requires_grad


def test_dropout_needs_a_classifier_on_the_features():
    from kspr.errors import InputError
    from kspr.experiments.baselines.method import classifier_of

    own = wrap_network(torch.nn.Sequential(torch.nn.Linear(6, 4)), 4, in_shape=(6,))
    with pytest.raises(InputError, match="needs a network of kspr"):
        classifier_of(own)


def losses_of(run, batch):
    return [
        functional.cross_entropy(learner.logits(batch.view), batch.label, reduction="none")
        for learner in run.learners
    ]


def literal_exchange(first, second, n):
    """Return both losses, each over the rows that are smallest for the other."""
    found = []
    for own, other in ((first, second), (second, first)):
        order = sorted(range(len(other)), key=lambda row: other[row].item())[:n]
        found.append(sum(own[row].item() for row in order) / max(len(order), 1))
    return found


def test_the_smallest_losses_are_marked_and_of_equal_ones_the_first():
    mask = smallest(torch.tensor([3.0, 1.0, 2.0, 1.0]), 2)
    assert mask.tolist() == [False, True, False, True]
    assert smallest(torch.tensor([1.0, 1.0]), 1).tolist() == [True, False]


def test_no_row_gives_a_loss_of_zero_that_can_be_stepped_on():
    losses = torch.ones(3, requires_grad=True)
    loss = mean_over(losses, torch.zeros(3, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert losses.grad.tolist() == [0, 0, 0]


def test_the_kept_share_falls_by_the_noise_rate():
    assert [keep_share(epoch, 0.4, 2.0) for epoch in range(4)] == [1.0, 0.8, 0.6, 0.6]


def test_networks_dispute_the_rows_that_they_predict_differently():
    first, second = random_logits()[0], random_logits(seed=1)[0]
    expected = [max(range(5), key=a.__getitem__) != max(range(5), key=b.__getitem__)
                for a, b in zip(first.tolist(), second.tolist(), strict=True)]  # fmt: skip
    assert disputed([first, second]).tolist() == expected


def test_each_network_learns_from_what_the_other_finds_easy():
    first, second = random_logits()[0][:, 0].exp(), random_logits(seed=1)[0][:, 0].exp()
    found = [loss.item() for loss in exchanged([first, second], 5)]
    assert found == pytest.approx(literal_exchange(first, second, 5))


def test_co_teaching_keeps_all_rows_first_and_then_one_minus_the_noise_rate():
    run, batch = small_run(n_learners=2, epochs=200, noise_rate=0.25)
    for epoch, n in ((0, 24), (5, 21), (10, 18), (100, 18)):
        run.epoch = epoch
        found = [loss.item() for loss in CoTeaching().losses(run, batch)]
        assert found == pytest.approx(literal_exchange(*losses_of(run, batch), n), rel=1e-5)


def test_co_teaching_plus_chooses_among_disputed_rows_after_its_beginning():
    run, batch = small_run(n_learners=2, epochs=10, noise_rate=0.25)
    plain = [loss.item() for loss in CoTeaching().losses(run, batch)]
    assert [loss.item() for loss in CoTeachingPlus().losses(run, batch)] == pytest.approx(plain)
    run.epoch = 5
    first, second = (learner.logits(batch.view) for learner in run.learners)
    rows = [k for k in range(24) if int(first[k].argmax()) != int(second[k].argmax())]
    own = [loss[rows] for loss in losses_of(run, batch)]
    expected = literal_exchange(*own, max(int(0.75 * len(rows)), 1))
    found = [loss.item() for loss in CoTeachingPlus().losses(run, batch)]
    assert found == pytest.approx(expected, rel=1e-5)


def test_networks_that_agree_on_everything_do_not_learn():
    run, batch = small_run(n_learners=2, noise_rate=0.2)
    run.learners[1] = run.learners[0]
    assert [loss.item() for loss in Decoupling().losses(run, batch)] == [0, 0]
    run.epoch = 5
    assert [loss.item() for loss in CoTeachingPlus().losses(run, batch)] == [0, 0]


def test_decoupling_learns_where_the_networks_disagree():
    run, batch = small_run(n_learners=2)
    mask = disputed([learner.logits(batch.view) for learner in run.learners])
    expected = [loss[mask].mean().item() for loss in losses_of(run, batch)]
    found = [loss.item() for loss in Decoupling().losses(run, batch)]
    assert found == pytest.approx(expected, rel=1e-5)


def test_mentornet_moves_its_threshold_and_uses_it_after_the_burn_in():
    run, batch = small_run()
    method = MentorNet()
    method.begin(run)
    (own,) = losses_of(run, batch)
    quantile = own.quantile(0.75).item()
    assert method.losses(run, batch)[0].item() == pytest.approx(own.mean().item(), rel=1e-5)
    assert float(run.memory["threshold"]) == pytest.approx(quantile, rel=1e-5)
    run.memory["threshold"] = torch.tensor(0.5)
    run.epoch = 5
    moved = 0.9 * 0.5 + 0.1 * quantile
    below = [loss.item() for loss in own if loss.item() <= moved]
    expected = sum(below) / max(len(below), 1)
    assert method.losses(run, batch)[0].item() == pytest.approx(expected, rel=1e-5)
    assert float(run.memory["threshold"]) == pytest.approx(moved, rel=1e-5)
