"""`fit`: train a network on features or images whose labels are partly wrong."""

import copy
import json
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kspr.errors import InputError
from kspr.models.device import use_bfloat16
from kspr.selectors import Selection
from kspr.train.cycle.algorithm3 import Cycle, State
from kspr.train.cycle.learner import Learner
from kspr.train.cycle.metrics import Epoch
from kspr.train.cycle.model_choice import BestSoFar
from kspr.train.cycle.referee_parts import Parts
from kspr.train.cycle.select_step import make_selector, referee_selector
from kspr.train.cycle.task import Task, make_task, network_for, signature_of
from kspr.train.distributed import World, the_world
from kspr.train.outcome import classes_to_json
from kspr.train.pipelines import pipeline_for
from kspr.train.randomness import deterministic
from kspr.train.run_folder import RunFolder, newest_checkpoint
from kspr.train.settings import TrainSettings
from kspr.train.simsiam.pretrain import pretrain_network, simsiam_settings
from kspr.train.trained import Trained

__all__ = ["fit"]


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
    task = make_task(X, y, chosen, truth=truth, test=test, classes=classes)
    folder = None if out is None else RunFolder(Path(out), save_selection)
    if resume and folder is None:
        raise InputError("resume=True needs the folder of the run to resume: pass out.")
    with the_world(chosen.device) as world, _rules(chosen):
        chosen = _possible_precision(chosen, world)
        return _Fit(task, chosen, world, folder, network).run(resume, on_epoch, about or {})


def _possible_precision(settings: TrainSettings, world: World) -> TrainSettings:
    """Return `settings` with float32 instead of a bfloat16 that does not work here."""
    if settings.precision == "float32":
        return settings
    works = use_bfloat16(world.device, strict=settings.strict)
    # Processors may differ between machines: all ranks must compute in the same precision.
    found = torch.tensor([works], dtype=torch.uint8, device=world.device)
    everywhere = bool(world.all_gather(found, world.size).all())
    return settings if everywhere else settings.changed(precision="float32")


class _Fit:
    """One call of `fit`: begin or resume, pre-train, run the cycle, write the result."""

    def __init__(
        self,
        task: Task,
        settings: TrainSettings,
        world: World,
        folder: RunFolder | None,
        network: nn.Module | None,
    ) -> None:
        self._task, self._settings, self._world, self._folder = task, settings, world, folder
        self._check_batches()
        self._pipeline = pipeline_for(task.inputs, settings)
        self._network = network_for(task, settings, network)
        self._history: list[dict[str, Any]] = []
        # Only a run on disk can be resumed; a digest of all rows is not free.
        self._signature = (
            {} if folder is None else signature_of(task, settings, self._network, world.size)
        )

    def run(
        self,
        resume: bool,
        on_epoch: Callable[[Epoch], None] | None,
        about: dict[str, Any],
    ) -> Trained:
        # Refuses a folder that cannot be used before hours of training.
        stored = self._begin(resume, about)
        self._pretrain(stored)
        cycle = self._cycle(stored)
        cycle.run(lambda epoch: self._after_epoch(cycle, epoch, on_epoch))
        return self._finish(cycle)

    def _check_batches(self) -> None:
        n = int((~self._task.held_out).sum())
        if min(n, self._settings.batch_size) < 2 * self._world.size:
            raise InputError(
                f"A batch of {min(n, self._settings.batch_size)} samples is too small for "
                f"{self._world.size} processes; each needs two or more."
            )
        if n < self._settings.batch_size:
            warnings.warn(
                f"batch_size is {self._settings.batch_size} but there are only {n} samples; "
                "each step takes all of them.",
                stacklevel=4,
            )

    def _begin(self, resume: bool, about: dict[str, Any]) -> dict[str, Any] | None:
        if self._folder is None:
            return None
        described = {
            "settings": self._settings.as_dict(),
            "classes": classes_to_json(self._task.classes),
            "shape": list(self._task.inputs.shape),
            "rows": len(self._task.inputs),
            "signature": self._signature,
            **about,
        }
        if self._world.rank == 0:
            self._folder.begin(described, resume=resume)
        return newest_checkpoint(self._folder.checkpoints, self._signature) if resume else None

    def _pretrain(self, stored: dict[str, Any] | None) -> None:
        """Train features with SimSiam, unless a checkpoint of the cycle exists already."""
        if self._settings.pretrain_epochs > 0 and stored is None:
            folder = None if self._folder is None else self._folder.checkpoints / "pretrain"
            pretrain_network(
                self._network, self._task, self._settings, self._world, folder, self._signature
            )

    def _cycle(self, stored: dict[str, Any] | None) -> Cycle:
        # For the cosine of the learning rate, which falls to 0 at this step.
        total = self._settings.epochs * self._task.steps(self._settings.batch_size)
        reference, parts = None, self._parts()
        if self._settings.guard:
            # Before the learner takes the network over: both start from the same weights.
            reference = Learner(copy.deepcopy(self._network), self._settings, total, self._world)
        learner = Learner(self._network, self._settings, total, self._world)
        cycle = Cycle(
            self._task,
            self._pipeline,
            learner,
            reference,
            self._settings,
            self._world,
            parts,
        )
        if stored is not None:
            try:
                self._restore(cycle, stored)
            except InputError:
                raise
            # The file is whole and of this version: another program wrote it.
            except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
                where = "the run" if self._folder is None else self._folder.checkpoints
                raise InputError(
                    f"The newest checkpoint in {where} does not fit this training. Train again "
                    "into another folder."
                ) from error
        return cycle

    def _parts(self) -> Callable[[Tensor], Parts] | None:
        """Return what makes the parts that referees are trained on; None without referees."""
        if not self._settings.has_referees:
            return None
        # Copied before any training: all networks start from the same weights.
        network = copy.deepcopy(self._network)
        folder = None if self._folder is None else self._folder.checkpoints
        return lambda part: Parts(
            self._task,
            part,
            self._pipeline,
            network,
            self._settings,
            self._world,
            folder,
            self._signature,
        )

    def _restore(self, cycle: Cycle, stored: dict[str, Any]) -> None:
        cycle.learner.load(stored["learner"])
        cycle.state = State(**stored["state"])
        # The checkpoint of a released run has no reference to load.
        if cycle.state.is_released:
            cycle.release()
        elif cycle.reference is not None:
            cycle.reference.load(stored["reference"])
            cycle.best = BestSoFar(**stored["best"])
        self._history = json.loads(stored["history"])
        # Not needed to train: the masks are in the state. They are what users look at.
        if self._world.rank == 0 and self._folder is not None:
            cycle.selection = _stored(self._folder.selection)
            cycle.frozen = _stored(self._folder.frozen)

    def _after_epoch(
        self, cycle: Cycle, epoch: Epoch, on_epoch: Callable[[Epoch], None] | None
    ) -> None:
        # On every rank, because `Trained` has it on every rank.
        self._history.append(epoch.as_dict())
        if self._world.rank != 0:
            return
        for note in epoch.notes:
            warnings.warn(note, stacklevel=6)
        if self._folder is not None:
            if epoch.epoch == 1 and cycle.frozen is not None:
                self._folder.save_frozen(cycle.frozen)
            self._folder.after_epoch(
                epoch.epoch, self._history, cycle.selection, self._new_sides(cycle, epoch)
            )
            # Last: a run that is killed before it repeats this epoch and writes the same files.
            self._folder.checkpoint(epoch.epoch, self._content(cycle))
        if on_epoch is not None:
            on_epoch(epoch)

    def _new_sides(self, cycle: Cycle, epoch: Epoch) -> np.ndarray | None:
        """Return which rows a selection of this epoch keeps; None without a new one.

        Referees judge once, so no row changes sides.
        """
        made = epoch.select_seconds > 0 and not self._settings.has_referees
        return _as_array(cycle.state.selected) if made else None

    def _content(self, cycle: Cycle) -> dict[str, Any]:
        return {
            "signature": self._signature,
            "state": cycle.state.tensors(),
            "learner": cycle.learner.state(),
            "reference": None if cycle.reference is None else cycle.reference.state(),
            "best": None if cycle.best is None else cycle.best.tensors(),
            "history": json.dumps(self._history),
        }

    def _finish(self, cycle: Cycle) -> Trained:
        choice = cycle.model_choice()
        network = cycle.learner.network
        # Into the learner's network: the chosen one may be an average, or of an earlier epoch.
        network.load_state_dict(choice.weights)
        cycle.select_for(choice)
        trained = Trained(
            network=network.eval(),
            classes=self._task.classes,
            selection=cycle.selection,
            frozen=cycle.frozen,
            clean_mask=_as_array(cycle.state.selected),
            model_choice=choice.name,
            epoch=choice.epoch,
            test_accuracy=choice.test_accuracy,
            held_out=choice.held_out,
            history=self._history,
            settings=self._settings,
            shape=self._task.inputs.shape,
            pipeline=self._pipeline,
            folder=None if self._folder is None else self._folder.path,
        )
        if self._world.rank == 0 and self._folder is not None:
            if cycle.selection is not None:
                self._folder.save_selection(cycle.selection)
            tensors = {"network": network.state_dict(), "pipeline": self._pipeline.state()}
            self._folder.finish(tensors, trained.as_result())
        return trained


def _stored(path: Path) -> Selection | None:
    return Selection.load(path) if path.is_dir() else None


def _as_array(mask: Tensor | None) -> np.ndarray | None:
    return None if mask is None else mask.cpu().numpy()


def _rules(settings: TrainSettings) -> AbstractContextManager[None]:
    return deterministic() if settings.deterministic else nullcontext()
