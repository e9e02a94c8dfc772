"""What holds for every method, ours and those of others."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from kspr.core.metrics import selection_quality
from kspr.experiments.compare.peers import PEERS, Shared


@pytest.mark.parametrize("name", [name for name in PEERS if name != "spr-half"])
def test_every_method_beats_keeping_everything(name, digits20, digits_question):
    judged = PEERS[name].judge(digits_question, seed=0)
    right = digits20.right
    everything = selection_quality(np.ones_like(right), right)
    quality = selection_quality(judged.clean, right)
    # The paper's preset is cautious: it is cleaner, and gives recall away for it.
    assert quality.fsr < 0.5 * everything.fsr
    if name != "kspr-paper":
        assert quality.f1 > everything.f1
    assert roc_auc_score(~right, judged.suspicion) > 0.95


@pytest.mark.parametrize("name", PEERS)
def test_the_answer_depends_on_question_and_seed_alone(name, tiny):
    fresh = Shared(tiny.X, tiny.y, known_rate=0.1)
    first, again = (PEERS[name].judge(shared, seed=3) for shared in (tiny, fresh))
    assert first.clean.dtype == bool
    assert first.clean.shape == first.suspicion.shape == (60,)
    assert np.array_equal(first.clean, again.clean)
    assert np.array_equal(first.suspicion, again.suspicion)


@pytest.mark.parametrize("name", PEERS)
def test_judging_leaves_the_question_as_it_was(name, tiny):
    X, y = tiny.X.copy(), tiny.y.copy()
    PEERS[name].judge(tiny, seed=0)
    assert np.array_equal(tiny.X, X)
    assert np.array_equal(tiny.y, y)


@pytest.mark.parametrize("name", ["kspr", "cleanlab-both", "datalab"])
def test_noise_rates_are_near_the_truth(name, digits20, digits_question):
    judged = PEERS[name].judge(digits_question, seed=0)
    assert judged.noise_rate == pytest.approx(0.2, abs=0.1)


def test_half_of_the_labels_is_clean_and_ranked(digits20, digits_question):
    judged = PEERS["spr-half"].judge(digits_question, seed=0)
    assert selection_quality(judged.clean, digits20.right).fsr < 0.02
    assert judged.clean.mean() == pytest.approx(0.5, abs=0.01)
    assert roc_auc_score(~digits20.right, judged.suspicion) > 0.95
