"""Methods that train a softmax model: against plain loops, and where wrong labels must show."""

from math import exp

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from kspr.experiments.compare.peers import Shared
from kspr.experiments.compare.peers.others import (
    Logistic,
    LogitMargin,
    Margins,
    area_under_margin,
)
from kspr.experiments.compare.peers.shared import centred


def literal_margins(X, y, n_classes, how, rng):
    """Train the softmax model with plain loops; return the averaged margins."""
    p = X.shape[1]
    value = [[0.0] * n_classes for _ in range(p + 1)]
    push = [[0.0] * n_classes for _ in range(p + 1)]
    total = [0.0] * len(y)
    for _ in range(how.epochs):
        order = rng.permutation(len(y)).tolist()
        for start in range(0, len(y), how.batch):
            rows = order[start : start + how.batch]
            slope = [[0.0] * n_classes for _ in range(p + 1)]
            for i in rows:
                x = [*map(float, X[i]), 1.0]
                logits = [sum(x[a] * value[a][k] for a in range(p + 1)) for k in range(n_classes)]
                total[i] += logits[y[i]] - max(v for k, v in enumerate(logits) if k != y[i])
                normaliser = sum(exp(v) for v in logits)
                for k in range(n_classes):
                    error = exp(logits[k]) / normaliser - (k == y[i])
                    for a in range(p + 1):
                        slope[a][k] += x[a] * error / len(rows)
            for a in range(p + 1):
                for k in range(n_classes):
                    push[a][k] *= how.momentum
                    push[a][k] += slope[a][k] + how.weight_decay * value[a][k]
                    value[a][k] -= how.learning_rate * push[a][k]
    return [t / how.epochs for t in total]


def test_margins_are_taken_as_training_goes(tiny):
    how = Margins(epochs=4, batch=16, learning_rate=0.3)
    X = tiny.X.astype(float)
    fast = area_under_margin(X, tiny.y, 3, how, np.random.default_rng(0))
    slow = literal_margins(X, tiny.y, 3, how, np.random.default_rng(0))
    np.testing.assert_allclose(fast, slow, rtol=1e-9, atol=1e-12)


def test_every_sample_is_judged_in_a_run_in_which_its_label_is_its_own(tiny, monkeypatch):
    from kspr.experiments.compare.peers import others as softmax

    runs = []

    def watched(X, labels, n_classes, how, rng):
        runs.append((labels.copy(), area_under_margin(X, labels, n_classes, how, rng)))
        return runs[-1][1]

    monkeypatch.setattr(softmax, "area_under_margin", watched)
    judged = Margins(percentile=90).judge(tiny, seed=0)
    (first, first_area), (second, second_area) = runs
    made_up = first == 3
    assert made_up.sum() == (second == 3).sum() == 60 // 4
    assert not (made_up & (second == 3)).any()
    for i in range(60):
        labels, area = (second, second_area) if made_up[i] else (first, first_area)
        assert labels[i] == tiny.y[i]
        cut = np.percentile(area[labels == 3], 90)
        assert judged.clean[i] == (area[i] >= cut)
        assert judged.suspicion[i] == pytest.approx(cut - area[i])


def test_wrong_labels_have_small_margins():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    X = (rng.standard_normal((300, 3)) + 4 * np.eye(3)[y]).astype(np.float32)
    wrong = np.arange(300) < 30
    y[wrong] = (y[wrong] + 1) % 3
    judged = Margins(learning_rate=0.1).judge(Shared(X, y), seed=0)
    assert judged.suspicion[wrong].min() > np.median(judged.suspicion[~wrong])
    assert not judged.clean[wrong].any()


def test_the_logit_margin_is_that_of_the_labels_as_given(tiny):
    how = Margins(epochs=3, batch=16, learning_rate=0.3)
    judged = LogitMargin(how).judge(tiny, seed=4)
    X = centred(tiny.X).astype(float)
    slow = literal_margins(X, tiny.y, 3, how, np.random.default_rng([3471, 4]))
    np.testing.assert_allclose(judged.suspicion, [-m for m in slow], rtol=1e-5, atol=1e-6)
    assert judged.clean.tolist() == [m > 0 for m in slow]


def test_the_regression_keeps_what_it_predicts_itself(tiny):
    judged = Logistic().judge(tiny, seed=0)
    model = LogisticRegression(max_iter=200).fit(centred(tiny.X), tiny.y)
    assert np.array_equal(judged.clean, model.predict(centred(tiny.X)) == tiny.y)
    assert np.array_equal(judged.clean, judged.suspicion <= 0)
