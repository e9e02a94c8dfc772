"""The folder of a training run: metrics, checkpoints, selection and network.

Every file appears whole or not at all, and is read without running code from it. Only what reads
and writes tensors imports torch.
"""

import json
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np

from kspr._files import read_json, staged, write_json, write_text
from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.train.settings import TrainSettings

_FORMAT = 1
"""Version of the files of tensors."""
NETWORK = "network.pt"
_KEPT = 2
"""Checkpoints that are kept: the newest, and the one before it."""


class Checkpoints:
    """The checkpoints of one training: the newest two.

    Parameters
    ----------
    folder
        Where they lie; None keeps none.
    signature
        What must be equal for a checkpoint to be continued from.
    writes
        Whether this process writes them.
    """

    def __init__(
        self, folder: Path | None, signature: dict[str, Any], *, writes: bool = True
    ) -> None:
        self.folder, self._signature, self._writes = folder, signature, writes

    def of(self, name: str) -> "Checkpoints":
        """Return the checkpoints of a step of this training, in a folder inside."""
        folder = None if self.folder is None else self.folder / name
        return Checkpoints(folder, self._signature, writes=self._writes)

    def write(self, epoch: int, content: dict[str, Any]) -> None:
        """Write `content` as the checkpoint after `epoch`, and remove all but the newest two."""
        if self.folder is None or not self._writes:
            return
        # Each checkpoint has its own name: one is whole at any moment the process may be killed.
        path = self.folder / f"{epoch:06d}.pt"
        write_tensors(path, {"signature": self._signature, **content})
        for old in self._paths()[:-_KEPT]:
            old.unlink(missing_ok=True)

    def newest(self) -> dict[str, Any] | None:
        """Return the newest checkpoint that is whole; None without any.

        Warn of damaged ones. Raise `InputError` if none is whole, or if the newest whole one
        belongs to another run.
        """
        damaged: list[str] = []
        for path in reversed(self._paths()):
            try:
                content = read_tensors(path)
            except InputError:
                damaged.append(path.name)
                continue
            check_same(content.get("signature", {}), self._signature, str(path))
            if damaged:
                # Not a UserWarning, which the command line leaves out: it repeats the guard's.
                warnings.warn(
                    f"{', '.join(damaged)} in {self.folder} cannot be read; continuing from "
                    f"{path.name}.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return content
        if damaged:
            raise InputError(
                f"No checkpoint in {self.folder} can be read ({', '.join(damaged)}): train again "
                "into another folder."
            )
        return None

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Say that a checkpoint does not fit, where the block that loads it raises."""
        try:
            yield
        except InputError:
            raise
        # The file is whole and of this version: another program wrote it.
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(
                f"The newest checkpoint in {self.folder} does not fit this training. Train again "
                "into another folder."
            ) from error

    def _paths(self) -> list[Path]:
        """Return the files, oldest first, without the hidden ones of a killed process."""
        # Names are numbers of six digits, so their order is that of the epochs.
        paths = [] if self.folder is None else self.folder.glob("*.pt")
        return sorted(path for path in paths if not path.name.startswith("."))


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    """Write tensors, numbers and text to `path`, whole or not at all."""
    import torch

    try:
        with staged(path) as staging:
            torch.save({"format": _FORMAT, **content}, staging)
    # torch turns a full disk into a RuntimeError about positions in a stream.
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is the disk full?"
        raise InputError(
            f"{path} could not be written ({why}). Make room; then --resume (resume=True) "
            "continues from the last whole checkpoint."
        ) from error


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the content of a file of `write_tensors`; refuse anything else in it."""
    import torch

    try:
        # Opening a pipe would wait for somebody who writes to it.
        if not path.is_file():
            raise FileNotFoundError(path)
        # On the CPU: the device of the first run may be missing here.
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make torch raise errors of any kind
        raise InputError(
            f"{path} cannot be read as a file of kspr: it is damaged, or holds more than tensors, "
            "numbers and text."
        ) from error
    # As text: a tensor would be compared number by number.
    if not isinstance(content, dict) or repr(content.get("format")) != repr(_FORMAT):
        raise InputError(f"{path} is no file of this version of kspr.")
    return content


def check_same(stored: dict[str, Any], wanted: dict[str, Any], source: str) -> None:
    """Raise `InputError` if an entry of `wanted` differs in `stored`, which comes from `source`."""
    # A damaged file may hold anything in its place.
    stored = stored if isinstance(stored, dict) else {}
    # Not `!=`: a tensor would be compared number by number.
    different = [name for name in wanted if repr(stored.get(name)) != repr(wanted[name])]
    if different:
        name = different[0]
        raise InputError(
            f"{source} is of another run: its {name} is {_short(stored.get(name))}, not "
            f"{_short(wanted[name])}. Resume with the same data and settings, or choose another "
            "folder."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class RunFolder:
    """The folder that a training run writes to.

    `save_selection` writes a selection to a path; None for ``Selection.save``.
    """

    def __init__(
        self, path: Path, save_selection: Callable[[Selection, Path], Any] | None = None
    ) -> None:
        self.path = path
        self._save_selection = save_selection or partial(Selection.save, overwrite=True)
        self._board: Any = None

    def begin(self, about: dict[str, Any], *, resume: bool) -> None:
        """Write the description `about`; raise `InputError` if the folder holds anything else."""
        check_out(self.path, resume=resume)
        if resume:
            # Also where no checkpoint was written yet, which would say so too.
            stored = read_about(self.path).get("signature", {})
            check_same(stored, about["signature"], str(self.path))
        else:
            write_json(self.path / ABOUT, about)
        self._board = _tensorboard(self.path / "tensorboard")

    def after_epoch(
        self,
        epoch: int,
        history: list[dict[str, Any]],
        selection: Selection | None,
        kept: np.ndarray | None = None,
    ) -> None:
        """Write the metrics so far, the last selection and the curves of TensorBoard.

        `kept` is the mask of a selection by the network that was made after this epoch.
        """
        # Rewritten whole: an appended line could be left half-written by a kill.
        write_text(self.path / METRICS, "".join(json.dumps(line) + "\n" for line in history))
        if selection is not None:
            self.save("selection", selection)
        if kept is not None:
            write_sides(self.path, epoch, kept)
        if self._board is not None:
            for name, value in history[-1].items():
                if isinstance(value, (int, float)) and name != "epoch":
                    self._board.add_scalar(name, value, epoch)

    def save(self, name: str, selection: Selection) -> None:
        """Write a selection in place of the one before; `name` is as for `read_selection`."""
        self._save_selection(selection, self.path / name)

    def finish(self, tensors: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the tensors of the final network, and the result that describes it."""
        write_tensors(self.path / NETWORK, tensors)
        # After the network: a run counts as finished once this file is there.
        write_json(self.path / RESULT, result)
        if self._board is not None:
            self._board.close()


def read_selection(path: Path, name: str) -> Selection | None:
    """Return a selection of the run in `path`, None without it.

    ``selection`` is the last one, ``frozen`` that by features that have not seen the labels.
    """
    return Selection.load(path / name) if (path / name).is_dir() else None


def _tensorboard(path: Path) -> Any:
    """Return a writer; None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))


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
    content = _read_json(path, ABOUT)
    _check(path / ABOUT, content, _ABOUT)
    try:
        TrainSettings(**content["settings"])
    except (InputError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path / ABOUT} is damaged or of another version ({reason}); train again into another "
            "folder."
        ) from error
    return content


def read_result(path: Path) -> dict[str, Any]:
    """Return the result of the finished run in `path`."""
    if is_training_run(path) and not (path / RESULT).is_file():
        raise InputError(f"{path} is not finished; continue it with `kspr train ... --resume`.")
    content = _read_json(path, RESULT)
    _check(path / RESULT, content, _RESULT)
    return content


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the metrics of the run in `path`, one entry per epoch."""
    file = path / METRICS
    if not file.is_file():
        raise InputError(f"{path} has no {METRICS}: it is no training run, or in its first epoch.")
    try:
        return metrics_from(file.read_text(encoding="utf-8").splitlines())
    except (RecursionError, ValueError) as error:
        raise InputError(f"{file} is damaged; train again into another folder.") from error


def metrics_from(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return metrics from lines of JSON; raise `ValueError` if a line holds none."""
    history = [json.loads(line) for line in lines]
    if not all(_fits(line, _LINE) for line in history):
        raise ValueError("there are lines without metrics")
    return history


_LINE = {"epoch": int, "loss": float, "seconds": float, "notes": (None, [str]), str: (None, float)}
_ABOUT = {
    "settings": {},
    "classes": {"values": [object], "dtype": str},
    "shape": [int],
    "rows": int,
    "signature": {},
    "origin": (None, {"source": (None, str), "command": (None, [str])}),
    "embed": (None, {"embedder": (None, str)}),
    "items": (None, str),
}
_RESULT = {
    "model_choice": str,
    "epoch": int,
    "held_out": {str: float},
    "test_accuracy": (None, float),
    "last_epoch": _LINE,
}
"""What the entries of a file must be, as `_fits` reads it."""


def _fits(value: Any, kind: Any) -> bool:
    """Return whether `value` is of a kind: a type, a list of one, a table of several, or either.

    The entry `str` of a table is for all names that it does not list.
    """
    if isinstance(kind, tuple):
        return any(_fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_fits(entry, kind[0]) for entry in value)
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(
            _fits(value.get(name), kind[name] if name in kind else kind.get(str, object))
            for name in (kind.keys() | value.keys()) - {str}
        )
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    # Whole numbers count something.
    return type(value) is int and value >= 0 if kind is int else isinstance(value, kind or NoneType)


def _check(file: Path, content: dict[str, Any], schema: dict[Any, Any]) -> None:
    for name, kind in schema.items():
        if not _fits(content.get(name), kind):
            raise InputError(
                f"{file} is damaged: its {name} is {_short(content.get(name))}. Train again into "
                "another folder."
            )


def write_sides(path: Path, epoch: int, kept: np.ndarray) -> None:
    """Write which rows the selection after `epoch` keeps to the run in `path`, a bit for each."""
    # A kilobyte for 8,000 rows: whole selections of every epoch would fill a disk.
    with staged(path / SIDES / f"{epoch:06d}.npy") as staging:
        np.save(staging, np.packbits(kept))


def read_sides(path: Path, n: int) -> dict[int, np.ndarray]:
    """Return masks of the kept rows of the run in `path` by epoch, for runs that have such.

    `n` is the number of rows of the run.
    """
    masks = {}
    for file in sorted((path / SIDES).glob("[0-9]*.npy")):
        try:
            packed = np.load(file, allow_pickle=False)
            sound = packed.dtype == np.uint8 and packed.shape == (-(-n // 8),)
        except (OSError, ValueError, EOFError):
            sound = False
        if not (sound and file.stem.isascii() and file.stem.isdigit()):
            raise InputError(f"{file} is damaged; remove it, and the report leaves that epoch out.")
        masks[int(file.stem)] = np.unpackbits(packed, count=n).astype(bool)
    return masks


def _read_json(path: Path, name: str) -> dict[str, Any]:
    if not is_training_run(path):
        raise InputError(f"{path} is no training run. Make one with `kspr train`.")
    content = read_json(path / name)
    if not isinstance(content, dict):
        raise InputError(f"{path / name} is missing or damaged; train again into another folder.")
    return content


def classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    """Return class labels with their type, as JSON can hold them."""
    return {"values": classes.tolist(), "dtype": classes.dtype.str}


def classes_from_json(stored: dict[str, Any]) -> np.ndarray:
    """Return the class labels that `classes_to_json` stored."""
    return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
