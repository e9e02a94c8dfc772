"""`Trained`: the result of training; `load_trained` reads it back from the folder of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.train.distributed import World, training_device
from kspr.train.inputs import as_inputs
from kspr.train.metrics import network_outputs
from kspr.train.pipelines import InputPipeline, stored_pipeline
from kspr.train.run_folder import (
    NETWORK,
    classes_from_json,
    read_about,
    read_metrics,
    read_result,
    read_selection,
    read_tensors,
)
from kspr.train.settings import TrainSettings
from kspr.train.task import network_for

__all__ = ["Trained", "load_trained"]


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, the selection it ended with, and how both were made.

    `fit` and `load_trained` return it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kspr.train import TrainSettings, fit
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> trained = fit(X, y, settings=TrainSettings.from_preset("cpu", epochs=2, batch_size=32))
    >>> trained.model_choice, trained.epoch, trained.classes.tolist()
    ('cycle average', 2, [0, 1, 2])
    >>> trained.predict_proba(X[:4]).shape
    (4, 3)
    """

    network: nn.Module
    """The network, in evaluation mode; it returns features and logits."""
    classes: np.ndarray
    """The user's own labels, in the order of the logits."""
    selection: Selection | None
    """With ``select_on="referees"``, the selection by networks that have not seen the labels which
    they judge. With ``"network"``, that by the features of this network, which has seen them: its
    error rate is an estimate that is too low. With ``"inputs"`` or ``select_every=0``, the last one
    that was made. None if there is none, and on processes other than the first."""
    frozen: Selection | None
    """The selection by features that have not seen the labels: the embeddings, or those of a
    network that was pre-trained. None without such, and on processes other than the first."""
    clean_mask: np.ndarray | None
    """Mask of the rows that `selection` keeps, on every process; None without one."""
    model_choice: str
    """Which network this is: ``cycle`` or ``reference``, then ``weights`` or ``average``."""
    epoch: int
    """Epoch at whose end these weights were saved."""
    test_accuracy: float | None
    """Accuracy on the test set; None without one."""
    held_out: dict[str, float]
    """Share of the held-out given labels that each candidate predicts; empty without the guard."""
    history: list[dict[str, Any]]
    """Metrics, one entry per epoch."""
    settings: TrainSettings
    """The settings of the run, as used: ``precision`` is the one that was computed in."""
    shape: tuple[int, ...]
    """Shape of one row: ``(d,)`` for embeddings, ``(channels, height, width)`` for images."""
    pipeline: InputPipeline
    """How rows become inputs of the network."""
    folder: Path | None = None
    """Folder of the run; None if it was not written to disk."""

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class for each row, shape ``(n, classes)``.

        `X` has the form of the training data: features, or images.
        """
        inputs = as_inputs(X, self.settings.input)
        if inputs.shape != self.shape:
            raise InputError(
                f"X has rows of shape {inputs.shape}; the network was trained on {self.shape}."
            )
        # One process: predictions need no other rank, even inside torchrun.
        world = World(training_device(self.settings.device))
        network = self.network.to(world.device)
        logits = network_outputs(network, inputs, self.pipeline, world).logits
        return np.asarray(torch.softmax(logits, dim=1).cpu().numpy())

    def predict(self, X: Any) -> np.ndarray:
        """Return the most likely class of each row, as the user's own label."""
        return np.asarray(self.classes[self.predict_proba(X).argmax(axis=1)])

    def as_result(self) -> dict[str, Any]:
        """Return the facts about the final network that ``result.json`` holds."""
        return {
            "model_choice": self.model_choice,
            "epoch": self.epoch,
            "held_out": self.held_out,
            "test_accuracy": self.test_accuracy,
            "last_epoch": self.history[-1],
        }


def load_trained(folder: str | Path, network: nn.Module | None = None) -> Trained:
    """Return the trained network of a finished run.

    Parameters
    ----------
    folder
        Folder that `fit` (with `out`) or ``kspr train`` wrote.
    network
        The module that was trained, if it was one of your own: a run stores its weights, not its
        code.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from kspr.train import TrainSettings, fit, load_trained
    >>> X, y = load_digits(n_class=3, return_X_y=True)
    >>> settings = TrainSettings.from_preset("cpu", epochs=1, batch_size=32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     trained = fit(X, y, settings=settings, out=f"{folder}/run")
    ...     again = load_trained(f"{folder}/run")
    >>> bool((again.predict(X) == trained.predict(X)).all())
    True
    """
    folder = Path(folder)
    about, result = read_about(folder), read_result(folder)
    stored = read_tensors(folder / NETWORK)
    try:
        settings = TrainSettings(**about["settings"])
        classes, shape = classes_from_json(about["classes"]), tuple(about["shape"])
        ended = {
            name: result[name] for name in ("model_choice", "epoch", "test_accuracy", "held_out")
        }
        pipeline, weights = stored_pipeline(stored["pipeline"], shape, settings), stored["network"]
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{folder} cannot be read as a training run ({reason}); train again into another "
            "folder."
        ) from error
    # Without the settings' initial weights, whose file may be gone: all are replaced.
    bare = settings.changed(weights=None)
    network = network_for(bare, len(classes), shape, network)
    try:
        network.load_state_dict(weights)
    except (AttributeError, RuntimeError, TypeError) as error:
        raise InputError(
            f"The weights in {folder} do not fit the network {settings.network!r}. If the run "
            "trained a network of your own, pass it: load_trained(folder, network)."
        ) from error
    selection, frozen = (read_selection(folder, name) for name in ("selection", "frozen"))
    return Trained(
        network=network.eval(),
        classes=classes,
        selection=selection,
        frozen=frozen,
        clean_mask=None if selection is None else selection.clean_mask,
        **ended,
        history=read_metrics(folder),
        settings=settings,
        shape=shape,
        pipeline=pipeline,
        folder=folder,
    )
