"""Checkpoints: whole or not there, and read without running anything that is in them."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kspr._files import staged
from kspr.errors import InputError
from kspr.selectors import Selection
from kspr.train.outcome import ABOUT, METRICS, RESULT, check_out, is_training_run, read_result
from kspr.train.trained import Trained

__all__ = [
    "RunFolder",
    "newest_checkpoint",
    "read_network",
    "read_tensors",
    "write_checkpoint",
    "write_tensors",
]

_FORMAT = 1
_KEPT = 2
"""Checkpoints that stay: the newest, and the one before it."""


def write_checkpoint(folder: Path, epoch: int, content: dict[str, Any]) -> None:
    """Write `content` as the checkpoint after `epoch`, and remove old ones.

    Each has a name of its own: at any moment one is whole, whenever the process is killed.
    """
    write_tensors(folder / f"{epoch:06d}.pt", content)
    for old in _found(folder)[:-_KEPT]:
        old.unlink(missing_ok=True)


def newest_checkpoint(folder: Path, signature: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest checkpoint in `folder`, None if there is none.

    Raise `InputError` if it belongs to another run, as its `signature` tells.
    """
    found = _found(folder)
    if not found:
        return None
    content = read_tensors(found[-1])
    _check_same(content.get("signature", {}), signature, found[-1])
    return content


def write_tensors(path: Path, content: dict[str, Any]) -> None:
    """Write tensors, numbers and text to `path`, whole or not at all."""
    with staged(path) as staging:
        torch.save({"format": _FORMAT, **content}, staging)


def read_tensors(path: Path) -> dict[str, Any]:
    """Read what `write_tensors` wrote; anything but tensors, numbers and text is refused."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as a file of kspr: it is damaged, or holds more than tensors, "
            "numbers and text."
        ) from error
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{path} is no file of this version of kspr.")
    return content


def _found(folder: Path) -> list[Path]:
    """Return the checkpoints, oldest first; what a killed process left half-written is hidden."""
    return sorted(path for path in folder.glob("*.pt") if not path.name.startswith("."))


def _check_same(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    different = [name for name in wanted if found.get(name) != wanted[name]]
    if different:
        name = different[0]
        raise InputError(
            f"{path} is of another run: its {name} is {_short(found.get(name))}, not "
            f"{_short(wanted[name])}. Resume with the same data and settings, or choose another "
            "folder."
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class RunFolder:
    """Where a run writes; every file appears whole or not at all."""

    def __init__(
        self, path: Path, save_selection: Callable[[Selection, Path], Any] | None = None
    ) -> None:
        self.path = path
        self._save_selection = save_selection or _save_plain
        self._board: Any = None

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints."""
        return self.path / "checkpoints"

    @property
    def selection(self) -> Path:
        """The folder of the last selection."""
        return self.path / "selection"

    def begin(self, about: dict[str, Any], *, resume: bool) -> None:
        """Write what the run is; refuse a folder that holds anything else."""
        check_out(self.path, resume=resume)
        if not resume or not is_training_run(self.path):
            self._write(ABOUT, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        self._board = _tensorboard(self.path / "tensorboard")

    def after_epoch(
        self, epoch: int, history: list[dict[str, Any]], selection: Selection | None
    ) -> None:
        """Write what people look at: the metrics so far and the last selection."""
        self._write(METRICS, "".join(json.dumps(line) + "\n" for line in history))
        if selection is not None:
            self._save_selection(selection, self.selection)
        if self._board is not None:
            for name, value in history[-1].items():
                if isinstance(value, (int, float)) and name != "epoch":
                    self._board.add_scalar(name, value, epoch)

    def checkpoint(self, epoch: int, content: dict[str, Any]) -> None:
        """Write what `resume` goes on from; last, when all else is there."""
        write_checkpoint(self.checkpoints, epoch, content)

    def finish(self, trained: Trained) -> None:
        """Write the network that is handed over, and how it did."""
        tensors = {"network": trained.network.state_dict(), "medium": trained.medium.state()}
        write_tensors(self.path / "network.pt", tensors)
        result = {
            "handed_over": trained.handed_over,
            "epoch": trained.epoch,
            "held_out": trained.held_out,
            "test_accuracy": trained.test_accuracy,
            "last_epoch": trained.history[-1],
        }
        self._write(RESULT, json.dumps(result, indent=2) + "\n")
        if self._board is not None:
            self._board.close()

    def _write(self, name: str, text: str) -> None:
        with staged(self.path / name) as staging:
            staging.write_text(text, encoding="utf-8")


def read_network(path: Path) -> dict[str, Any]:
    """Return the tensors of the network that the run in `path` handed over."""
    read_result(path)
    return read_tensors(path / "network.pt")


def _save_plain(selection: Selection, path: Path) -> None:
    selection.save(path, overwrite=True)


def _tensorboard(path: Path) -> Any:
    """Return a writer, None where TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path))
