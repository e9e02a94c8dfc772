"""What the tests of the rules share: a run on a few rows, and training on digits."""

from functools import cache

import numpy as np
import torch
from sklearn.datasets import load_digits

from kspr.experiments.baselines import make_method
from kspr.experiments.baselines.method import Batch, Run, fit_method
from kspr.noise import symmetric
from kspr.train import TrainSettings
from kspr.train.inputs import pipeline_for
from kspr.train.learner import Learner
from kspr.train.task import make_task, network_for
from kspr.train.world import World


def small_run(n_learners=1, n=24, n_classes=4, epochs=10, noise_rate=None) -> tuple[Run, Batch]:
    """Return a run on made rows that has not begun, and a batch of all its rows."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = (rng.standard_normal((n, 6)) + 2 * np.eye(n_classes, 6)[y]).astype(np.float32)
    settings = TrainSettings.from_preset("cpu", epochs=epochs, batch_size=n, guard=False)
    task = make_task(X, y, settings)
    world = World(torch.device("cpu"))
    learners = [
        Learner(
            network_for(settings.changed(seed=k), task.n_classes, task.inputs.shape),
            settings,
            epochs,
            world,
        )
        for k in range(n_learners)
    ]
    run = Run(task, pipeline_for(task.inputs, settings), settings, world, learners, noise_rate)
    rows, draws = torch.arange(n), torch.Generator().manual_seed(0)
    taken = task.inputs.take(rows)
    return run, Batch(rows, task.label, taken, run.pipeline.train_view(taken, draws), draws)


def random_logits(n=12, n_classes=5, seed=0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, n_classes, generator=generator, dtype=torch.float64)
    return logits, torch.randint(n_classes, (n,), generator=generator)


@cache
def accuracy_on_digits(name, noise=symmetric, rate=0.4, epochs=20) -> float:
    """Return the accuracy on clean digits of a network that `name` trained on wrong labels."""
    X, y = load_digits(return_X_y=True)
    X, held = (X / 16).astype(np.float32), np.arange(len(y)) % 4 == 3
    label = noise(y[~held], rate, 0)
    method = make_method(name)
    found = fit_method(
        X[~held],
        label,
        method,
        settings=TrainSettings.from_preset("cpu", epochs=epochs, batch_size=32),
        noise_rate=float((label != y[~held]).mean()) if method.needs_noise_rate else None,
        test=(X[held], y[held]),
    )
    return float(found.test_accuracy or 0.0)
