"""One selection of the cycle, on the device of the features, with its duration."""

import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kspr.errors import InputError
from kspr.selectors import SPR, KnockoffsSPR, Selection, from_preset
from kspr.selectors.probability import ProbabilitySelector
from kspr.train.settings import TrainSettings
from kspr.train.task import Task

__all__ = [
    "Chosen",
    "choose",
    "choose_by_referees",
    "make_selector",
    "referee_selector",
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


def make_selector(settings: TrainSettings) -> SPR | KnockoffsSPR:
    """Return the selector that `settings` asks for; an unknown parameter is named."""
    # The user's own parameters come last, and win.
    parameters = {"random_state": settings.seed, "progress": False, **settings.selection}
    return from_preset(settings.selector, **parameters)


def referee_selector(settings: TrainSettings) -> ProbabilitySelector:
    """Return the selector that cuts what referees say: the same error rate, control and cut."""
    asked = make_selector(settings).get_params(deep=False)
    shared = {name: asked[name] for name in ProbabilitySelector().get_params() if name in asked}
    if shared.get("control") not in ("transition", "exchangeable"):
        raise InputError(
            f"select_on='referees' goes with control='transition' or 'exchangeable', not with "
            f"{shared.get('control')!r}. Pass select_on='network' for the paper's way."
        )
    return ProbabilitySelector(**shared)


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
) -> Chosen:
    """Select clean labels among `y` by `features`, on the device that holds them.

    `scores` determine the most confident knockoff label, `last` is the previous clean mask. Columns
    of zeros (units of the network that are never active) do no harm.
    """
    selector = make_selector(settings)
    given: dict[str, Any] = {}
    if isinstance(selector, KnockoffsSPR):
        given["scores"] = None if scores is None else _shown(scores)
        # Eq. prototype: class means over the clean samples of the last selection.
        given["clean_mask"] = None if last is None else last.cpu().numpy()
    start = time.perf_counter()
    with warnings.catch_warnings(), torch.no_grad():
        # The guard finds the same faults in the selection itself.
        warnings.simplefilter("ignore", UserWarning)
        selection = selector.fit(_shown(features), y, **given).selection_
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


def _shown(values: Tensor) -> Tensor | np.ndarray:
    """Return a CPU tensor as an array, without a copy, and any other tensor unchanged."""
    # The core's linear algebra on arrays runs both halves at once, and takes a third of the time.
    return values.detach().numpy() if values.device.type == "cpu" else values
