"""The folder of a training run: metrics, checkpoints, selection and network.

Every file appears whole or not at all, and is read without running code from it.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kspr._files import staged, write_json, write_text
from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.train.outcome import (
    ABOUT,
    METRICS,
    RESULT,
    check_out,
    read_about,
    read_result,
    write_sides,
)

__all__ = [
    "RunFolder",
    "check_same",
    "newest_checkpoint",
    "read_network",
    "read_tensors",
    "write_checkpoint",
    "write_tensors",
]

_FORMAT = 1
"""Version of the files of tensors."""
_NETWORK = "network.pt"
_KEPT = 2
"""Checkpoints that are kept: the newest, and the one before it."""


def write_checkpoint(folder: Path, epoch: int, content: dict[str, Any]) -> None:
    """Write `content` as the checkpoint after `epoch`, and remove all but the newest two."""
    # Each checkpoint has its own name: one is whole at any moment the process may be killed.
    write_tensors(folder / f"{epoch:06d}.pt", content)
    for old in _found(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path, signature: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest checkpoint in `folder` that is whole; None without any.

    Warn of damaged ones. Raise `InputError` if none is whole, or if the signature differs from
    `signature`: the checkpoint belongs to another run.
    """
    damaged: list[str] = []
    for path in reversed(_found(folder)):
        try:
            content = read_tensors(path)
        except InputError:
            damaged.append(path.name)
            continue
        check_same(content.get("signature", {}), signature, str(path))
        if damaged:
            # Not a UserWarning, which the command line leaves out: it repeats the guard's.
            warnings.warn(
                f"{', '.join(damaged)} in {folder} cannot be read; continuing from {path.name}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return content
    if damaged:
        raise InputError(
            f"No checkpoint in {folder} can be read ({', '.join(damaged)}): train again into "
            "another folder."
        )
    return None


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    """Write tensors, numbers and text to `path`, whole or not at all."""
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


def _found(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest first, without the hidden files of a killed process."""
    # Names are numbers of six digits, so their order is that of the epochs.
    return sorted(path for path in folder.glob("*.pt") if not path.name.startswith("."))


def check_same(
    found: dict[str, Any],
    wanted: dict[str, Any],
    source: str,
    way_out: str = "or choose another folder",
) -> None:
    """Raise `InputError` if an entry of `wanted` differs in `found`, which comes from `source`."""
    # A damaged file may hold anything in its place.
    found = found if isinstance(found, dict) else {}
    # Not `!=`: a tensor would be compared number by number.
    different = [name for name in wanted if repr(found.get(name)) != repr(wanted[name])]
    if different:
        name = different[0]
        raise InputError(
            f"{source} is of another run: its {name} is {_short(found.get(name))}, not "
            f"{_short(wanted[name])}. Resume with the same data and settings, {way_out}."
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
        self._save_selection = save_selection or _save_plain
        self._board: Any = None

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def selection(self) -> Path:
        """Folder of the last selection."""
        return self.path / "selection"

    @property
    def frozen(self) -> Path:
        """Folder of the selection by features that have not seen the labels."""
        return self.path / "frozen"

    def begin(self, about: dict[str, Any], *, resume: bool) -> None:
        """Write the description `about`; raise `InputError` if the folder holds anything else."""
        check_out(self.path, resume=resume)
        if resume:
            # Also where no checkpoint was written yet, which would say so too.
            found = read_about(self.path).get("signature", {})
            check_same(found, about["signature"], str(self.path))
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
            self.save_selection(selection)
        if kept is not None:
            write_sides(self.path, epoch, kept)
        if self._board is not None:
            for name, value in history[-1].items():
                if isinstance(value, (int, float)) and name != "epoch":
                    self._board.add_scalar(name, value, epoch)

    def save_selection(self, selection: Selection) -> None:
        """Write the run's selection in place of the one before."""
        self._save_selection(selection, self.selection)

    def save_frozen(self, selection: Selection) -> None:
        """Write the selection by features that have not seen the labels."""
        self._save_selection(selection, self.frozen)

    def checkpoint(self, epoch: int, content: dict[str, Any]) -> None:
        """Write what `resume` continues from; call this last, when all other files are written."""
        write_checkpoint(self.checkpoints, epoch, content)

    def finish(self, tensors: dict[str, Any], result: dict[str, Any]) -> None:
        """Write the tensors of the final network, and the result that describes it."""
        write_tensors(self.path / _NETWORK, tensors)
        # After the network: a run counts as finished once this file is there.
        write_json(self.path / RESULT, result)
        if self._board is not None:
            self._board.close()


def read_network(path: Path) -> dict[str, Any]:
    """Return the tensors of the final network of the finished run in `path`."""
    read_result(path)
    return read_tensors(path / _NETWORK)


def _save_plain(selection: Selection, path: Path) -> None:
    selection.save(path, overwrite=True)


def _tensorboard(path: Path) -> Any:
    """Return a writer; None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))
