"""What the tests of reproduced trials share."""

import io

import numpy as np
from PIL import Image

from kspr.experiments.reproduce.recipes import load_recipe
from kspr.experiments.reproduce.trials import TrialSpec

QUICK = load_recipe("figure4")
"""Six selections on digits."""
FEATURES = {"source": "features", "dataset": "cifar10"}
IMAGES = {"source": "images", "dataset": "cifar10", "rows": 60, "test_rows": 20}


def png(rng) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def spec(kind, source, variant, settings=None, **more) -> TrialSpec:
    given = settings or {}
    return TrialSpec(kind, "CIFAR-10", source, given, "Sym. 40 %", "SPR", variant, 0, **more)


def values(result):
    return [(t.data, t.noise, t.variant, t.seed, dict(t.values)) for t in result.trials]
