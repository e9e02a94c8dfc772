"""The training cycle: a network that learns, and a policy that judges the labels it learns from.

`Cycle` trains epoch by epoch. With the policy `Alg3` (Alg. 3 of the paper) an epoch is followed by
a selection, and the next one mixes the kept samples with the rejected. With the policy `Referees`
labels are judged before the first epoch, by networks that have not seen them, and every epoch
learns soft labels (`kspr.train.referees`). The guard (`kspr.train.guard`) trains a reference beside
either, and says which labels may be used and which network the run ends with.
"""

import copy
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kspr.models.network import Network
from kspr.selectors import Selection
from kspr.train.guard import Guard, Health, ModelChoice, choose_model, keeps_nearly_all
from kspr.train.learner import Learner, Pools, check_tensor, train_epoch
from kspr.train.policies import (
    Alg3,
    Chosen,
    Judgement,
    Policy,
    Referees,
    Unseen,
    choose,
    judgement,
    with_seen_labels,
)
from kspr.train.run_folder import Checkpoints
from kspr.train.task import (
    Epoch,
    Performance,
    Setup,
    better,
    check_converged,
    network_outputs,
    performance_of,
    quality_of,
)


@dataclass
class State:
    """What an epoch trains on, and what the next judgement needs: tensors, for a checkpoint."""

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


class Cycle:
    """A training procedure: one network, the policy that judges its labels, and the guard."""

    def __init__(self, setup: Setup, learner: Learner, guard: Guard, policy: Policy) -> None:
        self.setup, self.learner, self.guard, self.policy = setup, learner, guard, policy
        self.state, self.n_epochs = State(), setup.settings.epochs
        self.selection: Selection | None = None
        self.frozen: Selection | None = None
        self._new: Judgement | None = None
        """The last judgement, until an epoch has reported it."""

    @property
    def epoch(self) -> int:
        """Number of epochs that are done."""
        return self.state.epoch

    @property
    def network(self) -> nn.Module:
        """The network in training, and at the end the one that was chosen."""
        return self.learner.network

    @property
    def clean_mask(self) -> np.ndarray | None:
        """Mask of the last selection."""
        return None if self.state.selected is None else self.state.selected.cpu().numpy()

    def begin(self) -> None:
        """Judge labels before the first epoch, as far as something knows them already."""
        features, frozen, judged = self.policy.unseen(self), None, None
        task, settings = self.setup.task, self.setup.settings
        if features is not None and self.setup.world.rank == 0:
            frozen = choose(settings, features.values, task.given)
            self.frozen = frozen.selection
        if settings.warmup_epochs == 0:
            # The classifier is untrained, so its scores are noise.
            judged = self.judge(features, frozen, trained=False)
        self._new = self.policy.begin(self, features, judged)

    def train(self) -> Epoch:
        """Train for an epoch, let the policy judge, and return what was measured."""
        start = time.perf_counter()
        place = (0, self.state.epoch)
        # Alg. 3, lines 5 to 9. The selection of line 10 follows further down.
        loss = train_epoch(self.learner, self.setup, self._pools(), place)
        reference_loss = self.guard.train(self.setup, self.learner, self.state.epoch)
        self.state.epoch += 1
        performances = self._performances()
        # Before the learner may be overwritten below: candidates are compared as they were trained.
        if self.guard.best is not None:
            self.guard.best.consider(self.state.epoch, performances, self._networks())
        notes = self.guard.start_over(self.learner, performances)
        # The judgement before the first epoch is reported with it.
        before = 0.0 if self._new is None else self._new.seconds
        judged = self.policy.after_epoch(self)
        if judged is not None:
            self._new = replace(judged, seconds=judged.seconds + before)
        seconds = time.perf_counter() - start + before
        measured = self._measured(loss, reference_loss, performances, notes, seconds)
        self._new = None
        return measured

    def judge(
        self, unseen: Unseen | None = None, frozen: Chosen | None = None, *, trained: bool = True
    ) -> Judgement:
        """Select, train on what may be used of it, and return both; arguments as for `select`."""
        judged, scores = self.select(unseen, frozen, trained=trained)
        return self.use(judged, scores)

    def select(
        self, unseen: Unseen | None = None, frozen: Chosen | None = None, *, trained: bool = True
    ) -> tuple[Judgement, Tensor]:
        """Select by features on rank 0; return the judgement and the network's scores on all.

        `frozen` is the selection by the features `unseen`, on rank 0; without them a selection is
        made by the network, or by the inputs if these are asked for. `trained` says whether the
        network has learned the labels already.
        """
        setup, settings = self.setup, self.setup.settings
        features, scores = self.outputs()
        by_inputs = settings.select_on == "inputs"
        if unseen is not None:
            # Random layers on top of good embeddings would only blur them.
            features = unseen.values
        elif by_inputs:
            features = setup.task.all_inputs
        check_converged((features, scores), settings)
        chosen = frozen
        if chosen is None and setup.world.rank == 0:
            # Classes without samples have scores too, but the selection does not know them.
            present = torch.unique(setup.task.label).to(scores.device)
            shown = scores[:, present] if trained else None
            last = self.state.selected
            chosen = choose(settings, features, setup.task.given, shown, last, self.epoch)
        return self.judgement(chosen, has_seen=trained and not by_inputs), scores

    def judgement(self, chosen: Chosen | None, *, has_seen: bool) -> Judgement:
        """Return on all ranks what may be used of the selection `chosen`, which rank 0 knows.

        `has_seen` says whether its features have learned the labels.
        """
        health: Health | None = None
        if chosen is not None:
            self.selection = with_seen_labels(chosen.selection) if has_seen else chosen.selection
            health = self.guard.health(chosen.selection, self.policy.otherwise)
        return judgement(self.setup, chosen, health)

    def use(self, judged: Judgement, scores: Tensor) -> Judgement:
        """Train on what `judged` keeps; rejected samples with sure `scores` are mixed in."""
        # Of the network's only the first: one that has memorised labels keeps more later on.
        counts = self.state.selected is None or not self.policy.repeats
        self.state.selected, self.state.keep = judged.selected, judged.keep
        # Computed on every rank from the same gathered scores, so no broadcast is needed.
        confidence = self.setup.settings.confidence
        sure = scores.softmax(dim=1).amax(dim=1).cpu() >= confidence
        self.state.pool = None if judged.keep is None else ~judged.keep & sure
        # At q = 0.1 a selection keeps all labels if fewer than a tenth are wrong. Only soft labels
        # can be better then, so the estimated noise must be small too.
        nothing_left = judged.has_little_noise or self.policy.repeats
        if counts and nothing_left and keeps_nearly_all(judged.keep):
            self.release()
            return replace(judged, is_enough=True)
        return judged

    def release(self) -> None:
        """End the guard, if there is one: train on the held-out samples too, without reference."""
        if self.guard.reference is not None:
            task = self.setup.task
            task = replace(task, held_out=torch.zeros_like(task.held_out))
            self.setup = replace(self.setup, task=task)
            self.guard.release()
            self.state.is_released = True

    def outputs(self) -> tuple[Tensor, Tensor]:
        """Return features and scores of all samples, by the network in training."""
        setup = self.setup
        outputs = network_outputs(self.network, setup.task.inputs, setup.pipeline, setup.world)
        return outputs.features, outputs.logits

    def finish(self) -> ModelChoice:
        """Put the weights that the run ends with into the network, and return how it was chosen."""
        choice = choose_model(
            self.state.epoch, self._performances(), self._networks(), self.guard.best
        )
        # Into the learner's network: the chosen one may be an average, or of an earlier epoch.
        self.network.load_state_dict(choice.weights)
        self.policy.finish(self, choice)
        return choice

    def new_sides(self, epoch: Epoch) -> np.ndarray | None:
        """Return which rows a selection of `epoch` keeps; None if rows cannot change sides."""
        return self.clean_mask if epoch.select_seconds > 0 and self.policy.repeats else None

    def checkpoint(self) -> dict[str, Any]:
        """Return everything that the next epoch depends on."""
        state = dict(vars(self.state))
        return {"state": state, "learner": self.learner.state(), **self.guard.state()}

    def load(self, stored: dict[str, Any]) -> None:
        """Restore `checkpoint`."""
        self.learner.load(stored["learner"])
        self.state = State(**stored["state"])
        self._check_state()
        if self.state.is_released:
            self.state.is_released = False
            self.release()
        else:
            self.guard.load(stored)

    def _check_state(self) -> None:
        """Raise `ValueError` if the state is of another task."""
        state, n, k = self.state, len(self.setup.task.label), self.setup.task.n_classes
        for mask in (state.selected, state.keep, state.pool):
            check_tensor(mask, (n,), torch.bool)
        check_tensor(state.targets, (n, k), torch.float32)
        check_tensor(state.credit, (k, k), torch.float32)
        if type(state.epoch) is not int or type(state.is_released) is not bool:
            raise ValueError("the state is no state of a training")

    def _pools(self) -> Pools:
        """Return what the next epoch trains on."""
        state, free = self.state, ~self.setup.task.held_out
        rows = torch.nonzero(free)[:, 0]
        if state.epoch >= self.setup.settings.warmup_epochs:
            if state.targets is not None:
                # Both pools are the same rows, each in its own order: partners are random rows.
                return Pools(rows, rows, state.targets)
            # None: no selection yet, or one that the guard refused.
            if state.keep is not None and state.pool is not None:
                masks = (state.keep & free, state.pool & free)
                return Pools(*(torch.nonzero(mask)[:, 0] for mask in masks))
        return Pools(rows, rows[:0])

    def _networks(self) -> dict[str, nn.Module]:
        learners = {"cycle": self.learner}
        if self.guard.reference is not None:
            learners["reference"] = self.guard.reference
        return {
            f"{name} {kind}": network
            for name, learner in learners.items()
            for kind, network in learner.candidates().items()
        }

    def _performances(self) -> dict[str, Performance]:
        setup, credit = self.setup, self.state.credit
        return {
            name: performance_of(network, setup.task, setup.pipeline, setup.world, credit)
            for name, network in self._networks().items()
        }

    def _measured(
        self,
        loss: float,
        reference_loss: float | None,
        performances: dict[str, Performance],
        notes: tuple[str, ...],
        seconds: float,
    ) -> Epoch:
        state, new = self.state, self._new
        measured: dict[str, Any] = {}
        for learner, prefix in (("cycle", ""), ("reference", "reference_")):
            if f"{learner} weights" in performances:
                best = better(performances, learner)
                measured |= {
                    f"{prefix}accuracy": performances[f"{learner} weights"].test_accuracy,
                    f"{prefix}accuracy_average": performances[f"{learner} average"].test_accuracy,
                    f"{prefix}held_out": best.held_out if len(best.right) else None,
                }
        if new is not None:
            notes = (*notes, *new.notes)
            measured |= {"q_reached": new.q_reached, "q_spread": new.q_spread}
            measured["select_seconds"] = new.seconds
        return Epoch(
            epoch=state.epoch,
            loss=loss,
            reference_loss=reference_loss,
            rate=self.learner.rate,
            kept=_share(state.selected),
            # On soft labels every sample is trained on.
            used=_share(state.keep if state.targets is None else None),
            quality=quality_of(state.selected, self.setup.task.truly_clean),
            notes=notes,
            seconds=seconds,
            **measured,
        )


def make_cycle(setup: Setup, network: Network, checkpoints: Checkpoints) -> Cycle:
    """Return the cycle that the settings ask for; all its networks start from those weights.

    `checkpoints` are those of the training; referees write theirs inside.
    """
    settings, world = setup.settings, setup.world
    # For the cosine of the learning rate, which falls to 0 at this step.
    total = settings.epochs * setup.task.steps(settings.batch_size)
    policy: Policy = Alg3()
    if settings.has_referees:
        policy = Referees(copy.deepcopy(network), checkpoints)
    reference = None
    # A handful of rows holds none out: there is nothing to compare networks on.
    if settings.guard and bool(setup.task.held_out.any()):
        # Before the learner takes the network over: both start from the same weights.
        reference = Learner(copy.deepcopy(network), settings, total, world)
    learner = Learner(network, settings, total, world)
    return Cycle(setup, learner, Guard(setup, reference), policy)


def _share(mask: Tensor | None) -> float:
    return 1.0 if mask is None else float(mask.double().mean())
