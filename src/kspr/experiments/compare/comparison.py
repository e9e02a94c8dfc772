"""The result of a comparison: a trial for each method, as table, JSON and figure; their log."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from kspr._files import read_json, write_json, write_text
from kspr._packages import is_installed, require
from kspr._text import text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NO_CLEANING, ORACLE = "no cleaning", "oracle"
REFERENCES = (NO_CLEANING, ORACLE)
"""Two bounds for the methods: all labels kept, and exactly the right ones."""
_FASTEST = 1e-3
"""Smallest number of seconds on the axis of the figure."""
_GAP = 0.065
"""Smallest distance between two names, as a share of the figure's height."""


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
        columns = _COLUMNS if tested else _COLUMNS[:-1]
        rows = [
            (trial.method + "*" * trial.told, *_texts(trial)[: len(columns)])
            for trial in self.trials
        ]
        lines = [
            f"{self.n:,} labels of {self.n_classes} classes, {self.wrong:.1%} of them wrong; "
            f"{self.n_features} features; q = {self.q:g}",
            "",
            text_table(["method", *columns], rows),
        ]
        if any(trial.told for trial in self.trials):
            lines += ["", "* is told the true share of wrong labels"]
        return "\n".join(lines)


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
    """Finished trials in a JSON file, so that a comparison can be continued."""

    def __init__(self, path: Path | None, conditions: str) -> None:
        self._path, self._conditions = path, conditions
        self._stored: dict[str, Any] = (path and read_json(path)) or {}
        # The folder must be writable before the first method runs for minutes.
        self._write()

    def key(self, name: str, method: object) -> str:
        """Return a digest of data, settings and method; the `repr` of a method has its settings."""
        return sha256(f"{self._conditions} {name} {method!r}".encode()).hexdigest()[:16]

    def find(self, key: str) -> Trial | None:
        """Return the trial stored under `key`; None without one."""
        # A trial of another version of this file is run again.
        with suppress(KeyError, TypeError):
            return Trial(**self._stored[key])
        return None

    def add(self, key: str, trial: Trial) -> None:
        """Store a trial."""
        self._stored[key] = asdict(trial)
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            write_json(self._path, self._stored)


def write_comparison(result: Comparison, folder: Path, command: Sequence[str]) -> tuple[Path, ...]:
    """Write ``comparison.json`` to `folder` and, with Matplotlib, ``comparison.svg``."""
    path = folder / "comparison.json"
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(path, {"command": shlex.join(command), "date": when, **result.to_dict()})
    # An optional package; the numbers are there without it.
    if not is_installed("matplotlib"):
        return (path,)
    picture = folder / "comparison.svg"
    write_text(picture, comparison_figure(result))
    return path, picture


def comparison_figure(comparison: Comparison) -> str:
    """Return an SVG file's text: F1 against seconds, and FSR and recall of each method."""
    require("matplotlib", "The figure", "'knockoffs-spr[report]'")
    from matplotlib.figure import Figure

    from kspr._figures import standalone, style, to_svg

    trials = [trial for trial in comparison.trials if trial.method not in REFERENCES]
    with style():
        height = 90 + 22 * max(len(trials), 6)
        figure = Figure(figsize=(860 / 72, height / 72), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        _draw_cost(left, trials)
        _draw_rates(right, trials, comparison.q)
        description = "Methods compared: F1, seconds, FSR and recall"
        return standalone(to_svg(figure, "comparison", description))


def _draw_cost(axes: "Axes", trials: list[Trial]) -> None:
    from matplotlib.ticker import LogLocator

    from kspr._figures import ACCENT, KEPT, LINE

    # A logarithmic axis has no place for zero.
    seconds = np.maximum([trial.seconds for trial in trials], _FASTEST)
    f1 = np.array([trial.f1 for trial in trials])
    colours = [ACCENT if trial.method.startswith("kspr") else KEPT for trial in trials]
    low, high = f1.min() - 0.02, f1.max() + 0.02
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_ylim(low, high)
    axes.set_xlim(seconds.min() / 2, seconds.max() * 2)
    axes.scatter(seconds, f1, c=colours, s=34, zorder=3, linewidths=0)
    # Names stand beside the panel, in the order of F1: beside their points they would overlap.
    heights = spread((f1 - low) / (high - low), _GAP)
    for trial, x, y, height, colour in zip(trials, seconds, f1, heights, colours, strict=True):
        axes.annotate(
            f"{trial.method}{'*' * trial.told}  {trial.f1:.3f}",
            (x, y),
            (1.05, height),
            textcoords="axes fraction",
            va="center",
            color=colour,
            fontsize=9.5,
            arrowprops={"arrowstyle": "-", "color": LINE, "linewidth": 0.7, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
    axes.set(xlabel="seconds, cross-validation and neighbours included", ylabel="F1")


def spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Return heights in [0, 1], near the wanted ones, in their order and at least `gap` apart."""
    # More names than fit are set as far apart as the height allows.
    gap = min(gap, 1.0 / max(len(wanted), 1))
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(order))
    # Less its step, "at least a gap apart" becomes "not falling", which isotonic regression gives.
    pooled = isotonic_regression(wanted[order] - steps)
    heights = np.empty(len(order))
    heights[order] = np.clip(pooled, 0.0, 1.0 - steps[-1]) + steps
    return heights


def _draw_rates(axes: "Axes", trials: list[Trial], q: float) -> None:
    from kspr._figures import ACCENT, INK, KEPT, MUTED

    rows = np.arange(len(trials))
    axes.barh(rows - 0.19, [trial.recall for trial in trials], 0.36, color=KEPT, label="recall")
    axes.barh(rows + 0.19, [trial.fsr for trial in trials], 0.36, color=ACCENT, label="FSR")
    axes.axvline(q, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
    axes.annotate(f"q = {q:g}", (q, -0.75), ha="center", va="bottom", color=MUTED, fontsize=9.5)
    axes.set_yticks(rows, [trial.method for trial in trials])
    # Upside down: the first method comes first, and q has room above it.
    axes.set_ylim(len(trials) - 0.4, -0.9)
    axes.set_xlim(0, 1)
    axes.set_xlabel("FSR and recall")
    axes.legend(frameon=False, fontsize=9.5, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
