"""Compare training methods on the same features, by their accuracy on rows with right labels."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kspr._progress import Progress, ProgressMode
from kspr._text import text_table
from kspr.experiments.baselines import METHODS
from kspr.experiments.baselines.method import train_by
from kspr.features.loading import load, load_test
from kspr.runs.run import origin_of
from kspr.selectors.validation import check_choice
from kspr.sources.options import EmbedSettings, ReadOptions
from kspr.train.settings import TrainSettings

_OURS = "kspr"


@dataclass(frozen=True)
class TrainingTrial:
    """One method, after it has trained a network."""

    method: str
    accuracy: float
    """Share of the test rows whose label is predicted."""
    behind: float
    """How much lower that share is than the best method's."""
    error: float
    """Standard error of `behind`: both networks are tested on the same rows."""
    seconds: float
    told: str = ""
    """What the method was told that ours is not; empty for nothing."""


@dataclass(frozen=True)
class TrainingComparison:
    """Training methods, the best first."""

    n: int
    n_test: int
    trials: tuple[TrainingTrial, ...]

    def __str__(self) -> str:
        rows = [
            [
                trial.method,
                f"{trial.accuracy:.4f}",
                f"{trial.behind:.4f} ± {trial.error:.4f}" if trial.behind else "-",
                f"{trial.seconds:.1f}",
                trial.told or "-",
            ]
            for trial in self.trials
        ]
        table = text_table(["method", "accuracy", "behind the best", "seconds", "is told"], rows)
        return (
            f"Trained on {self.n:,} rows, tested on {self.n_test:,} with right labels.\n\n{table}"
            "\n\n± is a standard error. Methods that are behind by less than two of them may be as "
            "good:\nthese test rows do not tell them apart."
        )


def compare_training(
    X: Any,
    y: Any,
    test: tuple[Any, Any],
    methods: Sequence[str] | None = None,
    *,
    settings: TrainSettings | str = "cpu",
    noise_rate: float | None = None,
    out: Path | None = None,
    about: dict[str, Any] | None = None,
    progress: ProgressMode = "auto",
) -> TrainingComparison:
    """Train a network by each method, and test all of them on the same rows.

    Parameters
    ----------
    X, y
        Features and given labels.
    test
        Features and right labels of other rows: a clean set, or rows that a person has checked.
    methods
        ``"kspr"`` and names from `METHODS`. None for all that need not be told anything; with
        `noise_rate`, for all.
    settings
        How networks are trained, the same for all.
    noise_rate
        Share of wrong labels, for the methods that must be told it.
    out
        Folder for one training run of each method: they can be used for predictions, and an
        interrupted comparison continues from them.
    about
        More entries for the ``train.json`` of each run, such as the origin of the data.
    progress
        True, False, or ``"auto"``: a bar on a terminal after two seconds.
    """
    names = _chosen(methods, noise_rate)
    X_test, y_test = test[0], np.asarray(test[1])
    classes = np.union1d(np.unique(y), y_test)
    right, seconds = {}, {}
    with Progress(progress, "Training", len(names)) as bar:
        for name in names:
            # A run that is finished is resumed too: that compares its data and settings with these.
            trained = train_by(
                None if name == _OURS else name,
                X,
                y,
                noise_rate=noise_rate,
                out=None if out is None else out / name,
                settings=settings,
                test=test,
                classes=classes,
                about=about,
            )
            right[name] = trained.predict(X_test) == y_test
            seconds[name] = sum(line["seconds"] for line in trained.history)
            bar.advance()
    order = sorted(names, key=lambda name: -right[name].mean())
    best = right[order[0]].astype(float)
    return TrainingComparison(
        len(y), len(y_test), tuple(_trial(name, right[name], best, seconds[name]) for name in order)
    )


def _chosen(methods: Sequence[str] | None, noise_rate: float | None) -> list[str]:
    known = (_OURS, *METHODS)
    if methods is not None:
        return [check_choice("methods", name, known) for name in dict.fromkeys(methods)]
    return [
        _OURS,
        *(n for n, listed in METHODS.items() if noise_rate is not None or not listed.told),
    ]


def _trial(name: str, right: np.ndarray, best: np.ndarray, seconds: float) -> TrainingTrial:
    difference = best - right
    return TrainingTrial(
        name,
        accuracy=float(right.mean()),
        behind=float(difference.mean()),
        # Paired: rows that are hard for both networks do not blur the comparison.
        error=float(difference.std()) / sqrt(len(right)),
        seconds=round(seconds, 2),
        told=METHODS[name].told if name in METHODS else "",
    )


def compare_training_source(
    source: Path,
    test: Path,
    methods: Sequence[str] | None,
    *,
    options: ReadOptions,
    embed: EmbedSettings,
    command: Sequence[str],
    **given: Any,
) -> TrainingComparison:
    """Compare training methods on the rows of `source`, by the right labels of `test`.

    All else is `given` to `compare_training`.
    """
    loaded = load(source, options, embed, labelled=True)
    # Test rows, and those of `kspr predict`, are embedded as these were.
    embed = replace(embed, embedder=loaded.embedder or embed.embedder)
    return compare_training(
        loaded.features,
        loaded.label,
        load_test(test, options, embed, loaded.records.encoder),
        methods,
        about={"origin": asdict(origin_of(loaded, options, command)), "embed": asdict(embed)},
        **given,
    )
