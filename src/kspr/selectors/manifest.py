"""What made a result: parameters, seed, versions, and a fingerprint of the data."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from kspr import _packages

__all__ = ["Manifest", "fingerprint", "plain", "versions"]


@dataclass(frozen=True)
class Manifest:
    """Everything that is needed to compute the same result again, except the data."""

    method: str
    """Class of the selector."""
    parameters: dict[str, Any]
    """Its parameters; objects by their repr."""
    seed: int
    """Seed of the random numbers, as drawn from ``random_state``."""
    n_samples: int
    n_features: int
    fingerprint: str
    """Digest of features and labels."""
    versions: dict[str, str]
    """Versions of Python and of the packages that the result depends on."""
    seen_labels: bool = False
    """Whether the features come from a network that was trained on these labels: then the error
    rate is an estimate that is too low."""


def versions() -> dict[str, str]:
    """Return the versions that a result can depend on."""
    installed = _packages.versions("knockoffs-spr", "numpy", "scikit-learn")
    names = {"knockoffs-spr": "kspr"}
    return {names.get(package, package): str(number) for package, number in installed.items()}


def fingerprint(content: np.ndarray, shape: tuple[int, int], labels: np.ndarray) -> str:
    """Return a digest of features and labels: equal for equal data, however it is stored.

    `content` has a number for the content of each row.
    """
    # The shape too: rows of zeros have one content, however long they are.
    digest = hashlib.sha256(repr(shape).encode())
    digest.update(np.ascontiguousarray(content).data)
    # Labels of any type have a text; their storage (fixed width, object) must not matter.
    for start in range(0, len(labels), 1 << 16):
        texts = map(str, labels[start : start + (1 << 16)].tolist())
        digest.update(("\x1f".join(texts) + "\x1f").encode())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: numbers and text as they are, objects by their repr."""
    if isinstance(value, np.generic):
        # JSON knows Python's numbers only.
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)
