"""Read the folder of a training run, and draw its curves; without torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json, staged
from kspr.errors import InputError, MissingExtraError

__all__ = [
    "check_out",
    "classes_from_json",
    "classes_to_json",
    "is_training_run",
    "read_about",
    "read_metrics",
    "read_result",
    "read_sides",
    "shape_from_json",
    "write_curves",
    "write_sides",
]

ABOUT, METRICS, RESULT = "train.json", "metrics.jsonl", "result.json"
SIDES = "sides"
"""Folder with a file for each selection during training: one bit a row, 1 where it was kept."""


def is_training_run(path: Path) -> bool:
    """Return whether `path` is the folder of a training run."""
    return (path / ABOUT).is_file()


def check_out(path: Path, *, resume: bool) -> None:
    """Raise `InputError` if `path` cannot be used for a new run, or for the run to resume."""
    if is_training_run(path):
        if not resume:
            raise InputError(
                f"{path} already holds a training run. Pass --resume (resume=True) to continue "
                "it, or choose another folder."
            )
    # Files of something else must not be mixed with those of a run.
    elif path.exists() and any(path.iterdir()):
        raise InputError(f"{path} exists and is no training run; choose another folder.")
    elif resume:
        raise InputError(
            f"{path} holds no training run to resume. Leave --resume out to begin one."
        )


def read_about(path: Path) -> dict[str, Any]:
    """Return the description of the run in `path`: settings, classes, origin of the data."""
    return _read_json(path, ABOUT)


def read_result(path: Path) -> dict[str, Any]:
    """Return the result of the finished run in `path`."""
    if is_training_run(path) and not (path / RESULT).is_file():
        raise InputError(f"{path} is not finished; continue it with `kspr train ... --resume`.")
    return _read_json(path, RESULT)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of the run in `path`, one entry per epoch."""
    file = path / METRICS
    if not file.is_file():
        raise InputError(f"{path} has no {METRICS}: it is no training run, or in its first epoch.")
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        sound = all(isinstance(line, dict) and type(line["epoch"]) is int for line in lines)
    except (KeyError, RecursionError, ValueError):
        sound = False
    if not sound:
        raise InputError(f"{file} is damaged; train again into another folder.")
    return lines


def write_sides(path: Path, epoch: int, kept: np.ndarray) -> None:
    """Write which rows the selection after `epoch` keeps to the run in `path`, a bit for each."""
    # A kilobyte for 8,000 rows: whole selections of every epoch would fill a disk.
    with staged(path / SIDES / f"{epoch:06d}.npy") as staging:
        np.save(staging, np.packbits(kept))


def read_sides(path: Path, n: int) -> dict[int, np.ndarray]:
    """Return masks of the kept rows of the run in `path` by epoch, for runs that have such.

    `n` is the number of rows of the run.
    """
    found = {}
    for file in sorted((path / SIDES).glob("[0-9]*.npy")):
        try:
            packed = np.load(file, allow_pickle=False)
            sound = packed.dtype == np.uint8 and packed.shape == (-(-n // 8),)
        except (OSError, ValueError, EOFError):
            sound = False
        if not (sound and file.stem.isascii() and file.stem.isdigit()):
            raise InputError(f"{file} is damaged; remove it, and the report leaves that epoch out.")
        found[int(file.stem)] = np.unpackbits(packed, count=n).astype(bool)
    return found


def _read_json(path: Path, name: str) -> dict[str, Any]:
    if not is_training_run(path):
        raise InputError(f"{path} is no training run. Make one with `kspr train`.")
    found = read_json(path / name)
    if not isinstance(found, dict):
        raise InputError(f"{path / name} is missing or damaged; train again into another folder.")
    return found


def classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    """Return class labels with their type, as JSON can hold them."""
    return {"values": classes.tolist(), "dtype": classes.dtype.str}


def classes_from_json(stored: dict[str, Any]) -> np.ndarray:
    """Return the class labels that `classes_to_json` stored."""
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))


def shape_from_json(stored: Any) -> tuple[int, ...]:
    """Return the shape of one row; raise `ValueError` if it is none."""
    shape = tuple(stored)
    if not shape or not all(type(side) is int and side > 0 for side in shape):
        raise ValueError(f"shape is {stored}")
    return shape


_PANELS: dict[str, dict[str, str]] = {
    "accuracy": {
        "accuracy": "test, weights",
        "accuracy_average": "test, averaged",
        "held_out": "held-out labels",
        "reference_held_out": "held-out, reference",
    },
    "selection": {"kept": "kept", "fsr": "FSR", "recall": "recall", "f1": "F1", "q_reached": "q"},
    "loss": {"loss": "cycle", "reference_loss": "reference"},
}
"""Title of each panel, with its metrics and their names in the legend."""


def write_curves(run: Path, out: Path | None = None) -> Path:
    """Draw accuracy, selection and loss over the epochs of the training run `run` as SVG.

    Return the path of the file: `out`, or ``curves.svg`` in the run.
    """
    path = out or run / "curves.svg"
    history = read_metrics(run)
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Curves", "'knockoffs-spr[report]'") from error
    # Not pyplot, which keeps global state and may ask for a display.
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, len(_PANELS))
    for axes, (title, names) in zip(panels, _PANELS.items(), strict=True):
        _draw(axes, title, names, history)
    # Neither a date nor random ids: the same metrics give the same file.
    with rc_context({"svg.hashsalt": "kspr"}), staged(path) as staging:
        figure.savefig(staging, format="svg", metadata={"Date": None})
    return path


def _is_number(value: Any) -> bool:
    # None where an epoch did not measure it; a diverged loss has no place in a figure.
    return isinstance(value, (int, float)) and abs(value) < 1e30


def _draw(axes: Any, title: str, names: dict[str, str], history: list[dict[str, Any]]) -> None:
    for name, label in names.items():
        values = [(line["epoch"], line.get(name)) for line in history]
        points = [(epoch, value) for epoch, value in values if _is_number(value)]
        if points:
            # A single epoch gives no line, so its point needs a marker.
            axes.plot(
                *zip(*points, strict=True), label=label, marker="." if len(points) < 20 else ""
            )
    axes.set(title=title, xlabel="epoch")
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if title != "loss":
        # Shares; slightly above 1, so that a line at 1 is not cut.
        axes.set_ylim(0, 1.02)
    if axes.has_data():
        # Below the panel: curves may lie anywhere inside.
        axes.legend(
            frameon=False, fontsize=8, ncols=2, loc="upper left", bbox_to_anchor=(0.0, -0.18)
        )
