"""Samples that a selection keeps although their label is wrong, to look at."""

import base64
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from kspr.core.labels import truly_clean
from kspr.core.metrics import selection_quality
from kspr.errors import InputError
from kspr.experiments.reproduce.trials.trial import Job, selected

__all__ = ["run"]


def run(job: Job) -> Mapping[str, Any]:
    """Return a few falsely selected samples drawn at random: picture, given and true class."""
    sample, selection = selected(job)
    if sample.picture is None:
        raise InputError(f"{sample.about}: there are no images beside the features to show.")
    wrong = ~truly_clean(selection.label, sample.truth)
    found = np.flatnonzero(selection.clean_mask & wrong)
    shown = np.random.default_rng([job.seed, 11]).permutation(found)[: job.settings["shown"]]
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
