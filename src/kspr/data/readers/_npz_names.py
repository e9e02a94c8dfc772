"""Which array of an npz archive is what."""

from collections.abc import Mapping, Sequence

from kspr.data.readers._wording import no_such
from kspr.errors import InputError

__all__ = ["choose_features", "choose_labels", "choose_truth"]

_FEATURES = ("x", "features", "feature", "embeddings", "embedding", "emb", "data")
_LABELS = ("y", "labels", "label", "targets", "target", "classes")
_TRUTH = ("truth", "y_true", "true_labels", "true_label")
_SPLITS = ("train", "test", "val", "valid", "validation")

Shapes = Mapping[str, tuple[int, ...]]


def choose_features(shapes: Shapes, name: str | None, where: str) -> str:
    """Return the array that is named, or named like features, or the only one with two axes."""
    if name is not None:
        return _present(shapes, name, where)
    flat = [array for array, shape in shapes.items() if len(shape) == 2]
    found = _among(shapes, _FEATURES, "") or _among(shapes, _FEATURES, "train") or flat
    if len(found) == 1:
        return found[0]
    raise _unclear(shapes, where, "the features with --features")


def choose_labels(shapes: Shapes, name: str | None, features: str, where: str) -> str | None:
    """Return the array that is named, or the labels that go with the array of features."""
    if name is not None:
        return _present(shapes, name, where)
    # X_test goes with y_test: labels of another split would fit by accident only.
    split = _split(features)
    found = _among(shapes, _LABELS, split)
    if len(found) > 1:
        raise _unclear(shapes, where, "the labels with --label")
    return found[0] if found else None


def choose_truth(shapes: Shapes, name: str | None, features: str, where: str) -> str | None:
    """Return the array of true labels, if there is one."""
    if name is not None:
        return _present(shapes, name, where)
    return next(iter(_among(shapes, _TRUTH, _split(features))), None)


def _present(shapes: Shapes, name: str, where: str) -> str:
    if name not in shapes:
        raise no_such(name, shapes, where, "array")
    return name


def _split(name: str) -> str:
    words = name.casefold().split("_")
    return next((split for split in _SPLITS if split in words), "")


def _among(shapes: Shapes, names: Sequence[str], split: str) -> list[str]:
    spelled = set(names)
    if split:
        spelled = {f"{name}_{split}" for name in names} | {f"{split}_{name}" for name in names}
    return [array for array in shapes if array.casefold() in spelled]


def _unclear(shapes: Shapes, where: str, wanted: str, most: int = 12) -> InputError:
    parts = [f"{name!r} {shape}" for name, shape in list(shapes.items())[:most]]
    more = f" and {len(shapes) - most} more" if len(shapes) > most else ""
    return InputError(f"{where} holds the arrays {', '.join(parts)}{more}. Say which are {wanted}.")
