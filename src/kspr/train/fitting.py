"""`fit`: train a network on features or images whose labels are partly wrong, to a `Trained`."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from kspr.errors import InputError
from kspr.models.device import use_bfloat16
from kspr.selectors import Selection
from kspr.train.cycle import make_cycle
from kspr.train.guard import ModelChoice
from kspr.train.inputs import InputPipeline, as_inputs, pipeline_for, stored_pipeline
from kspr.train.run_folder import (
    NETWORK,
    Checkpoints,
    RunFolder,
    classes_from_json,
    classes_to_json,
    metrics_from,
    read_about,
    read_metrics,
    read_result,
    read_selection,
    read_tensors,
)
from kspr.train.settings import TrainSettings, make_selector, referee_selector
from kspr.train.task import Epoch, Setup, make_task, network_for, network_outputs, signature_of
from kspr.train.unlabelled import pretrain_network, simsiam_settings
from kspr.train.world import World, deterministic, the_world, training_device


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


def fit(
    X: Any,
    y: Any,
    *,
    settings: TrainSettings | str = "cpu",
    network: nn.Module | None = None,
    test: tuple[Any, Any] | None = None,
    truth: Any = None,
    classes: Any = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    about: dict[str, Any] | None = None,
    save_selection: Callable[[Selection, Path], Any] | None = None,
) -> Trained:
    """Train a network on labels that are partly wrong, and select clean ones meanwhile (Alg. 3).

    Parameters
    ----------
    X
        Features ``(n, d)``; or images, uint8 ``(n, channels, height, width)`` or with the channels
        last; or any object with ``__len__``, ``shape`` (of one row) and ``take(index)``.
    y
        One label per row, of any type.
    settings
        The name of a preset, or a `TrainSettings`.
    network
        A ``torch.nn.Module`` of your own instead of the preset's. The input of its last linear
        layer is used as features.
    test
        ``(X, y)`` with right labels: accuracy is measured on it after each epoch. It has no
        influence on training.
    truth
        The right labels of all rows, if known, to measure FSR, recall and F1.
    classes
        All classes, if `y` does not contain each of them.
    out
        Folder for metrics, checkpoints, the selection and the network; None keeps all in memory.
    resume
        Continue the run in `out`. On a CPU the weights end up the same, bit for bit.
    on_epoch
        Called after each epoch with its `Epoch` of metrics, in the first process only.
    about
        More entries for ``train.json``, such as the origin of the data.
    save_selection
        Function that writes a selection to a path, instead of ``Selection.save``.

    Returns
    -------
    Trained
        The network, the last selection and the metrics.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kspr.noise import symmetric
    >>> import kspr.train
    >>> X, y_true = load_digits(return_X_y=True)
    >>> y = symmetric(y_true, 0.3, seed=0)
    >>> settings = kspr.train.TrainSettings.from_preset("cpu", epochs=5, batch_size=32)
    >>> trained = kspr.train.fit(X, y, settings=settings, truth=y_true)
    >>> bool((trained.predict(X) == y_true).mean() > 0.85)
    True
    """
    chosen = TrainSettings.from_preset(settings) if isinstance(settings, str) else settings
    # Raise for a wrong parameter before anything is computed.
    make_selector(chosen)
    if chosen.has_referees:
        referee_selector(chosen)
    simsiam_settings(chosen)
    data = {"truth": truth, "test": test, "classes": classes}
    with set_up(X, y, chosen, out, resume, save_selection, **data) as (setup, folder):
        built = network_for(chosen, setup.task.n_classes, setup.task.inputs.shape, network)
        training = Training(setup, built, folder)
        # Refuses a folder that cannot be used before hours of training.
        stored = training.begin(resume, about or {})
        if stored is None and chosen.pretrain_epochs > 0:
            pretrain_network(setup, built, training.checkpoints.of("pretrain"))
        cycle = make_cycle(setup, built, training.checkpoints)
        return training.run(cycle, stored, on_epoch)


@contextmanager
def set_up(
    X: Any,
    y: Any,
    settings: TrainSettings,
    out: str | Path | None,
    resume: bool,
    save_selection: Callable[[Selection, Path], Any] | None = None,
    **data: Any,
) -> Iterator[tuple[Setup, RunFolder | None]]:
    """Yield the training problem and the folder of its run, among the processes that train."""
    task = make_task(X, y, settings, **data)
    folder = None if out is None else RunFolder(Path(out), save_selection)
    if resume and folder is None:
        raise InputError("resume=True needs the folder of the run to resume: pass out.")
    rules = deterministic() if settings.deterministic else nullcontext()
    with the_world(settings.device) as world, rules:
        pipeline = pipeline_for(task.inputs, settings)
        setup = Setup(task, pipeline, _computable(settings, world), world)
        _check_batches(setup)
        yield setup, folder


def _computable(settings: TrainSettings, world: World) -> TrainSettings:
    """Return `settings` with float32 instead of a bfloat16 that does not work here."""
    if settings.precision == "float32":
        return settings
    works = use_bfloat16(world.device, strict=settings.strict)
    # Processors may differ between machines: all ranks must compute in the same precision.
    answer = torch.tensor([works], dtype=torch.uint8, device=world.device)
    everywhere = bool(world.all_gather(answer, world.size).all())
    return settings if everywhere else settings.changed(precision="float32")


def _check_batches(setup: Setup) -> None:
    n, batch_size = int((~setup.task.held_out).sum()), setup.settings.batch_size
    if min(n, batch_size) < 2 * setup.world.size:
        raise InputError(
            f"A batch of {min(n, batch_size)} samples is too small for {setup.world.size} "
            "processes; each needs two or more."
        )
    if n < batch_size:
        warnings.warn(
            f"batch_size is {batch_size} but there are only {n} samples; each step takes all of "
            "them.",
            stacklevel=5,
        )


class Procedure(Protocol):
    """What a training does in each epoch: our cycle, or a method of others."""

    n_epochs: int
    selection: Selection | None = None
    """The last selection, on rank 0."""
    frozen: Selection | None = None
    """The selection by features that have not seen the labels, on rank 0."""

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""

    @property
    def network(self) -> nn.Module:
        """The network in training, and at the end the one that was chosen."""

    @property
    def clean_mask(self) -> np.ndarray | None:
        """Mask of the kept rows, on every rank."""

    def begin(self) -> None:
        """Do what comes before the first epoch."""

    def train(self) -> Epoch:
        """Train for one epoch, and count it."""

    def new_sides(self, epoch: Epoch) -> np.ndarray | None:  # noqa: ARG002 - for others
        """Return which rows a selection of `epoch` keeps; None if rows cannot change sides."""
        return None

    def finish(self) -> ModelChoice:
        """Put the final weights into the network, and return how they were chosen."""

    def checkpoint(self) -> dict[str, Any]:
        """Return everything that the next epoch depends on."""

    def load(self, stored: dict[str, Any]) -> None:
        """Restore `checkpoint`."""


class Training:
    """The epochs of a procedure, with the folder, the checkpoints and the metrics of the run.

    Parameters
    ----------
    setup
        What is learned.
    network
        The network that is trained.
    folder
        Where the run is written; None keeps all in memory.
    **rules
        What else must be equal for the run to be resumed.
    """

    def __init__(
        self, setup: Setup, network: nn.Module, folder: RunFolder | None, **rules: str
    ) -> None:
        self._setup, self._folder = setup, folder
        self._history: list[dict[str, Any]] = []
        self._signature, checkpoints = dict[str, Any](), None
        # Only a run on disk can be resumed; a digest of all rows is not free.
        if folder is not None:
            size, checkpoints = setup.world.size, folder.path / "checkpoints"
            self._signature = {**signature_of(setup.task, setup.settings, network, size), **rules}
        writes = setup.world.rank == 0
        self.checkpoints = Checkpoints(checkpoints, self._signature, writes=writes)

    def begin(self, resume: bool, about: dict[str, Any]) -> dict[str, Any] | None:
        """Begin the folder, or return the checkpoint to continue from; `about` is for train.json.

        Raise `InputError` if the folder cannot be used.
        """
        if self._folder is None:
            return None
        task = self._setup.task
        described = {
            "settings": self._setup.settings.as_dict(),
            "classes": classes_to_json(task.classes),
            "shape": list(task.inputs.shape),
            "rows": len(task.inputs),
            "signature": self._signature,
            **about,
        }
        if self._setup.world.rank == 0:
            self._folder.begin(described, resume=resume)
        return self.checkpoints.newest() if resume else None

    def run(
        self,
        procedure: Procedure,
        stored: dict[str, Any] | None,
        on_epoch: Callable[[Epoch], None] | None,
    ) -> Trained:
        """Train from the beginning, or from the checkpoint `stored`, to the last epoch."""
        if stored is None:
            procedure.begin()
        else:
            self._restore(procedure, stored)
        while procedure.epoch < procedure.n_epochs:
            self._after(procedure, procedure.train(), on_epoch)
        return self._finish(procedure)

    def _restore(self, procedure: Procedure, stored: dict[str, Any]) -> None:
        with self.checkpoints.fitting():
            procedure.load(stored)
            self._history = metrics_from(map(json.dumps, json.loads(stored["history"])))
            if not len(self._history) == procedure.epoch <= procedure.n_epochs:
                raise ValueError("the metrics are of other epochs")
        # Not needed to train: the masks are in the checkpoint. They are what users look at.
        if self._folder is not None and self._setup.world.rank == 0:
            procedure.selection = read_selection(self._folder.path, "selection")
            procedure.frozen = read_selection(self._folder.path, "frozen")

    def _after(
        self, procedure: Procedure, epoch: Epoch, on_epoch: Callable[[Epoch], None] | None
    ) -> None:
        # On every rank, because `Trained` has it on every rank.
        self._history.append(epoch.as_dict())
        if self._setup.world.rank != 0:
            return
        for note in epoch.notes:
            warnings.warn(note, stacklevel=5)
        if self._folder is not None:
            if epoch.epoch == 1 and procedure.frozen is not None:
                self._folder.save("frozen", procedure.frozen)
            sides = procedure.new_sides(epoch)
            self._folder.after_epoch(epoch.epoch, self._history, procedure.selection, sides)
            content = {**procedure.checkpoint(), "history": json.dumps(self._history)}
            # Last: a run that is killed before it repeats this epoch and writes the same files.
            self.checkpoints.write(epoch.epoch, content)
        if on_epoch is not None:
            on_epoch(epoch)

    def _finish(self, procedure: Procedure) -> Trained:
        choice, setup = procedure.finish(), self._setup
        trained = Trained(
            network=procedure.network.eval(),
            classes=setup.task.classes,
            selection=procedure.selection,
            frozen=procedure.frozen,
            clean_mask=procedure.clean_mask,
            model_choice=choice.name,
            epoch=choice.epoch,
            test_accuracy=choice.test_accuracy,
            held_out=choice.held_out,
            history=self._history,
            settings=setup.settings,
            shape=setup.task.inputs.shape,
            pipeline=setup.pipeline,
            folder=None if self._folder is None else self._folder.path,
        )
        if self._folder is not None and setup.world.rank == 0:
            if procedure.selection is not None:
                self._folder.save("selection", procedure.selection)
            tensors = {"network": trained.network.state_dict(), "pipeline": setup.pipeline.state()}
            self._folder.finish(tensors, trained.as_result())
        return trained
