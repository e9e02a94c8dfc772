"""Our own selectors as methods of a comparison."""

import pytest
from sklearn.metrics import roc_auc_score

from kspr.core.metrics import selection_quality
from kspr.experiments.compare.peers import PEERS


def test_half_of_the_labels_is_clean_and_ranked(digits20, digits_question):
    judged = PEERS["spr-half"].judge(digits_question, seed=0)
    assert selection_quality(judged.clean, digits20.right).fsr < 0.02
    assert judged.clean.mean() == pytest.approx(0.5, abs=0.01)
    assert roc_auc_score(~digits20.right, judged.suspicion) > 0.95
