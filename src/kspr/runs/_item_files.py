"""Images and texts of a run for other programs: files in a folder per class, tasks of Label Studio,
labels of FiftyOne.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from kspr._files import write_json, write_text
from kspr._packages import version
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.review_log import CANNOT_TELL, NO_CLASS
from kspr.runs.run import Run
from kspr.sources.readers.file_checks import shown
from kspr.sources.readers.json_tables import CONTROL
from kspr.sources.records import IMAGE_SUFFIXES, Items

_SUFFIXES = {
    **{b"\xff\xd8": ".jpg", b"\x89P": ".png", b"GI": ".gif", b"BM": ".bmp", b"RI": ".webp"},
    **{b"II": ".tif", b"MM": ".tif", b"P2": ".pgm", b"P5": ".pgm", b"P3": ".ppm", b"P6": ".ppm"},
}
"""The suffix of a kind of image file, by its first two bytes."""
_Marks = Sequence[Mapping[str, Any]]
_ITEM = "item"
"""Name of the shown item, in the labelling config."""
_SERVED = "/data/local-files/?d="
"""Where Label Studio serves local files; a path below its document root follows."""
_FEW = 20
"""Number of classes up to which all are shown as buttons; more of them make a menu."""
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_images(
    run: Run, chosen: np.ndarray, label: np.ndarray, out: Path
) -> tuple[dict[int, str], tuple[str, ...]]:
    """Copy the stored bytes of the chosen images into a folder per class, which `out` gets.

    Return the file of each position, relative to `out`, and a sentence for each class whose
    folder cannot have its name. Images that have changed since the run was made have no file.
    """
    items = run.items()
    if items is None or items.kind != "image":
        raise InputError(
            f"{run.origin.source} holds no images, which an image folder is made of. Choose an "
            "--out that ends in .csv or .parquet."
        )
    folders = class_folders(label[chosen])
    files: dict[int, str] = {}
    # Compared without case: some systems do not tell a.png from A.png.
    taken: set[str] = set()
    out.mkdir()
    for position in chosen.tolist():
        try:
            content, suffix = _content(items, position, str(run.row_id[position]))
        except UnreadableItemError:
            continue
        folder = folders[str(label[position])]
        name = _free_name(taken, folder, _name(run, position), suffix, int(run.row[position]))
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(content)
        files[position] = name
    renamed = [(name, folder) for name, folder in folders.items() if name != folder]
    notes = (f"The images of class {name!r} are in the folder {to!r}." for name, to in renamed)
    return files, tuple(notes)


def _content(items: Items, position: int, row_id: str) -> tuple[bytes, str]:
    """Return an image's bytes and suffix; pixels that are in no file of an image become PNG."""
    from PIL import Image

    content, named = items.stored(position), Path(row_id).suffix.lower()
    if named in IMAGE_SUFFIXES:
        return content, named
    # Raw pixels may begin as a file; decoders of damaged images raise almost anything.
    with suppress(Exception), Image.open(io.BytesIO(content)):
        return content, _SUFFIXES[content[:2]]
    stream = io.BytesIO()
    items[position].save(stream, "PNG")
    return stream.getvalue(), ".png"


def _name(run: Run, position: int) -> list[str]:
    """Return the parts of the name that an image had below its class folder, without suffix."""
    if not run.rows.named:
        # Eight digits: files are sorted by name wherever they are shown.
        return [f"{run.row[position]:08d}"]
    path = PurePosixPath(str(run.row_id[position]).replace("\\", "/"))
    parts = [part for part in path.parts if part not in ("/", "..")] or ["_"]
    below = parts[1:] if parts[0] == str(run.selection.label[position]) else parts[-1:]
    below = below or parts[-1:]
    if Path(below[-1]).suffix.lower() in IMAGE_SUFFIXES:
        below[-1] = Path(below[-1]).stem
    return [_safe(part) for part in below]


def _free_name(taken: set[str], folder: str, parts: list[str], suffix: str, row: int) -> str:
    """Return a path that no other image has; the row number tells images of one name apart."""
    name = "/".join([folder, *parts])
    while f"{name}{suffix}".casefold() in taken:
        name = f"{name}~{row}"
    taken.add(f"{name}{suffix}".casefold())
    return f"{name}{suffix}"


def class_folders(label: np.ndarray) -> dict[str, str]:
    """Return the folder of each class; raise if two classes would share one."""
    of_folder: dict[str, str] = {}
    for name in map(str, np.unique(label).tolist()):
        same = of_folder.setdefault(_safe(name), name)
        if same != name:
            raise InputError(
                f"The classes {same!r} and {name!r} would share the folder {_safe(name)!r}. "
                "Rename one of them in the source, or choose an --out that ends in .csv."
            )
    return {name: folder for folder, name in of_folder.items()}


def _safe(name: str) -> str:
    """Return a name as a file or folder may be called."""
    # What Windows refuses in names, where dots and spaces at the end are dropped, too. Nothing is
    # left of "..", which would lead out of the folder.
    kept = "".join("_" if ch in '/\\:*?"<>|' or ord(ch) < 32 else ch for ch in name).strip(". ")
    return kept or "_"


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
    # Label Studio serves what is in a folder below its document root, never the root itself.
    root, tasks = PurePosixPath("/", _folder(run).name), {}
    for position, fields in zip(chosen.tolist(), marks, strict=True):
        try:
            if items.kind != "text":
                # Spaces and the like are escaped, as in every address.
                address = (root / _within(run, items, position)).as_uri()
                shown_as = _SERVED + address.removeprefix("file:///")
            else:
                shown_as = str(items[position])
        except UnreadableItemError:
            continue
        data = {items.kind: shown_as, "row_id": str(run.row_id[position]), **fields}
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
        given = code[str(run.selection.label[position])]
        labels[name] = {"label": given, "attributes": dict(fields)}
    write_json(out, {"classes": classes, "labels": labels})
    return [int(position) for position in chosen]


ANNOTATION_WRITERS: Mapping[str, Callable[[Run, np.ndarray, _Marks, Path], list[int]]] = {
    "label-studio": write_tasks,
    "fiftyone": write_fiftyone,
}
"""The function that writes the rows for each tool."""


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
    choice = {"choices": [str(selection.suggested_label[position])]}
    result = {"from_name": CONTROL, "to_name": _ITEM, "type": "choices", "value": choice}
    said: dict[str, Any] = {"model_version": f"kspr {version('knockoffs-spr')}", "result": [result]}
    if selection.suggestion_probability is not None:
        said["score"] = float(selection.suggestion_probability[position])
    return said


_TAGS = {"image": "Image", "text": "Text", "sound": "Audio"}


def _config(kind: str, classes: list[str]) -> str:
    """Return Label Studio's labelling config: the item, its given label, the classes."""
    choices = [f"value={_attribute(name)}" for name in classes]
    # Label Studio exports the alias. A class that is called like one of these answers goes first.
    for words, answer in (("None of these", NO_CLASS), ("Cannot tell", CANNOT_TELL)):
        choices += [f'value="{words}" alias="{answer}"'] * (answer not in classes)
    layout = "inline" if len(choices) <= _FEW else "select"
    lines = [
        "<View>",
        f'  <{_TAGS[kind]} name="{_ITEM}" value="${kind}"/>',
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
