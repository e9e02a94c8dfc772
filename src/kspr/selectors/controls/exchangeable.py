"""The control for wrong labels that fall evenly: each label is compared with all others at once."""

import numpy as np

from kspr.core.exchangeable import Losses, lead
from kspr.core.knockoffs import all_times
from kspr.core.transition import AnyTransition, estimate_transition, wrong_among
from kspr.errors import InputError
from kspr.selectors._passes import put
from kspr.selectors.controls.control import Decision, Question, whole_cut_groups
from kspr.selectors.controls.transition import describe_noise

__all__ = ["exchangeable"]

_ONE_SIDED = 1.64
"""Standard errors below an estimated share that make it a lower bound, 19 times in 20."""


def exchangeable(question: Question) -> Decision:
    """Return the decision from comparing every label with all others at once."""
    n_classes = len(question.classes)
    if n_classes < 3:
        raise InputError(
            "control='exchangeable' needs at least three classes, got 2: of two, the knockoff of a "
            "wrong label is always the right one. Use control='transition'."
        )
    codes, predictions = question.codes, question.all_classes.predictions

    def leads(_: slice, prediction: np.ndarray) -> np.ndarray:
        return all_times(prediction, question.penalty)

    columns: dict[str, np.ndarray] = {}
    for rows, Z in predictions.map(leads, "Comparing rows"):
        own, share = lead(Z, codes[rows])
        put(columns, rows, {"own": own, "share": share}, len(codes))
    own, share = columns["own"], columns["share"]
    losses = Losses(own, share, codes, n_classes, pooled=question.pooled)
    for rows, Z in predictions.map(leads, "Counting losses"):
        losses.add(Z, own[rows], codes[rows])
    # Also without remove_floor: users see it in `Selection.noise`.
    noise = estimate_transition(question.all_classes.anchors)
    level = losses.levels(_floor(noise, question.sizes) if question.remove_floor else None)
    # The sign has the meaning that it has in W: negative is ahead.
    statistic = np.where(share >= 0.5, -own, own)
    cut_group, table = whole_cut_groups(question)
    suggested = question.verdicts.values["suggested"]
    return Decision(
        level,
        statistic,
        cut_group,
        table,
        suggested,
        describe_noise(noise, question.sizes, question.classes),
    )


def _floor(noise: AnyTransition, sizes: np.ndarray) -> np.ndarray:
    """Return a lower bound of the share of wrong labels, class by class.

    The floor comes from the share among those with the label. Where this is above the share among
    those of the class, labels do not fall evenly, or classes differ much in size. The lower of the
    two keeps less, and is less wrong under pair flips.
    """
    own = 1.0 - noise.right - _ONE_SIDED * noise.error
    return np.asarray(np.clip(np.minimum(own, wrong_among(noise, sizes, -_ONE_SIDED)), 0.0, 1.0))
