"""What the passes over a cluster have found, as small arrays, for a `Checkpoint`."""

from dataclasses import fields
from typing import Any

import numpy as np

from kspr.core.halves import Census
from kspr.core.linear_fit import LinearFit
from kspr.selectors._partitions import Look
from kspr.selectors.checkpoint import Arrays, pack_counts, unpack_counts

__all__ = [
    "pack_anchors",
    "pack_fits",
    "pack_look",
    "unpack_anchors",
    "unpack_fits",
    "unpack_look",
]


def pack_look(found: Look) -> Arrays:
    """Return a look as arrays."""
    plain = ("number", "n_features", "dtype", "texts", "largest", "limit")
    arrays = {name: np.array(getattr(found, name)) for name in plain}
    arrays["digest"] = np.array(found.digest, dtype=np.uint64)
    for split, census in enumerate(found.censuses):
        # Texts that came as objects would have to be pickled.
        own = {**vars(census), "classes": np.array(census.classes.tolist())}
        arrays |= {f"{split}_{name}": value for name, value in own.items()}
    return arrays


def unpack_look(arrays: Arrays) -> Look:
    """Return the look that `pack_look` has packed."""
    n_splits = sum(name.endswith("_classes") for name in arrays)
    names = [field.name for field in fields(Census)]
    censuses = (Census(*(arrays[f"{s}_{name}"] for name in names)) for s in range(n_splits))
    plain: dict[str, Any] = {
        field.name: arrays[field.name].item() for field in fields(Look) if field.name in arrays
    }
    return Look(**plain, censuses=tuple(censuses))


def pack_fits(found: tuple[tuple[LinearFit, ...], np.ndarray, np.ndarray]) -> Arrays:
    """Return fits, the guess for anchors, and halves at the borders of partitions as arrays."""
    fits, least, borders = found
    arrays = {"least": least, "borders": borders}
    for split, fit in enumerate(fits):
        arrays |= {f"{split}_{name}": np.asarray(value) for name, value in vars(fit).items()}
    return arrays


def unpack_fits(arrays: Arrays) -> tuple[tuple[LinearFit, ...], np.ndarray, np.ndarray]:
    """Return what `pack_fits` has packed."""
    names = [field.name for field in fields(LinearFit)]
    n_splits = sum(name.endswith("_mean") for name in arrays)
    fits = (LinearFit(*(arrays[f"{s}_{name}"] for name in names)) for s in range(n_splits))
    return tuple(fits), arrays["least"], arrays["borders"]


def pack_anchors(found: tuple[Any, float]) -> Arrays:
    """Return the labels of anchors and the temperature as arrays."""
    counts, temperature = found
    return {**pack_counts(counts), "temperature": np.array(temperature)}


def unpack_anchors(arrays: Arrays) -> tuple[Any, float]:
    """Return what `pack_anchors` has packed."""
    return unpack_counts(arrays), float(arrays["temperature"])
