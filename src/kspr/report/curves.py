"""A training run's course as one SVG file."""

from pathlib import Path
from typing import Any

from kspr._files import staged
from kspr.errors import MissingExtraError
from kspr.train.outcome import read_metrics

__all__ = ["write_curves"]

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
"""Title of a panel: the metrics in it, and their names."""


def write_curves(run: Path, out: Path | None = None) -> Path:
    """Draw accuracy, selection and loss along the epochs of the training run `run`."""
    path = out or run / "curves.svg"
    history = read_metrics(run)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Curves", "'knockoffs-spr[report]'") from error
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    panels = figure.subplots(1, len(_PANELS))
    for axes, (title, names) in zip(panels, _PANELS.items(), strict=True):
        _draw(axes, title, names, history)
    with staged(path) as staging:
        figure.savefig(staging, format="svg", metadata={"Date": None})
    return path


def _draw(axes: Any, title: str, names: dict[str, str], history: list[dict[str, Any]]) -> None:
    for name, label in names.items():
        points = [(line["epoch"], line[name]) for line in history if line[name] is not None]
        if points:
            # A single epoch has no line to draw; its point must be seen all the same.
            axes.plot(
                *zip(*points, strict=True), label=label, marker="." if len(points) < 20 else ""
            )
    axes.set(title=title, xlabel="epoch")
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if title != "loss":
        axes.set_ylim(0, 1.02)
    if axes.has_data():
        # Below: curves may lie anywhere in a panel.
        axes.legend(
            frameon=False, fontsize=8, ncols=2, loc="upper left", bbox_to_anchor=(0.0, -0.18)
        )
