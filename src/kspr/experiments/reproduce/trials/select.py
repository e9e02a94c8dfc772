"""How good the selection of a variant is, on features as they are."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.experiments.reproduce.trials.trial import Job, selected
from kspr.selectors import Selection

__all__ = ["levels", "run"]


def run(job: Job) -> Mapping[str, Any]:
    """Return FSR, recall and F1, the level that was reached, and the share that is kept."""
    sample, selection = selected(job)
    quality = selection_quality(selection.clean_mask, truly_clean(selection.label, sample.truth))
    return {**asdict(quality), **levels(selection), "kept": float(selection.clean_mask.mean())}


def levels(selection: Selection) -> dict[str, float | None]:
    """Return mean and standard deviation of the levels over the cells that reach one.

    `fallback` is the share of cells that reach none, and keep their better half.
    """
    reached = selection.cut_groups.levels_met
    if selection.q_value is None or not len(reached):
        return {"q": None, "q_spread": None, "fallback": None}
    return {
        "q": float(reached.mean()),
        "q_spread": float(reached.std()),
        "fallback": float((selection.cut_groups.status == "fallback").mean()),
    }
