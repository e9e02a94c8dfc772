"""The result of a comparison: one trial for each method, as a table and as a file to resume."""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from kspr._text import text_table

__all__ = ["NO_CLEANING", "ORACLE", "REFERENCES", "Comparison", "Trial", "TrialLog"]

NO_CLEANING, ORACLE = "no cleaning", "oracle"
REFERENCES = (NO_CLEANING, ORACLE)
"""Two bounds for the methods: all labels kept, and exactly the right ones."""


@dataclass(frozen=True)
class Trial:
    """One method on one data set: how well it selected and what it cost."""

    method: str
    n_kept: int
    fsr: float
    recall: float
    f1: float
    auroc: float | None
    """Chance that a wrong label is ranked as more suspicious than a right one."""
    noise_rate: float | None
    """The share of wrong labels that the method estimates."""
    noise_rate_error: float | None
    """That estimate minus the true share."""
    seconds: float
    """Of the whole method, cross-validation and neighbours included."""
    memory: int | None
    """Bytes by which the memory of the process grew at its peak."""
    accuracy: float | None
    """On the test set, of a classifier trained on what the method keeps."""
    told: bool = False
    """Whether the method used the true share of wrong labels, which nobody knows in practice."""


_COLUMNS = ("kept", "FSR", "recall", "F1", "AUROC", "rate error", "seconds", "MB", "accuracy")


@dataclass(frozen=True)
class Comparison:
    """Methods compared on the same labels; `print` shows a table."""

    n: int
    n_features: int
    n_classes: int
    wrong: float
    """The true share of wrong labels."""
    q: float
    seed: int
    trials: tuple[Trial, ...]
    versions: dict[str, str]

    def __getitem__(self, method: str) -> Trial:
        """Return the trial of one method."""
        for trial in self.trials:
            if trial.method == method:
                return trial
        raise KeyError(method)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        tested = any(trial.accuracy is not None for trial in self.trials)
        # Accuracy is the last column.
        n_columns = len(_COLUMNS) - (not tested)
        rows = [(_name(trial), *_texts(trial)[:n_columns]) for trial in self.trials]
        table = text_table(["method", *_COLUMNS[:n_columns]], rows)
        return "\n".join([self._headline(), "", table, *self._notes()])

    def _headline(self) -> str:
        return (
            f"{self.n:,} labels of {self.n_classes} classes, {self.wrong:.1%} of them wrong; "
            f"{self.n_features} features; q = {self.q:g}"
        )

    def _notes(self) -> list[str]:
        if not any(trial.told for trial in self.trials):
            return []
        return ["", "* is told the true share of wrong labels"]


def _name(trial: Trial) -> str:
    return trial.method + "*" * trial.told


def _texts(trial: Trial) -> tuple[str, ...]:
    reference = trial.method in REFERENCES
    return (
        f"{trial.n_kept:,}",
        *(f"{value:.3f}" for value in (trial.fsr, trial.recall, trial.f1)),
        _or_dash(trial.auroc, ".3f"),
        _or_dash(trial.noise_rate_error, "+.3f"),
        _or_dash(None if reference else trial.seconds, ".2f"),
        _or_dash(None if trial.memory is None else trial.memory / 2**20, ".0f"),
        _or_dash(trial.accuracy, ".3f"),
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


class TrialLog:
    """Finished trials on disk, one JSON line each, so that a comparison can be continued."""

    def __init__(self, path: Path | None, conditions: str) -> None:
        self._path, self._conditions = path, conditions
        self._found: dict[str, Trial] = {}
        if path is None:
            return
        # The folder must be writable before the first method runs for minutes.
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            # A process that was killed while writing leaves half a line: that trial is not done.
            path.write_text(text[: text.rfind("\n") + 1])
        for line in text.splitlines():
            # Lines of another version of this file are skipped, and their trials run again.
            with suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                self._found[record["key"]] = Trial(**record["trial"])

    def key(self, name: str, method: object) -> str:
        """Return a digest of data, settings and method; the `repr` of a method has its settings."""
        return sha256(f"{self._conditions} {name} {method!r}".encode()).hexdigest()[:16]

    def find(self, key: str) -> Trial | None:
        """Return the trial stored under `key`; None without one."""
        return self._found.get(key)

    def add(self, key: str, trial: Trial) -> None:
        """Append a trial to the file."""
        if self._path is not None:
            # Appended, not rewritten: a process that is killed can damage the last line only.
            with self._path.open("a") as out:
                out.write(json.dumps({"key": key, "trial": asdict(trial)}) + "\n")
