"""A training run on a page: its curves, and the rows that changed sides; and in one sentence.

Whoever has read the folder hands it over: this room does not know how networks are trained.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import write_text
from kspr.errors import InputError
from kspr.report import check_extra
from kspr.runs.run import Run

__all__ = ["TrainingRun", "in_short", "write_curves", "write_training_report"]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """The content of a training run's folder."""

    folder: Path
    about: Mapping[str, Any]
    """Content of ``train.json``: settings, classes, where the data came from."""
    history: Sequence[Mapping[str, Any]]
    """Metrics, one entry per epoch."""
    result: Mapping[str, Any] | None = None
    """Content of ``result.json``; None for a run that is not finished."""
    before: Run | None = None
    """The selection by features that have not seen the labels."""
    after: Run | None = None
    """The selection by referees or by the trained network, or the last one in training."""
    sides: Mapping[int, np.ndarray] = field(default_factory=dict)
    """Masks of the kept rows by epoch, for the selections during training."""

    @property
    def judged(self) -> Run | None:
        """The selection that says which labels to trust; None without any."""
        return self.before or self.after

    @property
    def has_referees(self) -> bool:
        """Whether labels were judged once, by networks that have not seen them."""
        return bool(self.about["settings"].get("select_on") == "referees")

    @property
    def held_out(self) -> float | None:
        """Share of held-out labels that the chosen network predicts; None if not measured."""
        if self.result is None:
            return None
        shares: Mapping[str, float] = self.result.get("held_out", {})
        return shares.get(self.result["model_choice"])

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.result is None:
            return f"This training is not finished: {self.history[-1]['epoch']:,} epochs are done."
        judged = self.judged
        return in_short(
            int(self.about["rows"]),
            None if judged is None else int((~judged.selection.clean_mask).sum()),
            test_accuracy=self.result.get("test_accuracy"),
            held_out=self.held_out,
            items=self.about.get("items"),
        )


def write_training_report(
    run: TrainingRun, path: Path, title: str | None = None, *, megabytes: float = 12.0
) -> Path:
    """Write the page of a training run as one self-contained HTML file, and return its path.

    `title` is by default the name of the source, `megabytes` the largest size of all pictures and
    texts on the page. Equal arguments give equal bytes.
    """
    if not run.history:
        raise InputError(f"{run.folder} has finished no epoch yet; there is nothing to show.")
    check_extra()
    from kspr.report._course import render

    write_text(path, render(run, title, megabytes))
    return path


def write_curves(history: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Write the curves of a training run's metrics to an SVG file, and return its path."""
    check_extra()
    from kspr.report._course import all_curves

    write_text(path, all_curves(history))
    return path


def in_short(
    n_labels: int,
    n_doubtful: int | None,
    *,
    test_accuracy: float | None = None,
    held_out: float | None = None,
    items: str | None = None,
) -> str:
    """Return what a training has come to, for a reader who knows nothing of it.

    `n_doubtful` is the number of labels that the selection does not keep; None without a selection.
    `held_out` is the share of held-out rows whose given label the network predicts; `items` says
    what the rows are, ``image`` or ``text``.

    >>> print(in_short(5000, 488, test_accuracy=0.931, items="image"))
    488 of 5,000 labels are suspects. The network is right for 93 of 100 test images.
    """
    if n_doubtful is None:
        labels = f"The network was trained on {n_labels:,} labels; none of them was judged."
    elif n_doubtful == 0:
        labels = f"All {n_labels:,} labels look right."
    elif n_doubtful == n_labels:
        labels = f"None of the {n_labels:,} labels could be told from wrong ones."
    else:
        labels = f"{n_doubtful:,} of {n_labels:,} labels are suspects."
    things = f"{items or 'row'}s"
    if test_accuracy is not None:
        hits = f"The network is right for {_of_100(test_accuracy)} test {things}."
    elif held_out is not None:
        hits = (
            f"The network gives the label that people gave for {_of_100(held_out)} {things} it had "
            "not seen; some of those labels are wrong themselves."
        )
    else:
        hits = "How often the network is right was not measured: that needs a test set (--test)."
    return f"{labels} {hits}"


def _of_100(share: float) -> str:
    # Rounded down: a network that errs is never said to be right every time.
    return f"{int(100 * share + 1e-9)} of 100"
