"""Rows of a run for people to look at in other tools: tasks of Label Studio, labels of FiftyOne."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from kspr._files import write_json, write_text
from kspr._packages import version
from kspr.core.coded import label_at
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.run import Run
from kspr.selectors.checks import CANNOT_TELL, NO_CLASS
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.json_tables import CONTROL
from kspr.sources.records import Items

__all__ = ["ANNOTATION_WRITERS", "config_beside"]

_Marks = Sequence[Mapping[str, Any]]
_ITEM = "item"
"""Name of what is shown, in the labelling config."""
_SERVED = "/data/local-files/?d="
"""Where Label Studio serves local files; a path below its document root follows."""
_FEW = 20
"""Number of classes up to which all are shown as buttons; more of them make a menu."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def config_beside(out: Path) -> Path:
    """Return where the labelling config goes that belongs to the tasks in `out`."""
    return out.with_suffix(".xml")


def write_tasks(run: Run, chosen: np.ndarray, marks: _Marks, out: Path) -> list[int]:
    """Write tasks of Label Studio, with our suggestions as predictions, and a labelling config.

    `marks` has the fields that go with each row. Return the positions that were written: rows
    whose texts have changed are left out.
    """
    items = run.items()
    if items is None:
        raise InputError(
            f"{run.origin.source} holds neither images nor texts that Label Studio could show. "
            "Have rows checked with kspr verify --checks, which writes a CSV file."
        )
    show = _image_address(run, items) if items.kind == "image" else _text(items)
    tasks = {}
    for position, fields in zip(chosen.tolist(), marks, strict=True):
        try:
            data = {items.kind: show(position), "row_id": str(run.row_id[position]), **fields}
        except UnreadableItemError:
            continue
        tasks[position] = {"data": data, "predictions": [_prediction(run, position)]}
    config = _config(items.kind, [str(name) for name in run.selection.classes.tolist()])
    # The config first: tasks without it would look like a whole export after a kill.
    write_text(config_beside(out), config)
    write_json(out, list(tasks.values()))
    return list(tasks)


def write_fiftyone(run: Run, chosen: np.ndarray, marks: _Marks, out: Path) -> list[int]:
    """Write the classification labels of FiftyOne: given labels, `marks` as attributes.

    Images are named as FiftyOne does: by their paths within the folder, without suffixes.
    """
    items = run.items()
    if items is None or items.kind != "image":
        raise InputError(f"{run.origin.source} holds no images, which FiftyOne is made for.")
    classes = [str(name) for name in run.selection.classes.tolist()]
    code = {name: k for k, name in enumerate(classes)}
    labels: dict[str, Any] = {}
    for position, fields in zip(chosen.tolist(), marks, strict=True):
        name = _within(run, items, position).with_suffix("").as_posix()
        if name in labels:
            raise InputError(
                f"Two images are called {shown(name, 60)} but for their suffixes, by which "
                "FiftyOne cannot tell them. Rename one, and select again."
            )
        given = code[str(label_at(run.selection, "label", position))]
        labels[name] = {"label": given, "attributes": dict(fields)}
    write_json(out, {"classes": classes, "labels": labels})
    return [int(position) for position in chosen]


ANNOTATION_WRITERS: Mapping[str, Callable[[Run, np.ndarray, _Marks, Path], list[int]]] = {
    "label-studio": write_tasks,
    "fiftyone": write_fiftyone,
}
"""The function that writes the rows for each tool."""


def _text(items: Items) -> Callable[[int], str]:
    return lambda position: str(items[position])


def _image_address(run: Run, items: Items) -> Callable[[int], str]:
    # Label Studio serves what is in a folder below its document root, never the root itself.
    root = PurePosixPath("/", _folder(run).name)
    # Spaces and the like are escaped, as in every address.
    return lambda k: _SERVED + (root / _within(run, items, k)).as_uri().removeprefix("file:///")


def _folder(run: Run) -> Path:
    source = Path(run.origin.source)
    return source if source.is_dir() else source.parent


def _within(run: Run, items: Items, position: int) -> Path:
    """Return the file of an image, relative to the folder of the source."""
    file = items.file(position)
    if file is None:
        raise InputError(
            f"The images of {run.origin.source} are in no files of their own, which other tools "
            f"read. Write them with kspr export {run.folder} --to imagefolder --suspects keep "
            "--out FOLDER, and select from that folder."
        )
    try:
        return file.relative_to(_folder(run))
    except ValueError as error:
        raise InputError(
            f"{shown(str(file), 200)} is outside of {_folder(run)}, where other tools are told to "
            "look for images. Move the images there."
        ) from error


def _prediction(run: Run, position: int) -> dict[str, Any]:
    selection = run.selection
    choice = {"choices": [str(label_at(selection, "suggested_label", position))]}
    found = {"from_name": CONTROL, "to_name": _ITEM, "type": "choices", "value": choice}
    said: dict[str, Any] = {"model_version": f"kspr {version('knockoffs-spr')}", "result": [found]}
    if selection.suggestion_probability is not None:
        said["score"] = float(selection.suggestion_probability[position])
    return said


def _config(kind: str, classes: list[str]) -> str:
    """Return Label Studio's labelling config: the item, its given label, the classes."""
    choices = [f"value={_attribute(name)}" for name in classes]
    # Label Studio exports the alias. A class that is called like one of these answers goes first.
    for words, answer in (("None of these", NO_CLASS), ("Cannot tell", CANNOT_TELL)):
        choices += [f'value="{words}" alias="{answer}"'] * (answer not in classes)
    layout = "inline" if len(choices) <= _FEW else "select"
    lines = [
        "<View>",
        f'  <{kind.title()} name="{_ITEM}" value="${kind}"/>',
        '  <Header value="Given label: $kspr_given_label"/>',
        f'  <Choices name="{CONTROL}" toName="{_ITEM}" choice="single" layout="{layout}">',
        *(f"    <Choice {choice}/>" for choice in choices),
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def _attribute(text: str) -> str:
    if _NOT_XML.search(text):
        raise InputError(
            f"Label Studio's config is XML, which cannot hold the class {shown(text, 60)}. Rename "
            "the class in the source."
        )
    return quoteattr(text)
