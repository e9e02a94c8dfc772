"""When the labels of a cycle are judged, and by what: the policies `Alg3` and `Referees`."""

import time
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
)
from kspr.train.referees import Parts, Unseen, ask_referees, first_copies, random_parts, teach
from kspr.train.run_folder import Checkpoints
from kspr.train.settings import TrainSettings, make_selector, referee_selector
from kspr.train.task import Setup, Task
from kspr.train.unlabelled import patch_features

if TYPE_CHECKING:
    from kspr.train.cycle import Cycle

__all__ = [
    "Alg3",
    "Chosen",
    "Judgement",
    "Policy",
    "Referees",
    "Unseen",
    "choose",
    "choose_by_referees",
    "judgement",
    "with_seen_labels",
]


class Chosen(NamedTuple):
    """A selection and its duration in seconds."""

    selection: Selection
    seconds: float


@dataclass(frozen=True)
class Judgement:
    """A selection and what may be used of it, as all ranks know them."""

    selected: Tensor
    """Mask of the kept labels."""
    keep: Tensor | None
    """Mask of the samples whose labels are used; None for all."""
    has_little_noise: bool
    """Whether hardly any label is estimated to be wrong."""
    is_enough: bool = False
    """Whether plain training is as good as any other: nearly all labels are kept."""
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
    measured: dict[str, Any] = {}
    if chosen is not None and health is not None:
        selection = chosen.selection
        masks[0] = torch.from_numpy(selection.clean_mask)
        if health.keep is not None:
            masks[1], masks[2] = torch.from_numpy(health.keep), 1
        masks[3] = int(finds_little_noise(selection))
        met = selection.cut_groups.levels_met
        measured = {
            "seconds": chosen.seconds,
            "q_reached": selection.summary().q_reached,
            "q_spread": float(met.std()) if len(met) else float("nan"),
            "notes": health.reasons,
        }
    masks = setup.world.broadcast(masks).bool()
    keep = masks[1] if masks[2].all() else None
    return Judgement(masks[0], keep, bool(masks[3].all()), **measured)


class Policy:
    """When the labels of a cycle are judged, and by what; this one judges none."""

    repeats = False
    """Whether selections are made again, so that rows may change sides."""
    otherwise = "all given labels are used"
    """What is said of a selection that cannot be used."""

    def unseen(self, cycle: "Cycle") -> Unseen | None:
        """Return features that have not seen the labels; None without such."""
        settings = cycle.setup.settings
        if settings.input == "embeddings":
            return Unseen(cycle.setup.task.all_inputs)
        # Of a network that was trained before on something else.
        if settings.pretrain_epochs or settings.weights is not None:
            return Unseen(cycle.outputs()[0])
        return None

    def begin(
        self, cycle: "Cycle", features: Unseen | None, judged: Judgement | None
    ) -> Judgement | None:
        """Judge before the first epoch, and return it with `judged`, that by `features`."""
        raise NotImplementedError

    def after_epoch(self, cycle: "Cycle") -> Judgement | None:  # noqa: ARG002 - of others
        """Judge after an epoch; return None where no judgement is due."""
        return None

    def finish(self, cycle: "Cycle", choice: ModelChoice) -> None:
        """Select by the network that the run ends with, where a selection belongs to a network."""


class Alg3(Policy):
    """Select by the network in training, or by the inputs, every few epochs: Alg. 3."""

    repeats = True

    def begin(
        self,
        cycle: "Cycle",
        features: Unseen | None,  # noqa: ARG002 - of others
        judged: Judgement | None,
    ) -> Judgement | None:
        """Let the guard know the noise."""
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
        return cycle.judge() if due else None

    def finish(self, cycle: "Cycle", choice: ModelChoice) -> None:
        """Select by the final network, unless the last selection is its.

        A selection by the inputs belongs to no network, and with ``select_every=0`` the only one
        stays.
        """
        is_last = choice.name.startswith("cycle") and choice.epoch == cycle.epoch
        settings = cycle.setup.settings
        if not is_last and settings.select_every > 0 and settings.select_on == "network":
            cycle.state.selected = cycle.select()[0].selected


class Referees(Policy):
    """Judge once, before the first epoch, by networks that have not seen the labels.

    Parameters
    ----------
    network
        Initial weights of the referees.
    checkpoints
        As in `Parts`.
    """

    otherwise = "all soft labels are used"

    def __init__(self, network: Network, checkpoints: Checkpoints) -> None:
        self._network, self._checkpoints = network, checkpoints

    def unseen(self, cycle: "Cycle") -> Unseen | None:
        """Return the embeddings; of images, features of weights that were given, or of patches."""
        setup, settings = cycle.setup, cycle.setup.settings
        if settings.input == "embeddings" or settings.weights is not None:
            return super().unseen(cycle)
        # Also after SimSiam, which learns from the images at hand and knows less.
        mirrored, seed = settings.flip, settings.seed
        values = patch_features(setup.task.inputs, setup.world, mirrored=mirrored, seed=seed)
        return Unseen(values, is_weak=True)

    def begin(
        self, cycle: "Cycle", features: Unseen | None, judged: Judgement | None
    ) -> Judgement | None:
        """Have the labels judged, unless a selection by `features` shows that nearly all are right.

        Then there is nothing to judge, and training is plain. Else select by what referees say,
        and train on their soft labels.
        """
        if features is None:
            raise TypeError("Referees learn from features; this policy always has some.")
        if judged is not None and judged.is_enough:
            return judged
        start = time.perf_counter()
        setup, world = cycle.setup, cycle.setup.world
        task, settings = setup.task, setup.settings
        # Only rank 0 knows which rows are copies of each other.
        copies = None if cycle.frozen is None else cycle.frozen.duplicate_set
        part = random_parts(task.label, copies, settings.referee_parts, settings.seed)
        parts = Parts(setup, world.broadcast(part), self._network, self._checkpoints)
        first = first_copies(len(task.label), copies)
        chances = ask_referees(parts, features, first)
        chosen = choose_by_referees(settings, chances, task) if world.rank == 0 else None
        asked = cycle.use(cycle.judgement(chosen, has_seen=False), chances.log())
        if not asked.is_enough:
            # Also where the selection is not healthy: soft labels say how little is known.
            cycle.state.targets, transition = teach(parts, chances, features, first)
            cycle.state.credit = credit_table(transition)
        before = 0.0 if judged is None else judged.seconds
        return replace(asked, seconds=before + time.perf_counter() - start)


def choose_by_referees(settings: TrainSettings, probabilities: Tensor, task: Task) -> Chosen:
    """Select clean labels by class probabilities of networks that have not seen them."""
    selector = referee_selector(settings)
    return _fitted(selector, probabilities, task.given, classes=task.classes)


def choose(
    settings: TrainSettings,
    features: Tensor,
    y: np.ndarray,
    scores: Tensor | None = None,
    last: Tensor | None = None,
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
    return _fitted(selector, features, y, **given)


def _fitted(selector: Any, values: Tensor, y: np.ndarray, **given: Any) -> Chosen:
    """Return the selection of `selector`, and how long it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        # The guard finds the same faults in the selection itself, and that referees agree with the
        # labels everywhere is no sign of memorising.
        warnings.simplefilter("ignore", UserWarning)
        selection = selector.fit(values.detach().cpu().numpy(), y, **given).selection_
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
