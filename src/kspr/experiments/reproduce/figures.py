"""The files of a result: its page in Markdown, and the paper's figures, one function a kind."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kspr._files import write_text
from kspr._packages import require
from kspr.experiments.reproduce.rendering import render_markdown
from kspr.experiments.reproduce.reproduction import Reproduction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLOURS = ("#c1121f", "#2a6f97", "#6a994e", "#bc6c25")
"""Colours of lines: variants or noises, in their order."""
_ABREAST = 8
"""Example pictures in a row."""


def write_reproduction(result: Reproduction, out: Path) -> tuple[Path, ...]:
    """Write the result to `out` as Markdown and, for a figure, as SVG; return the files."""
    page = out / f"{result.recipe}-{result.scale}.md"
    figures = []
    if result.definition.shows != "table":
        figures = [draw(result, page.with_suffix(".svg"))]
    write_text(page, render_markdown(result, figures[0].name if figures else None) + "\n")
    return (page, *figures)


def draw(result: Reproduction, path: Path) -> Path:
    """Draw the figure of the recipe as one SVG file; equal results give equal bytes."""
    require("matplotlib", "A figure", "'knockoffs-spr[report]'")
    from matplotlib.figure import Figure

    from kspr._figures import standalone, style, to_svg

    recipe = result.definition
    with style():
        figure = Figure(layout="constrained")
        _DRAWN[recipe.shows](figure, result)
        # So that digits are not taken for the paper's data.
        data = "; ".join(f"{name} here: {used}" for name, used in result.data.items())
        figure.suptitle(f"{recipe.place}, scale {result.scale}: {data}", fontsize=10)
        # Tight: captions under pictures lie outside all axes.
        drawn = to_svg(figure, recipe.name, recipe.title, tight=True)
    write_text(path, standalone(drawn))
    return path


def _path(figure: "Figure", result: Reproduction) -> None:
    """Draw norms of mean shifts against the penalty, wrong labels in the accent colour."""
    from matplotlib.collections import LineCollection

    from kspr._figures import ACCENT, KEPT

    figure.set_size_inches(5.5, 3.6)
    axes, values = figure.subplots(), result.trials[0].values
    lams, norms = np.array(values["lams"]), np.array(values["norms"])
    wrong = np.array(values["wrong"], dtype=bool)
    for rows, colour, name in ((~wrong, KEPT, "right label"), (wrong, ACCENT, "wrong label")):
        lines = [np.column_stack([lams, norm]) for norm in norms[rows]]
        axes.add_collection(LineCollection(lines, colors=colour, linewidths=0.8, alpha=0.6))
        axes.plot([], [], color=colour, label=f"{name} ({rows.sum()})")
    axes.set(xlim=(lams.max(), 0), ylim=(0, 1.03 * norms.max()))
    axes.set(xlabel="penalty λ, falling", ylabel="size of the mean shift")
    axes.legend(frameon=False, loc="upper left")


def _course(figure: "Figure", result: Reproduction) -> None:
    """Draw FSR with q, recall and F1 by epoch: a row per measure, a column per noise."""
    measures = {"fsr": "FSR", "recall": "recall", "f1": "F1"}
    noises, variants = result.noises, result.variants
    figure.set_size_inches(max(6.4, 3.2 * len(noises)), 6.4)
    panels = figure.subplots(len(measures), len(noises), squeeze=False, sharex=True)
    for row, (measure, title) in enumerate(measures.items()):
        for column, noise in enumerate(noises):
            axes = panels[row, column]
            for variant, colour in zip(variants, _COLOURS, strict=False):
                _line(axes, _along(result, noise, variant, measure), colour, "-", variant)
                if measure == "fsr":
                    reached = _along(result, noise, variant, "q_reached")
                    _line(axes, reached, colour, ":", f"{variant}: q")
                    _band(axes, reached, _along(result, noise, variant, "q_spread"), colour)
            axes.set_ylim(0, None if measure == "fsr" else 1.02)
            axes.set(title=noise if row == 0 else "", ylabel=title if column == 0 else "")
    for axes in panels[-1]:
        axes.set_xlabel("epoch")
        axes.xaxis.get_major_locator().set_params(integer=True)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)


def _along(result: Reproduction, noise: str, variant: str, measure: str) -> np.ndarray:
    """Return epochs and means of a measure over seeds, at epochs where every seed has it."""
    courses = [trial.values["course"] for trial in result.of(None, noise, variant)]
    points = [
        (lines[0]["epoch"], float(np.mean([line[measure] for line in lines])))
        for lines in zip(*courses, strict=True)
        # A mean over some of the seeds would jump where one is missing.
        if all(line[measure] is not None for line in lines)
    ]
    return np.array(points).reshape(-1, 2)


def _line(axes: "Axes", points: np.ndarray, colour: str, style: str, label: str) -> None:
    if len(points):
        # Markers on a long course would hide the line.
        marker = "." if len(points) < 20 else ""
        axes.plot(*points.T, style, color=colour, marker=marker, linewidth=1.2, label=label)


def _band(axes: "Axes", middle: np.ndarray, spread: np.ndarray, colour: str) -> None:
    """Shade one standard deviation around a line, if there is one at every point."""
    if len(middle) and len(middle) == len(spread):
        low, high = middle[:, 1] - spread[:, 1], middle[:, 1] + spread[:, 1]
        # A rate below zero is not possible, though mean minus deviation may be.
        axes.fill_between(middle[:, 0], low.clip(0), high, color=colour, alpha=0.12, linewidth=0)


def _splits(figure: "Figure", result: Reproduction) -> None:
    """Draw FSR against classes in a group and against samples per class."""
    recipe = result.definition
    figure.set_size_inches(8.6, 3.6)
    panels = figure.subplots(1, 2)
    named = {"classes_per_group": "classes in a group", "samples_per_class": "samples per class"}
    for axes, (parameter, title) in zip(panels, named.items(), strict=True):
        chosen = {
            name: recipe.variants[name].selection[parameter]
            for name in result.variants
            if parameter in recipe.variants[name].selection
        }
        for noise, colour in zip(result.noises, _COLOURS, strict=False):
            estimates = [result.estimate(None, noise, name, "fsr") for name in chosen]
            means = [100 * value.mean if value else np.nan for value in estimates]
            errors = [100 * (value.spread or 0.0) if value else 0.0 for value in estimates]
            axes.errorbar(
                list(chosen.values()), means, errors, color=colour, marker=".", label=noise
            )
        axes.set(xlabel=title, ylabel="FSR in %")
        axes.set_ylim(bottom=0)
    panels[1].legend(frameon=False)


def _examples(figure: "Figure", result: Reproduction) -> None:
    """Draw pictures with the given class below, and the true class in the accent colour."""
    from PIL import Image

    from kspr._figures import ACCENT

    examples = [example for trial in result.trials for example in trial.values["examples"]]
    examples = examples[: 3 * _ABREAST]
    rows = max(1, -(-len(examples) // _ABREAST))
    figure.set_size_inches(8.6, 1.35 * rows + 0.4)
    panels = list(figure.subplots(rows, _ABREAST, squeeze=False).flat)
    for axes in panels:
        axes.axis("off")
    for axes, example in zip(panels, examples, strict=False):
        axes.imshow(Image.open(io.BytesIO(base64.b64decode(example["png"]))))
        axes.text(0.5, -0.06, example["given"], transform=axes.transAxes, ha="center", va="top")
        axes.text(
            0.5, -0.26, example["true"], transform=axes.transAxes, ha="center", va="top", c=ACCENT
        )


def _histogram(figure: "Figure", result: Reproduction) -> None:
    """Draw the median irrepresentable values of pieces: a panel per noise, on one scale."""
    from kspr._figures import KEPT

    noises = result.noises
    values = {
        noise: [
            value
            for trial in result.of(None, noise, result.variants[0])
            for value in trial.values["medians"]
            if value is not None
        ]
        for noise in noises
    }
    figure.set_size_inches(2.9 * len(noises), 2.8)
    panels = figure.subplots(1, len(noises), squeeze=False, sharex=True)[0]
    # The same bins in all panels, so that they can be compared.
    edges = np.linspace(0, 1.02 * max(map(max, values.values())), 30)
    for axes, (noise, medians) in zip(panels, values.items(), strict=True):
        axes.hist(medians, edges, color=KEPT)
        axes.set(title=noise, xlabel="median irrepresentable value")
    panels[0].set_ylabel("pieces")


_DRAWN: dict[str, Callable[["Figure", Reproduction], None]] = {
    "path": _path,
    "course": _course,
    "splits": _splits,
    "examples": _examples,
    "histogram": _histogram,
}
