"""The control for wrong labels that fall evenly: each label is compared with all others at once."""

from collections.abc import Callable

import numpy as np

from kspr.core.coded import coded
from kspr.core.exchangeable import GradedLosses, Losses, lead
from kspr.core.knockoffs import all_times
from kspr.core.transition import AnyTransition, estimate_transition, wrong_among
from kspr.errors import InputError
from kspr.selectors._passes import put
from kspr.selectors.controls.control import Decision, Question, whole_cut_groups
from kspr.selectors.controls.transition import describe_noise

__all__ = ["check_enough", "exchangeable", "noise_floor"]

_ONE_SIDED = 1.64
"""Standard errors below an estimated share that make it a lower bound, 19 times in 20."""

Times = Callable[[slice, np.ndarray], np.ndarray]
"""The times of all classes as labels, from rows and their fitted values."""


def exchangeable(question: Question) -> Decision:
    """Return the decision from comparing every label with all others at once."""
    check_enough(len(question.classes))
    # Also without remove_floor: users see it in `Selection.noise`.
    noise = estimate_transition(question.all_classes.anchors)
    floor = noise_floor(noise, question.sizes) if question.remove_floor else None

    def leads(_: slice, prediction: np.ndarray) -> np.ndarray:
        return all_times(prediction, question.penalty)

    level, statistic = (_graded if question.graded else _exact)(question, leads, floor)
    cut_group, table = whole_cut_groups(question)
    suggested = question.verdicts.values["suggested"]
    described = describe_noise(noise, question.sizes, question.classes)
    return Decision(level, statistic, cut_group, table, suggested, described)


def _exact(
    question: Question, leads: Times, floor: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return levels and statistics by sorting all times."""
    codes, predictions = question.codes, question.all_classes.predictions
    columns: dict[str, np.ndarray] = {}
    for rows, Z in predictions.map(leads, "Comparing rows"):
        own, share = lead(Z, codes[rows])
        put(columns, rows, {"own": own, "share": share}, len(codes))
    own, share = columns["own"], columns["share"]
    losses = Losses(own, share, codes, len(question.classes), pooled=question.pooled)
    for rows, Z in predictions.map(leads, "Counting losses"):
        losses.add(Z, own[rows], codes[rows])
    # The sign has the meaning that it has in W: negative is ahead.
    return losses.levels(floor), np.where(share >= 0.5, -own, own)


def _graded(
    question: Question, leads: Times, floor: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return levels and statistics in one pass, as a cluster does."""
    codes, columns = question.codes, dict[str, np.ndarray]()
    losses = GradedLosses(len(question.classes), pooled=question.pooled)
    for rows, Z in question.all_classes.predictions.map(leads, "Counting losses"):
        grade, statistic = losses.add(Z, codes[rows])
        put(columns, rows, {"grade": grade, "statistic": statistic}, len(codes))
    levels = losses.levels(floor)
    return coded(levels.places(columns["grade"], codes), levels.table), columns["statistic"]


def check_enough(n_classes: int) -> None:
    """Refuse two classes."""
    if n_classes < 3:
        raise InputError(
            "control='exchangeable' needs at least three classes, got 2: of two, the knockoff of a "
            "wrong label is always the right one. Use control='transition'."
        )


def noise_floor(noise: AnyTransition, sizes: np.ndarray) -> np.ndarray:
    """Return a lower bound of the share of wrong labels, class by class.

    The floor comes from the share among those with the label. Where this is above the share among
    those of the class, labels do not fall evenly, or classes differ much in size. The lower of the
    two keeps less, and is less wrong under pair flips.
    """
    own = 1.0 - noise.right - _ONE_SIDED * noise.error
    return np.asarray(np.clip(np.minimum(own, wrong_among(noise, sizes, -_ONE_SIDED)), 0.0, 1.0))
