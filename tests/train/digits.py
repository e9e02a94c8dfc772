"""Digits with wrong labels, for tests of training and of its commands."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from kspr.noise import symmetric
from kspr.train import TrainSettings
from kspr.train.inputs import pipeline_for
from kspr.train.task import Setup, make_task, network_for
from kspr.train.world import World
from tests.conftest import Noisy


def small_digits() -> Noisy:
    """Return 300 digits, 30 % of the labels wrong."""
    X, y = load_digits(return_X_y=True)
    return Noisy(X[:300].astype(np.float32), symmetric(y[:300], 0.3, seed=1), y[:300])


def digit_images(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first `n` digits as grey images of 8 x 8 pixels, and their labels."""
    X, y = load_digits(return_X_y=True)
    return (X[:n] * 15.9).astype(np.uint8).reshape(n, 1, 8, 8), y[:n]


def setup_of(X, y, settings: TrainSettings) -> Setup:
    """Return what is learned from `X` and `y` in one process on the CPU."""
    task = make_task(X, y, settings)
    world = World(torch.device("cpu"))
    return Setup(task, pipeline_for(task.inputs, settings), settings, world)


def network_of(setup: Setup):
    """Return the network that the settings name."""
    return network_for(setup.settings, setup.task.n_classes, setup.task.inputs.shape)
