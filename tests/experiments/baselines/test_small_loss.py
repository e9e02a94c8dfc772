"""Rules by small losses against loops over rows."""

import pytest
import torch
from torch.nn import functional

from kspr.experiments.baselines.small_loss import (
    CoTeaching,
    CoTeachingPlus,
    Decoupling,
    MentorNet,
    disputed,
    exchanged,
    keep_share,
    mean_over,
    smallest,
)
from tests.experiments.baselines.rules import accuracy_on_digits, random_logits, small_run


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoupling", "mentornet", "co-teaching", "co-teaching-plus"])
def test_the_method_beats_plain_training(name):
    """40 % symmetric noise on digits, seeded."""
    assert accuracy_on_digits(name) > accuracy_on_digits("standard")
