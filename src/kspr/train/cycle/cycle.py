"""Alg. 3: a network and a selection that improve each other."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from kspr.selectors import Selection
from kspr.train.cycle.batches import Pools
from kspr.train.cycle.epoch import train_epoch
from kspr.train.cycle.guard import Health, as_it_is, examine, is_behind, keeps_nearly_all
from kspr.train.cycle.learner import Line
from kspr.train.cycle.metrics import Epoch, Standing, answers, quality_of, standing_of
from kspr.train.cycle.model_choice import Best, Handover, hand_over
from kspr.train.cycle.select_step import choose
from kspr.train.cycle.task import Task
from kspr.train.distributed import World
from kspr.train.pipelines import Medium
from kspr.train.settings import TrainSettings

__all__ = ["Cycle", "State"]

_CYCLE, _REFERENCE = 0, 1
"""Numbers of the lines: their random numbers differ."""


@dataclass
class State:
    """Where a run stands between two epochs."""

    epoch: int = 0
    """Epochs that are done."""
    selected: Tensor | None = None
    """Mask of the last selection as it was made; the next one's prototypes come from it."""
    keep: Tensor | None = None
    """Mask of the samples whose labels are used; None: all."""
    pool: Tensor | None = None
    """Mask of the rejected samples that may be mixed in."""
    is_released: bool = False
    """Whether the guard gave its held-out samples back."""

    def tensors(self) -> dict[str, Any]:
        """Return the state as a checkpoint holds it."""
        return dict(vars(self))


@dataclass(frozen=True)
class _Made:
    """A selection that was just made, as rank 0 knows it."""

    seconds: float = 0.0
    q_reached: float | None = None
    q_spread: float | None = None
    notes: tuple[str, ...] = ()


class Cycle:
    """The procedure between data and a trained network; `fit` puts it together.

    `reference` learns from the labels as they are, for the guard; None without it.
    """

    def __init__(
        self,
        task: Task,
        medium: Medium,
        line: Line,
        reference: Line | None,
        settings: TrainSettings,
        world: World,
    ) -> None:
        self.task, self.medium, self.line, self.reference = task, medium, line, reference
        self.settings, self.world, self.state = settings, world, State()
        self.selection: Selection | None = None
        self.best = None if reference is None else Best()

    def run(self, on_epoch: Callable[[Epoch], None]) -> None:
        """Train to the end, from wherever the state is."""
        made = _Made()
        if self.state.epoch == 0 and self.settings.warmup_epochs == 0:
            # The classifier is untrained: its scores would say nothing.
            made = self._select(with_scores=False)
        while self.state.epoch < self.settings.epochs:
            on_epoch(self._epoch(made))
            made = _Made()

    def release(self) -> None:
        """Give the held-out samples back and let the reference go: there is nothing to guard."""
        self.task = replace(self.task, held_out=torch.zeros_like(self.task.held_out))
        self.reference = self.best = None
        self.state.is_released = True

    def handover(self) -> Handover:
        """Return the weights that the run ends with."""
        return hand_over(self.state.epoch, self._standings(), self._networks(), self.best)

    def _epoch(self, made: _Made) -> Epoch:
        start = time.perf_counter()
        loss = self._train(self.line, _CYCLE, self._pools())
        reference_loss = self._train_reference()
        self.state.epoch += 1
        found = self._standings()
        if self.best is not None:
            self.best.consider(self.state.epoch, found, self._networks())
        notes = self._start_over_if_behind(found)
        before = made.seconds  # of the selection that came before the first epoch
        if self._is_due():
            made = self._select(with_scores=True)
            made = replace(made, seconds=made.seconds + before)
        seconds = time.perf_counter() - start + before
        return self._measured(loss, reference_loss, found, made, (*notes, *made.notes), seconds)

    def _train(self, line: Line, number: int, pools: Pools) -> float:
        place = (number, self.state.epoch)
        return train_epoch(line, self.task, pools, self.medium, self.settings, self.world, place)

    def _train_reference(self) -> float | None:
        """Train the reference; while both learn from the same labels, it is a copy."""
        if self.reference is None:
            return None
        if self.state.epoch < self.settings.warmup_epochs:
            self.reference.load(self.line.state())
            return None
        everything = torch.nonzero(~self.task.held_out)[:, 0]
        return self._train(self.reference, _REFERENCE, Pools(everything, everything[:0]))

    def _pools(self) -> Pools:
        """Return what the next epoch draws from."""
        free = ~self.task.held_out
        keep, pool = self.state.keep, self.state.pool
        if keep is None or pool is None or self.state.epoch < self.settings.warmup_epochs:
            keep, pool = torch.ones_like(free), torch.zeros_like(free)
        return Pools(torch.nonzero(keep & free)[:, 0], torch.nonzero(pool & free)[:, 0])

    def _is_due(self) -> bool:
        """Say whether a selection follows this epoch: by turns, and after the last one.

        Once means once, for the epochs that follow; where none do, there is nothing to select.
        """
        every, since = self.settings.select_every, self.state.epoch - self.settings.warmup_epochs
        if every == 0:
            return since == 0 and self.state.epoch < self.settings.epochs
        return since >= 0 and (since % every == 0 or self.state.epoch == self.settings.epochs)

    def _select(self, *, with_scores: bool) -> _Made:
        """Select by the network's features, on rank 0, and tell the others."""
        features, scores = answers(self.line.network, self.task.inputs, self.medium, self.world)
        if self._judges_inputs(with_scores):
            features = self.task.inputs.take(torch.arange(len(self.task.inputs)))
        n = len(self.task.label)
        # Row 0: what was selected. Row 1: what is used. Row 2: whether it is used at all.
        masks, made = torch.zeros((3, n), dtype=torch.uint8), _Made()
        if self.world.rank == 0:
            self.selection, made, health = self._judge(features, scores if with_scores else None)
            masks[0] = torch.from_numpy(self.selection.clean_mask)
            if health.keep is not None:
                masks[1], masks[2] = torch.from_numpy(health.keep), 1
        masks = self.world.agree(masks).bool()
        is_first = self.state.selected is None
        self._use(masks, scores)
        if is_first and self.reference is not None and keeps_nearly_all(self.state.keep):
            self.release()
        return made

    def _judges_inputs(self, trained: bool) -> bool:
        """Say whether embeddings are judged as they are: asked for, or nothing is learned yet."""
        untrained = self.settings.input == "embeddings" and not trained
        return untrained or self.settings.select_on == "inputs"

    def _judge(self, features: Tensor, scores: Tensor | None) -> tuple[Selection, _Made, Health]:
        if scores is not None:
            # A class may be known without a sample; the selection knows only those of the labels.
            scores = scores[:, torch.unique(self.task.label).to(scores.device)]
        found = choose(self.settings, features, self.task.given, scores, self.state.selected)
        least = 2 * self.world.size
        guard = self.settings.guard
        health = examine(found.selection) if guard else as_it_is(found.selection, least)
        made = _Made(found.seconds, found.q_reached, found.q_spread, health.reasons)
        return found.selection, made, health

    def _use(self, masks: Tensor, scores: Tensor) -> None:
        self.state.selected = masks[0]
        self.state.keep = masks[1] if bool(masks[2].all()) else None
        sure = scores.softmax(dim=1).amax(dim=1).cpu() >= self.settings.confidence
        self.state.pool = None if self.state.keep is None else ~self.state.keep & sure

    def _lines(self) -> dict[str, Line]:
        lines = {"cycle": self.line}
        return lines if self.reference is None else {**lines, "reference": self.reference}

    def _networks(self) -> dict[str, nn.Module]:
        return {
            f"{name} {kind}": network
            for name, line in self._lines().items()
            for kind, network in line.candidates().items()
        }

    def _standings(self) -> dict[str, Standing]:
        return {
            name: standing_of(network, self.task, self.medium, self.world)
            for name, network in self._networks().items()
        }

    def _start_over_if_behind(self, found: dict[str, Standing]) -> tuple[str, ...]:
        """Go on from the reference's weights when the cycle is clearly behind it."""
        if self.reference is None or not is_behind(
            _better(found, "cycle"), _better(found, "reference")
        ):
            return ()
        self.line.load(self.reference.state())
        return (
            "The cycle was behind the network that learns from the labels as they are, and goes "
            "on from its weights.",
        )

    def _measured(
        self,
        loss: float,
        reference_loss: float | None,
        found: dict[str, Standing],
        made: _Made,
        notes: tuple[str, ...],
        seconds: float,
    ) -> Epoch:
        own, other = _network_metrics(found, "cycle"), _network_metrics(found, "reference")
        return Epoch(
            epoch=self.state.epoch,
            loss=loss,
            reference_loss=reference_loss,
            rate=self.line.rate,
            **own,
            **{f"reference_{name}": value for name, value in other.items()},
            kept=_share(self.state.selected),
            used=_share(self.state.keep),
            q_reached=made.q_reached,
            q_spread=made.q_spread,
            quality=quality_of(self.state.selected, self.task.truly_clean),
            notes=notes,
            seconds=seconds,
            select_seconds=made.seconds,
        )


def _network_metrics(found: dict[str, Standing], line: str) -> dict[str, float | None]:
    if f"{line} weights" not in found:
        return dict.fromkeys(("accuracy", "accuracy_average", "held_out"))
    weights, average = found[f"{line} weights"], found[f"{line} average"]
    right = _better(found, line)
    return {
        "accuracy": weights.test_accuracy,
        "accuracy_average": average.test_accuracy,
        "held_out": float(right.double().mean()) if len(right) else None,
    }


def _better(found: dict[str, Standing], line: str) -> Tensor:
    """Return where the better of a line's two networks is right."""
    weights, average = found[f"{line} weights"], found[f"{line} average"]
    return weights.right if weights.held_out > average.held_out else average.right


def _share(mask: Tensor | None) -> float:
    return 1.0 if mask is None else float(mask.double().mean())
