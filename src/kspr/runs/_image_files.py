"""Images of a run as files: a folder per class, names as they were, bytes as they are stored."""

import io
from pathlib import Path, PurePosixPath

import numpy as np

from kspr.core.coded import label_at
from kspr.errors import InputError, UnreadableItemError
from kspr.runs.run import Run
from kspr.sources.readers.items import IMAGE_SUFFIXES
from kspr.sources.records import Items

__all__ = ["class_folders", "write_images"]

_SUFFIXES = {
    **{b"\xff\xd8": ".jpg", b"\x89P": ".png", b"GI": ".gif", b"BM": ".bmp", b"RI": ".webp"},
    **{b"II": ".tif", b"MM": ".tif", b"P2": ".pgm", b"P5": ".pgm", b"P3": ".ppm", b"P6": ".ppm"},
}
"""The suffix of a kind of image file, by its first two bytes."""


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
    notes = [
        f"The images of class {name!r} are in the folder {folder!r}."
        for name, folder in folders.items()
        if name != folder
    ]
    return files, tuple(notes)


def _content(items: Items, position: int, row_id: str) -> tuple[bytes, str]:
    """Return an image's bytes and suffix; pixels that are in no file of an image become PNG."""
    content, named = items.stored(position), Path(row_id).suffix.lower()
    suffix = named if named in IMAGE_SUFFIXES else _SUFFIXES.get(content[:2], "")
    if suffix and (named in IMAGE_SUFFIXES or _is_image(content)):
        return content, suffix
    stream = io.BytesIO()
    items[position].save(stream, "PNG")
    return stream.getvalue(), ".png"


def _is_image(content: bytes) -> bool:
    """Return whether bytes are an image file: raw pixels may begin as one."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)):
            return True
    # Decoders of damaged images raise almost anything.
    except Exception:
        return False


def _name(run: Run, position: int) -> list[str]:
    """Return the parts of the name that an image had below its class folder, without suffix."""
    if not run.rows.named:
        # Eight digits: files are sorted by name wherever they are shown.
        return [f"{run.row[position]:08d}"]
    path = PurePosixPath(str(run.row_id[position]).replace("\\", "/"))
    parts = [part for part in path.parts if part not in ("/", "..")] or ["_"]
    below = parts[1:] if parts[0] == str(label_at(run.selection, "label", position)) else parts[-1:]
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
    folders: dict[str, str] = {}
    for name in map(str, np.unique(label).tolist()):
        same = next((other for other, folder in folders.items() if folder == _safe(name)), None)
        if same is not None:
            raise InputError(
                f"The classes {same!r} and {name!r} would share the folder {_safe(name)!r}. "
                "Rename one of them in the source, or choose an --out that ends in .csv."
            )
        folders[name] = _safe(name)
    return folders


def _safe(name: str) -> str:
    """Return a name as a file or folder may be called."""
    # What Windows refuses in names, where dots and spaces at the end are dropped, too. Nothing is
    # left of "..", which would lead out of the folder.
    kept = "".join("_" if ch in '/\\:*?"<>|' or ord(ch) < 32 else ch for ch in name).strip(". ")
    return kept or "_"
