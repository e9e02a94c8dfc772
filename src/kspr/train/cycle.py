"""Alg. 3 of the paper: train for an epoch, select by the network's features, and repeat.

With ``select_on="referees"`` labels are judged by networks that have not seen them, before the
first epoch, and the network learns the soft labels that follow (`kspr.train.referees`).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kspr.selectors import Selection
from kspr.train.distributed import World
from kspr.train.guard import (
    MOST_CLASSES,
    BestSoFar,
    Health,
    ModelChoice,
    choose_model,
    credit_table,
    estimated_transition,
    examine,
    finds_little_noise,
    is_behind,
    keeps_nearly_all,
    unchanged,
)
from kspr.train.learner import Learner, Pools, train_epoch
from kspr.train.metrics import (
    Epoch,
    Performance,
    check_finite,
    network_outputs,
    performance_of,
    quality_of,
)
from kspr.train.patches import patch_features
from kspr.train.pipelines import InputPipeline
from kspr.train.referees import Parts, Unseen, ask_referees, first_copies, random_parts, teach
from kspr.train.select_step import Chosen, choose, choose_by_referees, with_seen_labels
from kspr.train.settings import TrainSettings
from kspr.train.soft_epoch import train_soft_epoch
from kspr.train.task import Task

__all__ = ["Cycle", "State"]

_CYCLE, _REFERENCE = 0, 1
"""Numbers of the learners, which make their random numbers differ."""


@dataclass
class State:
    """The state of a run between two epochs, apart from its networks."""

    epoch: int = 0
    """Number of epochs that are done."""
    selected: Tensor | None = None
    """Mask of the last selection, before the guard; the next prototypes are computed from it."""
    keep: Tensor | None = None
    """Mask of the samples whose labels are used; None for all."""
    pool: Tensor | None = None
    """Mask of the rejected samples that may be mixed in."""
    targets: Tensor | None = None
    """Soft labels of all samples, where referees have judged them; None to use given labels."""
    credit: Tensor | None = None
    """What predictions for held-out samples are worth, by `credit_table`; None counts labels."""
    is_released: bool = False
    """Whether the guard has ended, and its held-out samples are trained on."""

    def tensors(self) -> dict[str, Any]:
        """Return the fields, for a checkpoint."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Made:
    """Facts about the selection of this epoch, known on rank 0; empty if there was none."""

    seconds: float = 0.0
    q_reached: float | None = None
    q_spread: float | None = None
    notes: tuple[str, ...] = ()


class Cycle:
    """The training procedure of Alg. 3; `kspr.train.fit` puts its parts together.

    Parameters
    ----------
    task
        Rows, labels, held-out samples and test set.
    pipeline
        How rows become batches.
    learner
        The network that is trained on the selected samples.
    reference
        The network that is trained on all given labels, for the guard; None without the guard.
    settings
        How to train and to select.
    world
        The processes that train together.
    parts
        Function that makes the parts that referees are trained on, from the part of each row; None
        without referees.
    """

    def __init__(
        self,
        task: Task,
        pipeline: InputPipeline,
        learner: Learner,
        reference: Learner | None,
        settings: TrainSettings,
        world: World,
        parts: Callable[[Tensor], Parts] | None = None,
    ) -> None:
        self.task, self.pipeline = task, pipeline
        self.learner, self.reference = learner, reference
        self.settings, self.world, self.state = settings, world, State()
        self._parts = parts
        self._is_plain = False
        self.selection: Selection | None = None
        self.frozen: Selection | None = None
        self.best = None if reference is None else BestSoFar()

    def run(self, on_epoch: Callable[[Epoch], None]) -> None:
        """Train from the current state to the last epoch; call `on_epoch` after each."""
        made = _Made()
        if self.state.epoch == 0:
            features = self._frozen_features()
            self.frozen = self._select_frozen(features)
            if self.settings.warmup_epochs == 0:
                # The classifier is untrained, so its scores are noise.
                made = self._select(trained=False, unseen=features)
            made = self._ask_referees(features, made)
            self._compare_by_frozen_noise()
        while self.state.epoch < self.settings.epochs:
            on_epoch(self._epoch(made))
            made = _Made()

    def release(self) -> None:
        """End the guard: train on the held-out samples too, and drop the reference."""
        self.task = replace(self.task, held_out=torch.zeros_like(self.task.held_out))
        self.reference = self.best = None
        self.state.is_released = True

    def model_choice(self) -> ModelChoice:
        """Return the network that the run ends with."""
        return choose_model(self.state.epoch, self._performances(), self._networks(), self.best)

    def select_for(self, choice: ModelChoice) -> None:
        """Select by the network that the run ends with, unless the last selection is its own.

        Its weights must be in the learner's network. A selection by the inputs belongs to no
        network, nor does one by referees, and with ``select_every=0`` the only one stays.
        """
        own = choice.name.startswith("cycle") and choice.epoch == self.state.epoch
        once = self.settings.select_every == 0 or self.settings.select_on != "network"
        if not own and not once:
            self.state.selected = self._judged(trained=True)[0][0]

    def _epoch(self, made: _Made) -> Epoch:
        start = time.perf_counter()
        # Alg. 3, lines 5 to 9. The selection of line 10 follows further down.
        loss = self._train_cycle()
        reference_loss = self._train_reference()
        self.state.epoch += 1
        found = self._performances()
        # Before the learner may be overwritten below: candidates are compared as they were trained.
        if self.best is not None:
            self.best.consider(self.state.epoch, found, self._networks())
        notes = self._start_over_if_behind(found)
        before = made.seconds  # duration of the selection before the first epoch
        if self._is_due():
            made = self._select(trained=True)
            made = replace(made, seconds=made.seconds + before)
        seconds = time.perf_counter() - start + before
        return self._measured(loss, reference_loss, found, made, (*notes, *made.notes), seconds)

    def _train_cycle(self) -> float:
        """Train the learner for an epoch: on soft labels if referees gave some, or on Alg. 3's."""
        targets, epoch = self.state.targets, self.state.epoch
        if targets is None or epoch < self.settings.warmup_epochs:
            return self._train(self.learner, _CYCLE, self._pools())
        rows, place = torch.nonzero(~self.task.held_out)[:, 0], (_CYCLE, epoch)
        loss = train_soft_epoch(
            self.learner,
            self.task,
            rows,
            targets,
            self.pipeline,
            self.settings,
            self.world,
            place,
            n=len(self.task.label),
        )
        self._check_converged(self.learner.network.state_dict().values())
        return loss

    def _train(self, learner: Learner, number: int, pools: Pools) -> float:
        place = (number, self.state.epoch)
        loss = train_epoch(
            learner, self.task, pools, self.pipeline, self.settings, self.world, place
        )
        # Weights are the same on all ranks: all of them stop here, and none waits for another.
        self._check_converged(learner.network.state_dict().values())
        return loss

    def _check_converged(self, values: Iterable[Tensor]) -> None:
        rate = self.settings.learning_rate
        check_finite(
            values,
            f"Train again with a smaller learning_rate ({rate / 10:g} instead of {rate:g}), or "
            "with precision = 'float32' if it was another.",
        )

    def _train_reference(self) -> float | None:
        """Train the reference for an epoch; during the warm-up it is a copy of the learner."""
        if self.reference is None:
            return None
        # Training it separately would give the same weights at twice the cost.
        if self.state.epoch < self.settings.warmup_epochs:
            self.reference.load(self.learner.state())
            return None
        everything = torch.nonzero(~self.task.held_out)[:, 0]
        # An empty pool of rejected samples: the reference is plain training, without mixing.
        return self._train(self.reference, _REFERENCE, Pools(everything, everything[:0]))

    def _pools(self) -> Pools:
        """Return the clean and the rejected samples of the next epoch."""
        free = ~self.task.held_out
        keep, pool = self.state.keep, self.state.pool
        if keep is None or pool is None or self.state.epoch < self.settings.warmup_epochs:
            # None: no selection yet, or one that the guard refused.
            keep, pool = torch.ones_like(free), torch.zeros_like(free)
        return Pools(torch.nonzero(keep & free)[:, 0], torch.nonzero(pool & free)[:, 0])

    def _is_due(self) -> bool:
        """Return whether a selection follows this epoch: every few epochs, and after the last.

        With ``select_every=0`` there is one selection after the warm-up, if epochs follow it. With
        referees the selection before the first epoch is the last.
        """
        every, since = self.settings.select_every, self.state.epoch - self.settings.warmup_epochs
        if self._parts is not None:
            return False
        if every == 0:
            return since == 0 and self.state.epoch < self.settings.epochs
        return since >= 0 and (since % every == 0 or self.state.epoch == self.settings.epochs)

    def _select(self, *, trained: bool, unseen: Unseen | None = None) -> _Made:
        """Select, and use the result in the next epoch; arguments are as in `_judged`."""
        masks, made, scores = self._judged(trained=trained, unseen=unseen)
        # Only the first: a network that has memorised labels makes later selections keep more.
        is_first = self.state.selected is None
        self._use(masks, scores)
        self._is_plain = is_first and self._finds_no_noise(masks)
        if self._is_plain:
            self._release_if_guarded()
        return made

    def _finds_no_noise(self, masks: Tensor) -> bool:
        """Return whether a selection leaves nothing to do but plain training.

        At q = 0.1 it keeps all labels if fewer than a tenth are wrong. Only soft labels can be
        better then, so with referees the estimated noise must be small too.
        """
        is_small = self._parts is None or bool(masks[3].all())
        return keeps_nearly_all(self.state.keep) and is_small

    def _release_if_guarded(self) -> None:
        if self.reference is not None:
            self.release()

    def _frozen_features(self) -> Unseen | None:
        """Return features that have not seen the labels; None without such.

        They are the embeddings; those of a network that was trained before on something else; or,
        where referees judge images, those of small patches.
        """
        settings = self.settings
        if settings.input == "embeddings":
            return Unseen(self._all_inputs())
        if self._parts is not None and settings.weights is None:
            # Also after SimSiam, which learns from the images at hand and knows less.
            mirrored, seed = settings.flip, settings.seed
            found = patch_features(self.task.inputs, self.world, mirrored=mirrored, seed=seed)
            return Unseen(found, is_weak=True)
        if settings.pretrain_epochs or settings.weights is not None:
            network = self.learner.network
            found = network_outputs(network, self.task.inputs, self.pipeline, self.world).features
            return Unseen(found)
        return None

    def _select_frozen(self, features: Unseen | None) -> Selection | None:
        """Select by `features` that have not seen the labels; None without, and on other ranks."""
        if features is None or self.world.rank != 0:
            return None
        return choose(self.settings, features.values, self.task.given, None, None).selection

    def _ask_referees(self, features: Unseen | None, made: _Made) -> _Made:
        """Select by what referees say, and train on their soft labels; `made` came before.

        Where nearly all labels are kept there is nothing to judge, and training is plain.
        """
        if self._parts is None or self._is_plain or features is None:
            return made
        start = time.perf_counter()
        parts = self._parts(self._random_parts())
        first = first_copies(len(self.task.label), self._copies())
        chances = ask_referees(parts, self.task, features, first, self.settings, self.world)
        masks, judged = torch.zeros((4, len(chances)), dtype=torch.uint8), _Made()
        if self.world.rank == 0:
            found = choose_by_referees(self.settings, chances, self.task)
            self.selection, health = found.selection, self._health(found.selection)
            masks, judged = _masks(found.selection, health), _made(found, health)
        masks = self.world.broadcast(masks).bool()
        self._use(masks, chances.log())
        if self._finds_no_noise(masks):
            self._release_if_guarded()
        else:
            # Also where the selection is not healthy: soft labels say how little is known.
            self.state.targets, transition = teach(
                parts, self.task, chances, features, first, self.settings, self.world
            )
            self.state.credit = credit_table(transition)
        return replace(judged, seconds=made.seconds + time.perf_counter() - start)

    def _compare_by_frozen_noise(self) -> None:
        """Let the guard compare networks by the noise that was estimated before training.

        Not by that of later selections: a network that has learned the labels finds too little.
        """
        if self.reference is None or self._parts is not None or self.task.n_classes > MOST_CLASSES:
            return
        transition = estimated_transition(self.frozen, self.task.classes)
        self.state.credit = credit_table(self.world.broadcast(transition))

    def _random_parts(self) -> Tensor:
        """Return the part of each row, as rank 0 draws it."""
        settings = self.settings
        part = random_parts(self.task.label, self._copies(), settings.referee_parts, settings.seed)
        return self.world.broadcast(part)

    def _copies(self) -> np.ndarray | None:
        """Return which rows are copies of each other; only rank 0 knows."""
        return None if self.frozen is None else self.frozen.copies

    def _judged(
        self, *, trained: bool, unseen: Unseen | None = None
    ) -> tuple[Tensor, _Made, Tensor]:
        """Select by features on rank 0; return the masks and the scores on all.

        `trained` says whether the network has been trained. `unseen` are features that have not
        seen the labels; without, they are those of the network, or the inputs if asked for.
        """
        features, scores = network_outputs(
            self.learner.network, self.task.inputs, self.pipeline, self.world
        )
        by_inputs = self.settings.select_on == "inputs"
        if unseen is not None:
            # Random layers on top of good embeddings would only blur them.
            features = unseen.values
        elif by_inputs:
            features = self._all_inputs()
        self._check_converged((features, scores))
        masks, made = torch.zeros((4, len(self.task.label)), dtype=torch.uint8), _Made()
        if self.world.rank == 0:
            found, made, health = self._judge(features, scores if trained else None)
            # Before the first epoch, the network has not seen the labels either.
            self.selection = with_seen_labels(found) if trained and not by_inputs else found
            masks = _masks(self.selection, health)
        # One tensor of fixed size: all ranks must call a collective with the same shape.
        return self.world.broadcast(masks).bool(), made, scores

    def _all_inputs(self) -> Tensor:
        return self.task.inputs.take(torch.arange(len(self.task.inputs)))

    def _judge(self, features: Tensor, scores: Tensor | None) -> tuple[Selection, _Made, Health]:
        if scores is not None:
            # Classes without samples have scores too, but the selection does not know them.
            scores = scores[:, torch.unique(self.task.label).to(scores.device)]
        found = choose(self.settings, features, self.task.given, scores, self.state.selected)
        health = self._health(found.selection)
        return found.selection, _made(found, health), health

    def _health(self, selection: Selection) -> Health:
        labels = "given labels" if self._parts is None else "soft labels"
        otherwise = f"all {labels} are used"
        if self.settings.guard:
            return examine(selection, otherwise)
        # Batch normalisation needs two samples on each rank.
        return unchanged(selection, 2 * self.world.size, otherwise)

    def _use(self, masks: Tensor, scores: Tensor) -> None:
        self.state.selected = masks[0]
        self.state.keep = masks[1] if bool(masks[2].all()) else None
        # Computed on every rank from the same gathered scores, so no broadcast is needed.
        sure = scores.softmax(dim=1).amax(dim=1).cpu() >= self.settings.confidence
        self.state.pool = None if self.state.keep is None else ~self.state.keep & sure

    def _learners(self) -> dict[str, Learner]:
        own = {"cycle": self.learner}
        return own if self.reference is None else {**own, "reference": self.reference}

    def _networks(self) -> dict[str, nn.Module]:
        return {
            f"{name} {kind}": network
            for name, learner in self._learners().items()
            for kind, network in learner.candidates().items()
        }

    def _performances(self) -> dict[str, Performance]:
        return {
            name: performance_of(network, self.task, self.pipeline, self.world, self.state.credit)
            for name, network in self._networks().items()
        }

    def _start_over_if_behind(self, found: dict[str, Performance]) -> tuple[str, ...]:
        """Copy the reference's weights to the learner if that is clearly behind."""
        if self.reference is None or not is_behind(
            _better(found, "cycle").worth, _better(found, "reference").worth
        ):
            return ()
        # Optimiser and average too: it continues from the whole state of the reference.
        self.learner.load(self.reference.state())
        return (
            "The cycle was behind the network that is trained on all given labels, and continues "
            "from the weights of that network.",
        )

    def _measured(
        self,
        loss: float,
        reference_loss: float | None,
        found: dict[str, Performance],
        made: _Made,
        notes: tuple[str, ...],
        seconds: float,
    ) -> Epoch:
        own, other = _network_metrics(found, "cycle"), _network_metrics(found, "reference")
        return Epoch(
            epoch=self.state.epoch,
            loss=loss,
            reference_loss=reference_loss,
            rate=self.learner.rate,
            **own,
            **{f"reference_{name}": value for name, value in other.items()},
            kept=_share(self.state.selected),
            # On soft labels every sample is trained on.
            used=_share(self.state.keep if self.state.targets is None else None),
            q_reached=made.q_reached,
            q_spread=made.q_spread,
            quality=quality_of(self.state.selected, self.task.truly_clean),
            notes=notes,
            seconds=seconds,
            select_seconds=made.seconds,
        )


def _made(found: Chosen, health: Health) -> _Made:
    return _Made(found.seconds, found.q_reached, found.q_spread, health.reasons)


def _masks(selection: Selection, health: Health) -> Tensor:
    """Return what was selected, what is used, whether it is at all, and whether noise is small."""
    masks = torch.zeros((4, len(selection)), dtype=torch.uint8)
    masks[3] = int(finds_little_noise(selection))
    masks[0] = torch.from_numpy(selection.clean_mask)
    if health.keep is not None:
        masks[1], masks[2] = torch.from_numpy(health.keep), 1
    return masks


def _network_metrics(found: dict[str, Performance], learner: str) -> dict[str, float | None]:
    if f"{learner} weights" not in found:
        return dict.fromkeys(("accuracy", "accuracy_average", "held_out"))
    weights, average = found[f"{learner} weights"], found[f"{learner} average"]
    better = _better(found, learner)
    return {
        "accuracy": weights.test_accuracy,
        "accuracy_average": average.test_accuracy,
        "held_out": better.held_out if len(better.right) else None,
    }


def _better(found: dict[str, Performance], learner: str) -> Performance:
    """Return the performance of the better of a learner's two networks."""
    weights, average = found[f"{learner} weights"], found[f"{learner} average"]
    # Without held-out samples both means are nan, and the comparison takes the average.
    return weights if weights.mean_worth > average.mean_worth else average


def _share(mask: Tensor | None) -> float:
    return 1.0 if mask is None else float(mask.double().mean())
