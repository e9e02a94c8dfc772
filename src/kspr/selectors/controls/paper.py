"""The paper's control: each label is compared with one knockoff, and losses are counted."""

import numpy as np

from kspr.core.cutoffs import q_values, theorem_factor
from kspr.selectors._pieces import number_cut_groups
from kspr.selectors._plan import Plan
from kspr.selectors.controls.control import Decision, Question

__all__ = ["level_factors", "paper"]


def paper(question: Question) -> Decision:
    """Return the decision of Eq. T, with Theorem 2's factor on q."""
    verdicts = question.verdicts
    cut_group, table = number_cut_groups(
        verdicts.piece, verdicts.half, question.codes, pooled=question.pooled
    )
    W = verdicts.values["W"]
    # Theorem 2 wants an estimate of at most factor * q, so it holds from q = estimate / factor on.
    level = q_values(W, cut_group)
    if (question.factor != 1.0).any():
        level /= question.factor[verdicts.piece]
    return Decision(level, W, cut_group, table, verdicts.values["suggested"])


def level_factors(plan: Plan, control: str, kappa: float | None) -> np.ndarray:
    """Return the factor that Theorem 2 puts on q, one per piece; ones for other controls."""
    sizes = [pieces.classes.shape[1] for _, pieces in plan.batches]
    counts = [pieces.n_pieces for _, pieces in plan.batches]
    if control != "theorem":
        return np.ones(sum(counts))
    # Groups can differ in their number of classes, and so can the factor.
    factor = {size: theorem_factor(size, kappa) for size in set(sizes)}
    return np.repeat([factor[size] for size in sizes], counts)
