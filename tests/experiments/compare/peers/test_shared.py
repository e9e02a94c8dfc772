"""What methods share is computed once, and charged to each method that uses it."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from kspr.experiments.compare.peers import PEERS, Shared, charge
from tests.experiments.compare.peers.test_others import literal_nearest


def test_probabilities_come_from_models_that_have_not_seen_the_row(tiny):
    found = tiny.probabilities()
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for train, held in folds.split(tiny.X, tiny.y):
        model = LogisticRegression(max_iter=200).fit(tiny.X[train], tiny.y[train])
        np.testing.assert_allclose(found[held], model.predict_proba(tiny.X[held]))


def test_neighbours_are_the_nearest_other_rows(tiny):
    assert tiny.neighbours(7).tolist() == literal_nearest(tiny.X, 7)


def test_whoever_comes_second_pays_for_what_the_first_has_made(tiny):
    first = charge(tiny, lambda: PEERS["small-loss"].judge(tiny, seed=0))
    second = charge(tiny, lambda: PEERS["cleanlab-both"].judge(tiny, seed=0))
    product = tiny.products["probabilities"]
    assert first.told
    assert not second.told
    assert min(first.seconds, second.seconds) >= product.seconds
    if product.growth is not None:
        assert min(first.growth, second.growth) >= product.growth


def test_nobody_pays_for_what_is_not_used(tiny):
    tiny.probabilities()
    slow = tiny.products["probabilities"]
    object.__setattr__(slow, "seconds", 1000.0)
    assert charge(tiny, lambda: PEERS["neighbours"].judge(tiny, seed=0)).seconds < 1000
    assert charge(tiny, lambda: PEERS["small-loss"].judge(tiny, seed=0)).seconds > 1000


def test_folds_do_not_gather_the_wrong_labels_of_rows_that_are_sorted():
    """Unshuffled, a class's wrong labels are those that its model was not trained on."""
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(10), 60)
    wrong = rng.random(600) < 0.2
    y = np.where(wrong, (truth + rng.integers(1, 10, 600)) % 10, truth)
    X = np.eye(10)[truth] + 0.3 * rng.standard_normal((600, 10))
    shown = Shared(X, y).probabilities()[np.arange(600), truth]
    surest = np.concatenate([np.argsort(np.where(truth == k, -shown, 0))[:12] for k in range(10)])
    assert wrong[surest].mean() < 0.3


def test_given_probabilities_cost_nothing(tiny):
    P = np.full((60, 3), 1 / 3)
    given = Shared(tiny.X, tiny.y, probabilities=P)
    assert given.probabilities() is P
    assert given.products["probabilities"].seconds == 0.0
