"""The generative classifier."""

import numpy as np
import pytest
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from kspr.experiments.baselines import make_method
from kspr.experiments.baselines.generative import discriminant, robust_rows
from kspr.experiments.baselines.trainer import fit_method
from kspr.noise import symmetric
from kspr.train import TrainSettings


def gaussians(n=300, wrong=0.0, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) + 3 * np.eye(3, 4)[y]
    label = symmetric(y, wrong, seed) if wrong else y
    return torch.from_numpy(X), torch.from_numpy(label), torch.from_numpy(y)


def test_without_concentration_it_is_linear_discriminant_analysis_with_equal_priors():
    X, y, _ = gaussians()
    weight, bias = discriminant(X, y, 3, steps=0)
    found = (X @ weight.T + bias).argmax(dim=1)
    known = LinearDiscriminantAnalysis(priors=[1 / 3] * 3).fit(X.numpy(), y.numpy())
    assert (found.numpy() == known.predict(X.numpy())).mean() > 0.995


def test_each_step_keeps_the_half_that_lies_nearest_to_the_rows_kept_before():
    X, _, _ = gaussians(90)
    kept = np.arange(90)
    for steps in (1, 2):
        centre, covariance = X[kept].mean(dim=0).numpy(), np.cov(X[kept].numpy().T, ddof=0)
        covariance += 1e-4 * np.diag(covariance).mean() * np.eye(4)
        distance = [
            float((row - centre) @ np.linalg.inv(covariance) @ (row - centre)) for row in X.numpy()
        ]
        kept = np.argsort(distance, kind="stable")[: (90 + 4 + 1) // 2]
        assert sorted(robust_rows(X, steps).tolist()) == sorted(kept.tolist())


def test_wrong_labels_disturb_the_robust_means_less():
    X, label, y = gaussians(3000, wrong=0.3)
    true = torch.stack([X[y == k].mean(dim=0) for k in range(3)])

    def off(rows):
        return sum(float((rows(X[label == k]) - true[k]).norm()) for k in range(3))

    plain = off(lambda own: own.mean(dim=0))
    robust = off(lambda own: own[robust_rows(own, 2)].mean(dim=0))
    assert robust < 0.6 * plain


def test_a_class_without_rows_is_no_error():
    X, y, _ = gaussians()
    weight, bias = discriminant(X, y, 4)
    assert torch.isfinite(weight).all()
    assert torch.isfinite(bias).all()


@pytest.mark.slow
def test_it_beats_plain_training_on_rows_that_are_many_for_their_dimension():
    """Gaussian classes, 40 % symmetric noise, 1000 rows a class; seeded."""
    rng = np.random.default_rng(0)
    y = np.arange(6000) % 5
    X = (rng.standard_normal((6000, 20)) + 1.2 * rng.standard_normal((5, 20))[y]).astype("f4")
    train = np.arange(6000) < 5000
    settings = TrainSettings.from_preset("cpu", epochs=15, batch_size=64)
    found = {
        name: fit_method(
            X[train],
            symmetric(y[train], 0.4, 0),
            make_method(name),
            settings=settings,
            test=(X[~train], y[~train]),
        ).test_accuracy
        for name in ("standard", "rog")
    }
    assert found["rog"] > found["standard"]
