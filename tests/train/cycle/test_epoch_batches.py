"""Which rows a step sees."""

import torch

from kspr.train.learner import Pools, epoch_batches


def batches(n_clean=50, n_rejected=30, n_steps=10, size=8, p=1.0, seed=0):
    rows = torch.arange(n_clean + n_rejected)
    pools = Pools(rows[:n_clean], rows[n_clean:])
    generator = torch.Generator().manual_seed(seed)
    return pools, list(epoch_batches(pools, n_steps, size, p, generator))


def test_clean_rows_are_each_seen_before_any_is_seen_twice():
    pools, found = batches(n_steps=6)
    seen = torch.cat([batch.clean for batch in found])[:48]
    assert len(seen.unique()) == 48
    assert set(seen.tolist()) <= set(pools.clean.tolist())


def test_mixed_batches_pair_every_clean_row_with_a_rejected_one():
    pools, found = batches()
    for batch in found:
        assert len(batch.rejected) == len(batch.clean) == 8
        assert set(batch.rejected.tolist()) <= set(pools.rejected.tolist())


def test_the_share_of_mixed_batches_is_p():
    _, found = batches(n_steps=2000, p=0.3)
    share = sum(batch.rejected is not None for batch in found) / 2000
    assert abs(share - 0.3) < 3 * (0.3 * 0.7 / 2000) ** 0.5
    assert all(batch.rejected is None for batch in batches(p=0.0)[1])


def test_without_rejected_rows_every_step_is_supervised():
    assert all(batch.rejected is None for batch in batches(n_rejected=0)[1])


def test_a_clean_set_smaller_than_a_batch_is_taken_whole():
    _, found = batches(n_clean=5)
    assert len(found) == 10
    assert all(sorted(batch.clean.tolist()) == list(range(5)) for batch in found)


def test_the_order_follows_from_the_generator_alone():
    first, again, other = batches(seed=1)[1], batches(seed=1)[1], batches(seed=2)[1]
    assert all(torch.equal(a.clean, b.clean) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a.clean, b.clean) for a, b in zip(first, other, strict=True))
