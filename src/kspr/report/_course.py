"""The course of a training: verdict, curves, epochs and rows that changed sides, as a page."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kspr._figures import ACCENT, INK, KEPT, LINE, MUTED, drawn, standalone, style, to_svg
from kspr._text import visible
from kspr.report._cards import Cards, cards_of
from kspr.report._page import Step, Tile
from kspr.report.contents import Contents, environment, level, share, shared_parts
from kspr.runs.run import Run
from kspr.selectors.verdict import asked_rate

if TYPE_CHECKING:
    from kspr.report import TrainingRun

MOST_CARDS = 24
"""Cards of each direction."""
_FIGURES = (
    (
        "accuracy",
        "How often the network is right",
        {
            "accuracy_average": "test set",
            "accuracy": "test set, weights of the moment",
            "held_out": "held-out labels",
            "reference_held_out": "held-out labels, plain training",
        },
        "Held-out labels are given ones that no network was trained on; some of them are wrong, so "
        "no network reaches 100 %.",
    ),
    (
        "kept",
        "What was kept",
        {
            "kept": "kept labels",
            "q_reached": "estimated wrong among them",
            "fsr": "really wrong among them",
            "recall": "right labels that are kept",
        },
        "The estimate is too low where the features come from a network that has seen the labels.",
    ),
    (
        "loss",
        "Loss in training",
        {"loss": "this network", "reference_loss": "plain training"},
        "Plain training learns wrong labels by heart, so its loss may well be the lower one.",
    ),
)
"""Key, title, metrics with their names, and explanation of each figure."""
_STROKES: dict[str, dict[str, Any]] = {
    "accent": {"color": ACCENT},
    "kept": {"color": KEPT},
    "ink": {"color": INK},
    "dashed": {"color": MUTED, "linestyle": (0, (3, 2))},
}
"""How lines are drawn, by the class of their mark in the legend, in this order."""

Lines = dict[str, list[tuple[int, float]]]
"""Points of each line, by its name."""


@dataclass(frozen=True)
class Moved:
    """Rows that changed sides."""

    n: int
    cards: Cards


def render(run: "TrainingRun", title: str | None, megabytes: float) -> str:
    """Return the page as text."""
    templates = environment()
    contents = Contents(None if run.after is None else run.after.items(), megabytes * 1e6)
    left, joined = moved_rows(run, contents)
    source = run.about.get("origin", {}).get("source")
    name = Path(source).name if source else run.folder.name
    return templates.get_template("training.html").render(
        title=visible(title or name),
        **shared_parts(templates, ["style.css"], ["common.js"]),
        sentence=run.sentence,
        tiles=_tiles(run),
        next_steps=_next_steps(run),
        figures=[figure for entry in _FIGURES if (figure := _figure(run.history, *entry))],
        epochs=epoch_rows(run.history, run.sides),
        notes=[(line["epoch"], note) for line in run.history for note in line.get("notes", ())],
        compares=run.before is not None and run.after is not None,
        left=left,
        joined=joined,
        has_referees=run.has_referees,
        kind=run.about.get("items"),
        command=_command(run),
        facts=_facts(run),
    )


def _tiles(run: "TrainingRun") -> list[Tile]:
    """Return the numbers on top of the page."""
    last, result = run.history[-1], run.result or {}
    accuracy, held = result.get("test_accuracy"), run.held_out
    tiles: list[Tile] = []
    if accuracy is not None:
        choice = f"the {result['model_choice']} of epoch {result['epoch']}"
        tiles.append(("right on the test set", share(accuracy), choice))
    if held is not None:
        tiles.append(("held-out labels predicted", share(held), "some of them are wrong"))
    if run.judged is not None:
        selection = run.judged.selection
        kept, asked = float(selection.clean_mask.mean()), asked_rate(selection)
        when = "before training" if run.before else "by the network"
        tiles.append(("kept", share(kept), f"judged {when}"))
        if asked is not None:
            tiles.append(("error rate (q)", level(asked), "asked for"))
    if last.get("fsr") is not None:
        hint = "in the last selection, by the true labels"
        tiles.append(("wrong among the kept", level(last["fsr"]), hint))
    seconds = sum(line["seconds"] for line in run.history)
    time = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    tiles.append(("epochs", f"{len(run.history):,}", f"in {time}"))
    return tiles


def _figure(
    history: Sequence[Mapping[str, Any]],
    key: str,
    title: str,
    names: Mapping[str, str],
    caption: str,
) -> dict[str, Any] | None:
    """Return one figure with the marks and names of its lines; None if nothing was measured."""
    lines = _lines(history, names)
    if not lines:
        return None
    return {
        "title": title,
        "legend": list(zip(_STROKES, lines, strict=False)),
        "svg": curve(key, title, lines, as_share=key != "loss"),
        "caption": caption,
    }


def _lines(history: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Lines:
    """Return epochs and values of each metric that was measured, by its name in `names`."""
    lines = {}
    for metric, name in names.items():
        points = [(line["epoch"], line.get(metric)) for line in history]
        # None where an epoch did not measure it; a diverged loss has no place in a figure.
        lines[name] = [
            (epoch, value)
            for epoch, value in points
            if isinstance(value, (int, float)) and abs(value) < 1e30
        ]
    return {name: points for name, points in lines.items() if points}


def curve(key: str, title: str, lines: Lines, *, as_share: bool) -> Markup:
    """Draw lines over the epochs; `as_share` shows percentages. The page names the lines."""
    words = f"{title}, by epoch: {', '.join(lines)}"
    return drawn(key, words, (390, 230), _plot, lines, as_share)


def _plot(axes: Axes, lines: Lines, as_share: bool) -> None:
    for (name, points), stroke in zip(lines.items(), _STROKES.values(), strict=False):
        scaled = [(epoch, 100 * value if as_share else value) for epoch, value in points]
        # A single epoch gives no line, so its point needs a marker.
        marker = "o" if len(points) == 1 else ""
        axes.plot(*zip(*scaled, strict=True), label=name, marker=marker, **stroke)
    axes.set_xlabel("epoch")
    axes.set_ylabel("%" if as_share else "")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color=LINE, linewidth=0.5)


def all_curves(history: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures side by side, with their legends, as the text of an SVG file."""
    with style():
        figure = Figure(figsize=(1100 / 72, 340 / 72), layout="constrained")
        panels = figure.subplots(1, len(_FIGURES))
        for axes, (key, title, names, _) in zip(panels, _FIGURES, strict=True):
            _plot(axes, _lines(history, names), key != "loss")
            axes.set_title(title)
            if axes.has_data():
                # Below the panel: curves may lie anywhere inside.
                axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.18))
        return standalone(to_svg(figure, "curves", "Accuracy, kept labels and loss, by epoch"))


def epoch_rows(
    history: Sequence[Mapping[str, Any]], sides: Mapping[int, np.ndarray]
) -> dict[str, Any]:
    """Return the table of epochs: the heads of measured columns, and a row of texts for each.

    `sides` are the masks of kept rows by epoch: each but the first is compared with the one before.
    """
    columns = {
        "loss": ("loss", "{:.3f}"),
        "accuracy_average": ("test set", "{:.1%}"),
        "held_out": ("held-out labels", "{:.1%}"),
        "kept": ("kept", "{:.1%}"),
        "q_reached": ("estimated wrong", "{:.1%}"),
        "fsr": ("really wrong", "{:.1%}"),
        "recall": ("right ones kept", "{:.1%}"),
        "left": ("set aside", "{:,}"),
        "joined": ("taken back", "{:,}"),
        "seconds": ("seconds", "{:.1f}"),
    }
    changes = {
        epoch: {"left": int((was & ~now).sum()), "joined": int((~was & now).sum())}
        for (_, was), (epoch, now) in pairwise(sorted(sides.items(), key=itemgetter(0)))
    }
    lines = [{**line, **changes.get(line["epoch"], {})} for line in history]
    shown = {name: columns[name] for name in _lines(lines, {name: name for name in columns})}
    rows = [
        [str(line["epoch"]), *(_cell(line.get(name), form) for name, (_, form) in shown.items())]
        for line in lines
    ]
    return {"heads": ["epoch", *(head for head, _ in shown.values())], "rows": rows}


def _cell(value: float | None, form: str) -> str:
    if value is None or not math.isfinite(value):
        return "–"  # noqa: RUF001 - a dash is meant
    return form.format(value).replace("%", "\u202f%")


def moved_rows(run: "TrainingRun", contents: Contents) -> tuple[Moved | None, Moved | None]:
    """Return the rows that training set aside, and those that it took back; None if not known.

    Both selections judge the same rows in the same order. The most doubtful come first, by the
    features that did not trust them.
    """
    before, after = run.before, run.after
    if before is None or after is None or not np.array_equal(before.row, after.row):
        return None, None
    was, now = before.selection.clean_mask, after.selection.clean_mask
    return (
        _moved(after, np.flatnonzero(was & ~now), contents),
        _moved(before, np.flatnonzero(~was & now), contents),
    )


def _moved(judge_by: Run, rows: np.ndarray, contents: Contents) -> Moved:
    selection = judge_by.selection
    worst = rows[np.argsort(-selection.suspicion[rows], kind="stable")][:MOST_CARDS]
    return Moved(len(rows), cards_of(selection, worst, contents, judge_by.row_id))


def _next_steps(run: "TrainingRun") -> list[Step]:
    folder = shlex.quote(visible(run.folder))
    if run.result is None:
        return [
            Step("Go on", "The run ends with the same network.", (f"{_command(run)} --resume",))
        ]
    predict = f"kspr predict {folder} SOURCE --out predictions.csv"
    steps = [Step("Use the network", "It labels new data of the same kind.", (predict,))]
    if run.judged is not None:
        inner = shlex.quote(visible(run.judged.folder))
        gain = "Every label, which of them look wrong, and what they might be."
        steps.append(Step("See the labels", gain, (f"kspr report {inner} --open",)))
    return steps


def _command(run: "TrainingRun") -> str:
    typed = run.about.get("origin", {}).get("command", [])
    return visible(shlex.join(typed)) if typed else "kspr train"


def _facts(run: "TrainingRun") -> list[tuple[str, str]]:
    """Return the settings of the run, for the list at the end of the page."""
    settings = run.about["settings"]
    embedder = run.about.get("embed", {}).get("embedder")
    facts = {
        "data": f"{run.about['rows']:,} rows, {len(run.about['classes']['values']):,} classes",
        "features": embedder or ("images" if settings["input"] == "images" else "of the source"),
        "network": settings["network"],
        "epochs": f"{settings['epochs']:,}",
        "batch size": f"{settings['batch_size']:,}",
        "learning rate": f"{settings['learning_rate']:g}",
        "error rate asked for (q)": settings["selection"].get("q", "the default"),
        "seed": settings["seed"],
    }
    return [(name, visible(value)) for name, value in facts.items()]
