"""FiftyOne's classification labels: one JSON document with the label of each image."""

from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.sources.readers.file_checks import shown

__all__ = ["is_fiftyone", "label_columns"]


def is_fiftyone(document: Any) -> bool:
    """Return whether a JSON document is FiftyOne's: labels by the names of images."""
    return isinstance(document, dict) and isinstance(document.get("labels"), dict)


def label_columns(document: dict[str, Any], path: Path) -> dict[str, list[Any]]:
    """Return the names of the images, which lack their suffixes, and their labels as columns.

    `path` names a document for which `is_fiftyone` holds in errors. An image without a label has
    None.
    """
    classes = document.get("classes")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(name, (str, int)) for name in classes)
    ):
        raise InputError(f"{path}: 'classes' must be a list of names.")
    labels = document["labels"]
    if not labels:
        raise InputError(f"{path} has no rows.")
    return {
        "uuid": list(labels),
        "label": [_label(value, classes, name, path) for name, value in labels.items()],
    }


def _label(value: Any, classes: list[Any] | None, name: str, path: Path) -> str | None:
    if isinstance(value, dict):
        # Written so where confidence or attributes go with the label.
        value = value.get("label")
    where = f"{path}: the label of {shown(name, 60)}"
    if value is None or isinstance(value, str):
        return value
    if type(value) is not int:
        raise InputError(f"{where} must be a text or a class number; an image has one label.")
    if classes is None:
        return str(value)
    if not 0 <= value < len(classes):
        raise InputError(f"{where} is {value}, but there are {len(classes)} classes.")
    return str(classes[value])
