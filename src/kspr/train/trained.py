"""What training gives back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.train.cycle.metrics import answers
from kspr.train.distributed import Alone, pick_device
from kspr.train.inputs import Inputs, as_inputs
from kspr.train.pipelines import Medium
from kspr.train.settings import TrainSettings

__all__ = [
    "Trained",
]


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, the selection it ended with, and how both came about."""

    network: nn.Module
    """Returns features and logits; in evaluation mode."""
    classes: np.ndarray
    """The user's own labels, in the order of the logits."""
    selection: Selection | None
    """The last selection; None on a rank other than 0, and where none was made."""
    clean_mask: np.ndarray | None
    """What it keeps, on every rank."""
    handed_over: str
    """``cycle`` or ``reference``, then ``weights`` or ``average``."""
    epoch: int
    """The epoch after which it was as it is."""
    test_accuracy: float | None
    """Its accuracy on the test set; None without one."""
    held_out: dict[str, float]
    """Share of the held-out given labels that each candidate predicts; empty without the guard."""
    history: list[dict[str, Any]]
    """The metrics, one entry per epoch."""
    settings: TrainSettings
    shape: tuple[int, ...]
    medium: Medium
    folder: Path | None = None

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return a probability per row and class."""
        inputs = as_inputs(X, self.settings.input)
        self._check_shape(inputs)
        world = Alone(pick_device(self.settings.device))
        scores = answers(self.network.to(world.device), inputs, self.medium, world).scores
        return np.asarray(torch.softmax(scores, dim=1).cpu().numpy())

    def predict(self, X: Any) -> np.ndarray:
        """Return the most likely class of each row, as the user's own label."""
        return np.asarray(self.classes[self.predict_proba(X).argmax(axis=1)])

    def _check_shape(self, inputs: Inputs) -> None:
        if inputs.shape != self.shape:
            raise InputError(
                f"X has rows of shape {inputs.shape}; the network was trained on {self.shape}."
            )
