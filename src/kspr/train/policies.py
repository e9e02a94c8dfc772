"""When the labels of a cycle are judged, and by what: the policies `Alg3` and `Referees`."""

import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from kspr.models.network import Network
from kspr.selectors import KnockoffsSPR, PaperKnockoffsSPR, Selection
from kspr.train.guard import (
    MOST_CLASSES,
    Health,
    ModelChoice,
    credit_table,
    estimated_transition,
    finds_little_noise,
    keeps_nearly_all,
)
from kspr.train.metrics import check_converged
from kspr.train.patches import patch_features
from kspr.train.referees import Parts, Unseen, ask_referees, first_copies, random_parts, teach
from kspr.train.run_folder import Checkpoints
from kspr.train.settings import TrainSettings, make_selector, referee_selector
from kspr.train.task import Setup, Task

if TYPE_CHECKING:
    from kspr.train.cycle import Cycle

__all__ = [
    "Alg3",
    "Chosen",
    "Judgement",
    "Policy",
    "Referees",
    "choose",
    "choose_by_referees",
    "judgement",
    "with_seen_labels",
]


class Chosen(NamedTuple):
    """A selection and its duration in seconds."""

    selection: Selection
    seconds: float

    @property
    def q_reached(self) -> float:
        """Mean level that the cut groups of the kept samples reached; nan if none is known."""
        return self.selection.summary().q_reached

    @property
    def q_spread(self) -> float:
        """Standard deviation of the level over cut groups that reached one; nan if none did."""
        reached = self.selection.cut_groups.levels_met
        return float(reached.std()) if len(reached) else float("nan")


@dataclass(frozen=True)
class Judgement:
    """A selection and what may be used of it, as all ranks know them."""

    selected: Tensor
    """Mask of the kept labels."""
    keep: Tensor | None
    """Mask of the samples whose labels are used; None for all."""
    has_little_noise: bool
    """Whether hardly any label is estimated to be wrong."""
    seconds: float = 0.0
    """Duration; this and what follows is known on rank 0."""
    q_reached: float | None = None
    q_spread: float | None = None
    notes: tuple[str, ...] = ()
    """Sentences of the guard."""


def judgement(setup: Setup, chosen: Chosen | None, health: Health | None) -> Judgement:
    """Return on all ranks what `chosen` and `health`, known on rank 0, come to."""
    # One tensor of fixed size: all ranks must call a collective with the same shape.
    masks = torch.zeros((4, len(setup.task.label)), dtype=torch.uint8)
    if chosen is not None and health is not None:
        masks[0] = torch.from_numpy(chosen.selection.clean_mask)
        if health.keep is not None:
            masks[1], masks[2] = torch.from_numpy(health.keep), 1
        masks[3] = int(finds_little_noise(chosen.selection))
    masks = setup.world.broadcast(masks).bool()
    shared = Judgement(masks[0], masks[1] if masks[2].all() else None, bool(masks[3].all()))
    if chosen is None or health is None:
        return shared
    return replace(
        shared,
        seconds=chosen.seconds,
        q_reached=chosen.q_reached,
        q_spread=chosen.q_spread,
        notes=health.reasons,
    )


class Policy(Protocol):
    """When the labels of a cycle are judged, and by what."""

    repeats: bool
    """Whether selections are made again, so that rows may change sides."""

    def unseen(self, cycle: "Cycle") -> Unseen | None:
        """Return features that have not seen the labels; None without such."""
        ...

    def begin(
        self, cycle: "Cycle", features: Unseen | None, frozen: Chosen | None
    ) -> Judgement | None:
        """Judge before the first epoch; `frozen` is the selection by `features`, on rank 0."""
        ...

    def after_epoch(self, cycle: "Cycle") -> Judgement | None:
        """Judge after an epoch; return None where no judgement is due."""
        ...

    def finish(self, cycle: "Cycle", choice: ModelChoice) -> None:
        """Select by the network that the run ends with, where a selection belongs to a network."""
        ...


class Alg3:
    """Select by the network in training, or by the inputs, every few epochs: Alg. 3."""

    repeats = True
    _otherwise = "all given labels are used"

    def unseen(self, cycle: "Cycle") -> Unseen | None:
        """Return the embeddings, or the features of a network that was pre-trained."""
        return _unseen(cycle)

    def begin(
        self, cycle: "Cycle", features: Unseen | None, frozen: Chosen | None
    ) -> Judgement | None:
        """Select before the first epoch if there is no warm-up; let the guard know the noise."""
        judged = None
        if cycle.setup.settings.warmup_epochs == 0:
            # The classifier is untrained, so its scores are noise.
            judged = self._judge(cycle, features, frozen, trained=False)
        # Not by the noise of later selections: a network that has learned the labels sees too
        # little of it.
        task = cycle.setup.task
        if cycle.guard.reference is not None and task.n_classes <= MOST_CLASSES:
            transition = estimated_transition(cycle.frozen, task.classes)
            cycle.state.credit = credit_table(cycle.setup.world.broadcast(transition))
        return judged

    def after_epoch(self, cycle: "Cycle") -> Judgement | None:
        """Select every few epochs after the warm-up, and after the last epoch.

        With ``select_every=0`` there is one selection after the warm-up, if epochs follow it.
        """
        settings, epoch = cycle.setup.settings, cycle.epoch
        every, since = settings.select_every, epoch - settings.warmup_epochs
        if every == 0:
            due = since == 0 and epoch < settings.epochs
        else:
            due = since >= 0 and (since % every == 0 or epoch == settings.epochs)
        return self._judge(cycle, trained=True) if due else None

    def finish(self, cycle: "Cycle", choice: ModelChoice) -> None:
        """Select by the final network, unless the last selection is its.

        A selection by the inputs belongs to no network, and with ``select_every=0`` the only one
        stays.
        """
        is_last = choice.name.startswith("cycle") and choice.epoch == cycle.epoch
        settings = cycle.setup.settings
        if not is_last and settings.select_every > 0 and settings.select_on == "network":
            judged, _ = _select(cycle, self._otherwise, trained=True)
            cycle.state.selected = judged.selected

    def _judge(
        self,
        cycle: "Cycle",
        features: Unseen | None = None,
        frozen: Chosen | None = None,
        *,
        trained: bool,
    ) -> Judgement:
        # Only the first: a network that has memorised labels makes later selections keep more.
        is_first = cycle.state.selected is None
        judged, scores = _select(cycle, self._otherwise, features, frozen, trained=trained)
        cycle.use(judged, scores)
        if is_first and keeps_nearly_all(judged.keep):
            cycle.release()
        return judged


class Referees:
    """Judge once, before the first epoch, by networks that have not seen the labels.

    Parameters
    ----------
    network
        Initial weights of the referees.
    checkpoints
        As in `Parts`.
    """

    repeats = False
    _otherwise = "all soft labels are used"

    def __init__(self, network: Network, checkpoints: Checkpoints) -> None:
        self._network, self._checkpoints = network, checkpoints

    def unseen(self, cycle: "Cycle") -> Unseen | None:
        """Return the embeddings; of images, features of weights that were given, or of patches."""
        setup, settings = cycle.setup, cycle.setup.settings
        if settings.input == "embeddings" or settings.weights is not None:
            return _unseen(cycle)
        # Also after SimSiam, which learns from the images at hand and knows less.
        mirrored, seed = settings.flip, settings.seed
        values = patch_features(setup.task.inputs, setup.world, mirrored=mirrored, seed=seed)
        return Unseen(values, is_weak=True)

    def begin(
        self, cycle: "Cycle", features: Unseen | None, frozen: Chosen | None
    ) -> Judgement | None:
        """Have the labels judged, unless a selection by `features` shows that nearly all are right.

        Then there is nothing to judge, and training is plain.
        """
        judged = None
        if cycle.setup.settings.warmup_epochs == 0:
            judged, scores = _select(cycle, self._otherwise, features, frozen, trained=False)
            cycle.use(judged, scores)
        if judged is not None and _leaves_nothing_to_do(judged):
            cycle.release()
            return judged
        if features is None:
            raise TypeError("Referees learn from features; this policy always has some.")
        start = time.perf_counter()
        asked = self._ask(cycle, features)
        before = 0.0 if judged is None else judged.seconds
        return replace(asked, seconds=before + time.perf_counter() - start)

    def after_epoch(self, cycle: "Cycle") -> Judgement | None:  # noqa: ARG002 - judged once
        """Return None: the judgement before the first epoch stands."""
        return None

    def finish(self, cycle: "Cycle", choice: ModelChoice) -> None:
        """Do nothing: the selection belongs to no network."""

    def _ask(self, cycle: "Cycle", features: Unseen) -> Judgement:
        """Select by what referees say, and train on their soft labels."""
        setup, world = cycle.setup, cycle.setup.world
        task, settings = setup.task, setup.settings
        # Only rank 0 knows which rows are copies of each other.
        copies = None if cycle.frozen is None else cycle.frozen.duplicate_set
        part = random_parts(task.label, copies, settings.referee_parts, settings.seed)
        parts = Parts(setup, world.broadcast(part), self._network, self._checkpoints)
        first = first_copies(len(task.label), copies)
        chances = ask_referees(parts, features, first)
        chosen = health = None
        if world.rank == 0:
            chosen = choose_by_referees(settings, chances, task)
            cycle.selection = chosen.selection
            health = cycle.guard.health(chosen.selection, self._otherwise)
        judged = judgement(setup, chosen, health)
        cycle.use(judged, chances.log())
        if _leaves_nothing_to_do(judged):
            cycle.release()
        else:
            # Also where the selection is not healthy: soft labels say how little is known.
            cycle.state.targets, transition = teach(parts, chances, features, first)
            cycle.state.credit = credit_table(transition)
        return judged


def _unseen(cycle: "Cycle") -> Unseen | None:
    """Return embeddings, or features of a network that was trained before on something else."""
    settings = cycle.setup.settings
    if settings.input == "embeddings":
        return Unseen(_all_inputs(cycle))
    if settings.pretrain_epochs or settings.weights is not None:
        return Unseen(cycle.outputs()[0])
    return None


def _all_inputs(cycle: "Cycle") -> Tensor:
    inputs = cycle.setup.task.inputs
    return inputs.take(torch.arange(len(inputs)))


def _select(
    cycle: "Cycle",
    otherwise: str,
    unseen: Unseen | None = None,
    frozen: Chosen | None = None,
    *,
    trained: bool,
) -> tuple[Judgement, Tensor]:
    """Select by features on rank 0; return the judgement and the network's scores on all.

    `otherwise` is as in `examine`. `frozen` is the selection by the features `unseen`, on rank 0;
    without them a selection is made by the network, or by the inputs if these are asked for.
    `trained` says whether the network has learned the labels already.
    """
    setup, settings, state = cycle.setup, cycle.setup.settings, cycle.state
    features, scores = cycle.outputs()
    by_inputs = settings.select_on == "inputs"
    if unseen is not None:
        # Random layers on top of good embeddings would only blur them.
        features = unseen.values
    elif by_inputs:
        features = _all_inputs(cycle)
    check_converged((features, scores), settings)
    chosen = frozen
    if chosen is None and setup.world.rank == 0:
        # Classes without samples have scores too, but the selection does not know them.
        present = torch.unique(setup.task.label).to(scores.device)
        shown = scores[:, present] if trained else None
        given = setup.task.given
        chosen = choose(settings, features, given, shown, state.selected, cycle.epoch)
    health = None
    if chosen is not None:
        has_seen = trained and not by_inputs
        cycle.selection = with_seen_labels(chosen.selection) if has_seen else chosen.selection
        health = cycle.guard.health(chosen.selection, otherwise)
    return judgement(setup, chosen, health), scores


def _leaves_nothing_to_do(judged: Judgement) -> bool:
    """Return whether plain training is as good as training on soft labels.

    At q = 0.1 a selection keeps all labels if fewer than a tenth are wrong. Only soft labels can be
    better then, so the estimated noise must be small too.
    """
    return keeps_nearly_all(judged.keep) and judged.has_little_noise


def choose_by_referees(settings: TrainSettings, probabilities: Tensor, task: Task) -> Chosen:
    """Select clean labels by class probabilities of networks that have not seen them."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # Agreement with the labels everywhere is no sign of memorising here.
        warnings.simplefilter("ignore", UserWarning)
        model = referee_selector(settings).fit(
            probabilities.numpy(), task.given, classes=task.classes
        )
    return Chosen(model.selection_, time.perf_counter() - start)


def choose(
    settings: TrainSettings,
    features: Tensor,
    y: np.ndarray,
    scores: Tensor | None,
    last: Tensor | None,
    epoch: int = 0,
) -> Chosen:
    """Select clean labels among `y` by `features`.

    `scores` determine the most confident knockoff label, `last` is the previous clean mask. The
    split is that of `epoch`. Columns of zeros (units of the network that are never active) do no
    harm.
    """
    selector = make_selector(settings, epoch)
    given: dict[str, Any] = {}
    if not isinstance(selector, KnockoffsSPR):
        # Eq. prototype: class means over the clean samples of the last selection.
        given["clean_mask"] = None if last is None else last.cpu().numpy()
    if isinstance(selector, PaperKnockoffsSPR):
        given["scores"] = None if scores is None else scores.detach().cpu().numpy()
    start = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad():
        # The guard finds the same faults in the selection itself.
        warnings.simplefilter("ignore", UserWarning)
        selection = selector.fit(features.detach().cpu().numpy(), y, **given).selection_
    return Chosen(selection, time.perf_counter() - start)


def with_seen_labels(selection: Selection) -> Selection:
    """Return a selection that says that its features have learned these labels.

    Its error rate is then an estimate, and no cut group has the status ``assumed``, at no level.
    """
    status = selection.cut_groups.status
    status = np.where(status == "assumed", "estimated", status)
    return replace(
        selection,
        cut_groups=replace(selection.cut_groups, status=status),
        manifest=replace(selection.manifest, seen_labels=True),
    )
