"""What docs/error-rate.md shows of the trials of `fsr.py`: tables, and two figures."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from _common import markdown_table

__all__ = ["FIGURES", "Measured", "figure", "parts", "range_on_people"]

SHOWN = ("0.05", "0.1", "0.2")
FIGURES = {"table": "error-rate.svg", "untuned": "error-rate-untuned.svg"}
"""Figures of the page by the group of cases that they show."""
COLOURS = {
    "default": "#1b6ca8",
    "100 checks": "#0b2f4a",
    "class only": "#74b3d8",
    "exchangeable": "#2f855a",
    "paper": "#c2570c",
    "theorem": "#e3a873",
}
"""Lines of the figures: one for each control."""
RECALL_TARGETS = {
    "Sym. 20%": 0.97,
    "Sym. 40%": 0.91,
    "Sym. 60%": 0.80,
    "Asy. 20%": 0.96,
    "Asy. 30%": 0.91,
    "Asy. 40%": 0.87,
}
"""Recall to reach at q = 0.10, where the FSR must be kept at all three q."""

Trials = list[dict[str, Any]]


class Measured:
    """Trials of one group by case and method, in the order in which they were measured."""

    def __init__(self, trials: Trials, group: str, methods: Iterable[str]) -> None:
        self.trials: dict[tuple[str, str], Trials] = defaultdict(list)
        for trial in trials:
            if trial["group"] == group:
                here = "" if trial["data"] == "CIFAR-10" else f"{trial['data']}, "
                self.trials[here + trial["noise"], trial["method"]].append(trial)
        self.cases = list(dict.fromkeys(case for case, _ in self.trials))
        present = {
            m: [t for (_, o), ts in self.trials.items() if o == m for t in ts] for m in methods
        }
        self.controls = [m for m, ts in present.items() if any("0.1" in t["at"] for t in ts)]
        """Methods that have a level, and those that have none."""
        self.peers = [m for m, ts in present.items() if ts and m not in self.controls]

    def values(self, case: str, method: str, q: str, name: str) -> np.ndarray:
        """Return a measure at a level, or at the method's own one, by seed."""
        at = [t["at"].get(q, t["at"].get("own")) for t in self.trials.get((case, method), [])]
        return np.array([level[name] for level in at if level is not None])

    def table(self, methods: list[str], cell: Callable[[str, str], Iterable[str]]) -> str:
        """Return a table of cases and methods; the texts of a cell are divided by slashes."""
        rows = [[case, *(" / ".join(cell(case, m)) for m in methods)] for case in self.cases]
        return markdown_table(["noise", *methods], rows)

    def fsr(self) -> str:
        def cell(case: str, method: str) -> Iterable[str]:
            for q in SHOWN:
                values = self.values(case, method, q, "fsr")
                above = len(values) and not within(values, float(q))
                yield f"**{_short(values)}**" if above else _short(values)

        return self.table(self.controls, cell)

    def recall(self) -> str:
        return self.table(
            self.controls,
            lambda case, m: (_short(self.values(case, m, q, "recall")) for q in SHOWN[:2]),
        )

    def beside_others(self) -> str:
        named = ["default", *self.peers]
        names = ("fsr", "recall", "f1")
        table = self.table(
            named, lambda case, m: (_short(self.values(case, m, "0.1", name)) for name in names)
        )
        return table.replace("| default |", "| default, q = 0.1 |", 1)

    def keeps(self, case: str, method: str) -> bool:
        """Return whether the FSR is within q at all three levels."""
        return all(within(self.values(case, method, q, "fsr"), float(q)) for q in SHOWN)


def mean_and_error(values: Any) -> tuple[float, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def within(values: np.ndarray, q: float) -> bool:
    """Return whether the mean is at most q + 2 standard errors."""
    mean, error = mean_and_error(values)
    return mean <= q + 2 * error + 1e-9


def _short(values: np.ndarray) -> str:
    return f"{values.mean():.3f}".removeprefix("0") if len(values) else "-"


def parts(trials: Trials, cost: dict[str, Any], methods: Iterable[str]) -> dict[str, str]:
    """Return the parts of the page by their names."""
    groups = {
        name: Measured(trials, name, methods) for name in ("table", "untuned", "people", "small")
    }
    shown = {"targets": targets(groups["table"])}
    for name, group in groups.items():
        shown |= {f"{name}, FSR": group.fsr(), f"{name}, recall": group.recall()}
        if group.peers:
            shown[f"{name}, beside others"] = group.beside_others()
    seconds = {method: np.median(found) for method, found in cost["seconds"].items()}
    rows = [[m, f"{s:.2f}", f"{s / seconds['paper']:.2f}"] for m, s in seconds.items()]
    return shown | {
        "noise rate": _noise_table(groups[name] for name in ("table", "untuned", "people")),
        "time": markdown_table(["method", "seconds (median)", "times the paper's control"], rows),
    }


def range_on_people(trials: Trials, word: str) -> str:
    """Return the smallest and largest mean FSR of the default at q = 0.05, over some cases."""
    people = Measured(trials, "people", ["default"])
    cases = [case for case in people.cases if word in case]
    means = [people.values(case, "default", "0.05", "fsr").mean() for case in cases]
    return f"{100 * min(means):.1f} to {100 * max(means):.1f} %"


def targets(measured: Measured) -> str:
    """Return the table of targets: recall and FSR that were to be reached."""
    rows = []
    for case, target in RECALL_TARGETS.items():
        recall = measured.values(case, "default", "0.1", "recall").mean()
        kept = measured.keeps(case, "default")
        rows.append(
            ["default", case, f"{recall:.3f}", f">= {target:g}", kept, recall >= target and kept]
        )
    recall, fsr = (
        measured.values("Sym. 80%", "default", "0.2", name).mean() for name in ("recall", "fsr")
    )
    met = recall >= 0.45 and fsr <= 0.2
    rows.append(["default", "Sym. 80%, q = 0.20", f"{recall:.3f}", ">= 0.45", fsr <= 0.2, met])
    for case in measured.cases:
        kept = measured.keeps(case, "exchangeable")
        rows.append(["exchangeable", case, "-", "-", kept, kept])
    head = ["control", "noise", "recall at q = 0.10", "target", "FSR within q", "met"]
    words = (
        [*row, "yes" if kept else "no", "yes" if met else "**no**"] for *row, kept, met in rows
    )
    return markdown_table(head, words)


def _noise_table(groups: Iterable[Measured]) -> str:
    rows = []
    for measured in groups:
        for case in measured.cases:
            found = measured.trials[case, "default"]
            mean, error = mean_and_error([trial["noise_rate"] for trial in found])
            true = np.mean([trial["wrong"] for trial in found])
            rows.append([case, f"{true:.3f}", f"{mean:.3f} ± {error:.3f}"])
    return markdown_table(["noise", "wrong labels", "estimated"], rows)


def figure(measured: Measured) -> Figure:
    """Draw the realised error rate against q: a line for each control, a panel for each case."""
    cases, columns = measured.cases, 4
    height = -(-len(cases) // columns)
    with mpl.rc_context({"svg.hashsalt": "kspr", "font.size": 8}):
        drawing = Figure(figsize=(10, 2.6 * height + 0.5))
        axes = drawing.subplots(height, columns, squeeze=False).ravel()
        for panel, case in zip(axes, cases, strict=False):
            _panel(panel, measured, case)
        for panel in axes[len(cases) :]:
            panel.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
        drawing.tight_layout(rect=(0, 0.06, 1, 1))
        return drawing


def _panel(panel: Axes, measured: Measured, case: str) -> None:
    panel.plot([0, 0.3], [0, 0.3], color="#999999", linewidth=1, linestyle="--")
    for control, colour in COLOURS.items():
        found = measured.trials.get((case, control), [])
        levels = sorted({q for trial in found for q in trial["at"]}, key=float)
        real = [measured.values(case, control, q, "fsr").mean() for q in levels]
        asked = [float(q) for q in levels]
        panel.plot(asked, real, color=colour, marker="o", markersize=2.5, label=control)
    panel.set_title(case, fontsize=9)
    panel.set(xlabel="asked (q)", ylabel="realised FSR", xlim=(0, 0.31), ylim=(0, 0.45))
