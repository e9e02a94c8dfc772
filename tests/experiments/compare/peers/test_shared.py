"""What methods share is computed once, and charged to each method that uses it."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from kspr.experiments.compare.peers import PEERS, charge
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
