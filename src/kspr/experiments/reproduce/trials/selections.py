"""Trials of a selector on fixed features: its quality, its seconds, its mistakes as pictures."""

import base64
import io
import time as clock
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.errors import InputError
from kspr.experiments.reproduce.trials.trial import TrialSpec, selected, selector_of
from kspr.selectors import Selection

__all__ = ["examples", "levels", "select", "time"]


def select(spec: TrialSpec) -> Mapping[str, Any]:
    """Return FSR, recall and F1, the level that was reached, and the share that is kept."""
    sample, selection = selected(spec)
    quality = selection_quality(selection.clean_mask, truly_clean(selection.label, sample.truth))
    return {**asdict(quality), **levels(selection), "kept": float(selection.clean_mask.mean())}


def levels(selection: Selection) -> dict[str, float | None]:
    """Return mean and standard deviation of the levels over the cut groups that reach one.

    `fallback` is the share of cut groups that reach none, and keep their better half.
    """
    # Cut groups that fell back have no level, and would pull the mean to nan.
    reached = selection.cut_groups.levels_met
    if selection.q_value is None or not len(reached):
        return {"q": None, "q_spread": None, "fallback": None}
    return {
        "q": float(reached.mean()),
        "q_spread": float(reached.std()),
        "fallback": float((selection.cut_groups.status == "fallback").mean()),
    }


def time(spec: TrialSpec) -> Mapping[str, Any]:
    """Return the median seconds of a few selections, and the quality of the last one."""
    sample, selector = spec.sample(), selector_of(spec)
    seconds = []
    # The median of a few: the first fit also pays for imports and cold caches.
    for _ in range(spec.settings.get("repeats", 3)):
        start = clock.perf_counter()
        selection = selector.fit(sample.X, sample.label).selection_
        seconds.append(clock.perf_counter() - start)
    quality = selection_quality(selection.clean_mask, truly_clean(selection.label, sample.truth))
    return {"seconds": float(np.median(seconds)), **asdict(quality), "rows": len(sample.label)}


def examples(spec: TrialSpec) -> Mapping[str, Any]:
    """Return falsely selected samples drawn at random: picture, given class and true class."""
    sample, selection = selected(spec)
    if sample.picture is None:
        raise InputError(
            f"{sample.about}: the folder has features but no images to show. Pass a folder that "
            "has both with --data."
        )
    wrong = ~truly_clean(selection.label, sample.truth)
    found = np.flatnonzero(selection.clean_mask & wrong)
    # A second number in the seed: the noise has drawn from the stream of the seed alone.
    shown = np.random.default_rng([spec.seed, 11]).permutation(found)[: spec.settings["shown"]]
    truth = sample.label if sample.truth is None else sample.truth
    return {
        "examples": [
            {
                "row": int(row),
                "given": sample.name(sample.label[row]),
                "true": sample.name(truth[row]),
                "png": _png(sample.picture(int(row))),
            }
            for row in np.sort(shown)
        ],
        "falsely_selected": len(found),
        "fsr": selection_quality(selection.clean_mask, ~wrong).fsr,
    }


def _png(image: Any) -> str:
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return base64.b64encode(stream.getvalue()).decode()
