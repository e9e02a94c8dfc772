"""What the passes over a cluster have found, on disk: a selection that was stopped goes on.

Small arrays only, in files of NumPy without pickled objects, one for each pass.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from kspr._files import staged
from kspr.core.halves import Census
from kspr.core.linear_fit import LinearFit
from kspr.selectors._partitions import Look

__all__ = [
    "SavedPasses",
    "anchors_of",
    "arrays_of_anchors",
    "arrays_of_fits",
    "arrays_of_look",
    "fits_of",
    "look_of",
]

Arrays = dict[str, np.ndarray]
Result = TypeVar("Result")


class SavedPasses:
    """A folder with the results of passes; without one, nothing is kept."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def once(
        self,
        name: str,
        work: Callable[[], Result],
        pack: Callable[[Result], Arrays],
        unpack: Callable[[Arrays], Result],
    ) -> Result:
        """Return what `work` returns, or what it returned when it was last done."""
        if self._folder is None:
            return work()
        path = self._folder / f"{name}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as found:
                return unpack(dict(found))
        result = work()
        with staged(path) as staging, staging.open("wb") as file:
            np.savez(file, **pack(result))  # type: ignore[arg-type]
        return result


def arrays_of_look(found: Look) -> Arrays:
    """Return a look as arrays."""
    plain = ("number", "n_features", "dtype", "texts", "largest", "limit")
    arrays = {name: np.array(getattr(found, name)) for name in plain}
    arrays["digest"] = np.array(found.digest, dtype=np.uint64)
    for split, census in enumerate(found.censuses):
        # Texts that came as objects would have to be pickled.
        own = {**vars(census), "classes": np.array(census.classes.tolist())}
        arrays |= {f"{split}_{name}": value for name, value in own.items()}
    return arrays


def look_of(arrays: Arrays) -> Look:
    """Return the look that `arrays_of_look` has packed."""
    n_splits = sum(name.endswith("_classes") for name in arrays)
    names = [field.name for field in fields(Census)]
    censuses = (Census(*(arrays[f"{s}_{name}"] for name in names)) for s in range(n_splits))
    plain: dict[str, Any] = {
        field.name: arrays[field.name].item() for field in fields(Look) if field.name in arrays
    }
    return Look(**plain, censuses=tuple(censuses))


def arrays_of_fits(found: tuple[tuple[LinearFit, ...], np.ndarray, np.ndarray]) -> Arrays:
    """Return fits, the guess for anchors, and halves at the borders of partitions as arrays."""
    fits, least, borders = found
    arrays = {"least": least, "borders": borders}
    for split, fit in enumerate(fits):
        arrays |= {f"{split}_{name}": np.asarray(value) for name, value in vars(fit).items()}
    return arrays


def fits_of(arrays: Arrays) -> tuple[tuple[LinearFit, ...], np.ndarray, np.ndarray]:
    """Return what `arrays_of_fits` has packed."""
    names = [field.name for field in fields(LinearFit)]
    n_splits = sum(name.endswith("_mean") for name in arrays)
    fits = (LinearFit(*(arrays[f"{s}_{name}"] for name in names)) for s in range(n_splits))
    return tuple(fits), arrays["least"], arrays["borders"]


def arrays_of_anchors(found: tuple[Any, float]) -> Arrays:
    """Return the labels of anchors and the temperature as arrays."""
    counts, temperature = found
    if issparse(counts):
        parts = {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr}
    else:
        parts = {"counts": counts}
    return {**parts, "temperature": np.array(temperature)}


def anchors_of(arrays: Arrays) -> tuple[Any, float]:
    """Return what `arrays_of_anchors` has packed."""
    temperature = float(arrays["temperature"])
    if "counts" in arrays:
        return arrays["counts"], temperature
    c = len(arrays["indptr"]) - 1
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    return csr_array(parts, shape=(c, c)), temperature
