"""The control for wrong labels that fall evenly: each label is compared with all others at once."""

import numpy as np

from kspr.core.exchangeable import exchangeable_levels, lead
from kspr.core.knockoffs import all_times
from kspr.core.transition import Transition, wrong_among
from kspr.errors import InputError
from kspr.selectors.controls.control import Decision, Question, whole_cut_groups
from kspr.selectors.controls.transition import describe_noise, estimate_noise

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
    codes = question.codes
    Z = all_times(question.verdicts.values["prediction"], question.penalty)
    # Also without remove_floor: users see it in `Selection.noise`.
    noise = estimate_noise(question)
    floor = _floor(noise, codes) if question.remove_floor else None
    level = exchangeable_levels(Z, codes, floor, pooled=question.pooled)
    own, share = lead(Z, codes)
    # The sign has the meaning that it has in W: negative is ahead.
    statistic = np.where(share >= 0.5, -own, own)
    cut_group, table = whole_cut_groups(question)
    suggested = np.argmax(question.verdicts.values["prediction"], axis=1)
    return Decision(
        level,
        statistic,
        cut_group,
        table,
        suggested,
        describe_noise(noise, codes, question.classes),
    )


def _floor(noise: Transition, codes: np.ndarray) -> np.ndarray:
    """Return a lower bound of the share of wrong labels, class by class.

    The floor comes from the share among those with the label. Where this is above the share among
    those of the class, labels do not fall evenly, or classes differ much in size. The lower of the
    two keeps less, and is less wrong under pair flips.
    """
    own = 1.0 - np.diag(noise.matrix) - _ONE_SIDED * noise.error
    return np.asarray(np.clip(np.minimum(own, wrong_among(noise, codes, -_ONE_SIDED)), 0.0, 1.0))
