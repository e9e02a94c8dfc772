"""The folder of a training run.

::

    train.json      settings, classes, shape of a row, and where the data came from
    metrics.jsonl   one line per epoch
    checkpoints/    the newest two; --resume goes on from there
    selection/      the last selection, a folder that report, export and evaluate take
    network.pt      the network that was handed over
    result.json     which one that is, and how it did
    tensorboard/    the same metrics, where TensorBoard is installed
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kspr._files import staged
from kspr.selectors import Selection
from kspr.train.checkpoints import read_tensors, write_checkpoint, write_tensors
from kspr.train.outcome import ABOUT, METRICS, RESULT, check_out, is_training_run, read_result
from kspr.train.trained import Trained

__all__ = ["RunFolder", "read_network"]


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
