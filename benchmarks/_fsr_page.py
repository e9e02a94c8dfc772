"""docs/error-rate.md and its figures, from the trials of `fsr.py`."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from _common import DOCS, RESULTS, markdown_table, measured_when, read_trials
from _fsr_methods import METHODS
from _prose import wrap_prose

__all__ = ["ESTIMATED", "FIGURES", "PAGE", "render_page", "write_page"]

PAGE = DOCS / "error-rate.md"
FIGURES = DOCS / "figures"
ESTIMATED = "estimates.jsonl"
"""Trials of `estimates.py`."""
TEMPLATE = Path(__file__).with_suffix(".md")
SHOWN = ("0.05", "0.1", "0.2")
COLOURS = {
    "default": "#1b6ca8",
    "100 checks": "#0b2f4a",
    "class only": "#74b3d8",
    "exchangeable": "#2f855a",
    "paper": "#c2570c",
    "theorem": "#e3a873",
}
"""Lines of the figures: one for each control."""

Trials = list[dict[str, Any]]


class Measured:
    """Trials of one table by case and method, in the order in which they were measured."""

    def __init__(self, trials: Trials, group: str) -> None:
        self.trials: dict[tuple[str, str], Trials] = defaultdict(list)
        for trial in trials:
            if trial["group"] == group:
                case = trial["noise"]
                if trial["data"] != "CIFAR-10":
                    case = f"{trial['data']}, {case}"
                self.trials[case, trial["method"]].append(trial)

    @property
    def cases(self) -> list[str]:
        return list(dict.fromkeys(case for case, _ in self.trials))

    @property
    def methods(self) -> list[str]:
        present = {method for _, method in self.trials}
        return [method for method in METHODS if method in present]

    def values(self, case: str, method: str, q: str, name: str) -> np.ndarray:
        found = self.trials.get((case, method), [])
        at = [trial["at"].get(q, trial["at"].get("own")) for trial in found]
        return np.array([level[name] for level in at if level is not None])

    def has_levels(self, method: str) -> bool:
        return any(
            "0.1" in r["at"] for (_, m), rs in self.trials.items() for r in rs if m == method
        )


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def write_page(trials: Trials, cost: dict[str, Any]) -> None:
    FIGURES.mkdir(exist_ok=True)
    for group, name in (("table", "error-rate.svg"), ("untuned", "error-rate-untuned.svg")):
        _figure(Measured(trials, group)).savefig(
            FIGURES / name, format="svg", metadata={"Date": None}
        )
    PAGE.write_text(render_page(trials, cost))


def render_page(trials: Trials, cost: dict[str, Any]) -> str:
    """Return the text of the page, which depends on the trials only."""
    groups = ("table", "untuned", "people", "small")
    table, untuned, people, small = (Measured(trials, group) for group in groups)
    seeds = max(trial["seed"] for trial in trials if trial["group"] == "table") + 1
    page = TEMPLATE.read_text().format(
        seeds=seeds,
        measured=measured_when(trials),
        cost_measured=measured_when([cost]),
        estimates_measured=measured_when(read_trials(RESULTS / ESTIMATED)),
        targets=_targets(table),
        fsr=_fsr_table(table),
        recall=_recall_table(table),
        peers=_peer_table(table),
        untuned_fsr=_fsr_table(untuned),
        untuned_recall=_recall_table(untuned),
        untuned_peers=_peer_table(untuned),
        people_rate=_range(people, "CIFAR-10N"),
        texts_rate=_range(people, "confused"),
        people_fsr=_fsr_table(people),
        people_recall=_recall_table(people),
        small_fsr=_fsr_table(small),
        small_recall=_recall_table(small),
        small_peers=_peer_table(small),
        estimates=_estimates_table(),
        noise=_noise_table([table, untuned, people]),
        time=_time_table(cost),
        cost_case=cost["case"],
    )
    return wrap_prose(page)


def _range(measured: Measured, word: str) -> str:
    """Return the smallest and largest mean FSR of the default at q = 0.05, over some cases."""
    cases = [case for case in measured.cases if word in case]
    means = [measured.values(case, "default", "0.05", "fsr").mean() for case in cases]
    return f"{100 * min(means):.1f} to {100 * max(means):.1f} %"


def _short(value: float) -> str:
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def _fsr_table(measured: Measured) -> str:
    controls = [method for method in measured.methods if measured.has_levels(method)]
    rows = []
    for case in measured.cases:
        row = [case]
        for control in controls:
            cells = []
            for q in SHOWN:
                values = measured.values(case, control, q, "fsr")
                if not len(values):
                    cells.append("-")
                    continue
                mean, error = mean_and_error(values)
                mark = "**" if mean > float(q) + 2 * error + 1e-9 else ""
                cells.append(f"{mark}{_short(mean)}{mark}")
            row.append(" / ".join(cells))
        rows.append(row)
    return markdown_table(["noise", *controls], rows)


def _recall_table(measured: Measured) -> str:
    controls = [method for method in measured.methods if measured.has_levels(method)]
    rows = []
    for case in measured.cases:
        row = [case]
        for control in controls:
            found = [measured.values(case, control, q, "recall") for q in ("0.05", "0.1")]
            row.append(" / ".join(_short(v.mean()) if len(v) else "-" for v in found))
        rows.append(row)
    return markdown_table(["noise", *controls], rows)


def _peer_table(measured: Measured) -> str:
    peers = [method for method in measured.methods if not measured.has_levels(method)]
    rows = []
    for case in measured.cases:
        row = [case]
        for method in ("default", *peers):
            names = ("fsr", "recall", "f1")
            found = [measured.values(case, method, "0.1", name) for name in names]
            row.append(" / ".join(_short(v.mean()) if len(v) else "-" for v in found))
        rows.append(row)
    return markdown_table(["noise", "default, q = 0.1", *peers], rows)


RECALL_TARGETS = {
    "Sym. 20%": 0.97,
    "Sym. 40%": 0.91,
    "Sym. 60%": 0.80,
    "Asy. 20%": 0.96,
    "Asy. 30%": 0.91,
    "Asy. 40%": 0.87,
}
"""Recall to reach at q = 0.10, where the FSR must be kept at all three q."""


def _targets(measured: Measured) -> str:
    """Return the table of targets: recall and FSR that were to be reached."""
    rows = []
    for case, target in RECALL_TARGETS.items():
        recall = measured.values(case, "default", "0.1", "recall").mean()
        kept = _within(measured, case, "default")
        met = "yes" if recall >= target and kept else "**no**"
        rows.append(["default", case, f"{recall:.3f}", f">= {target:g}", _word(kept), met])
    recall, fsr = (
        measured.values("Sym. 80%", "default", "0.2", name).mean() for name in ("recall", "fsr")
    )
    met = "yes" if recall >= 0.45 and fsr <= 0.2 else "**no**"
    kept = _word(fsr <= 0.2)
    rows.append(["default", "Sym. 80%, q = 0.20", f"{recall:.3f}", ">= 0.45", kept, met])
    for case in measured.cases:
        kept = _within(measured, case, "exchangeable")
        rows.append(["exchangeable", case, "-", "-", _word(kept), "yes" if kept else "**no**"])
    return markdown_table(
        ["control", "noise", "recall at q = 0.10", "target", "FSR within q", "met"], rows
    )


def _within(measured: Measured, case: str, method: str) -> bool:
    """Return whether the FSR is at most q + 2 standard errors at all three levels."""
    found = {q: mean_and_error(measured.values(case, method, q, "fsr")) for q in SHOWN}
    return all(mean <= float(q) + 2 * error for q, (mean, error) in found.items())


def _word(kept: bool) -> str:
    return "yes" if kept else "no"


def _noise_table(groups: list[Measured]) -> str:
    rows = []
    for measured in groups:
        for case in measured.cases:
            found = measured.trials[case, "default"]
            true = np.mean([trial["wrong"] for trial in found])
            mean, error = mean_and_error(np.array([trial["noise_rate"] for trial in found]))
            rows.append([case, f"{true:.3f}", f"{mean:.3f} ± {error:.3f}"])
    return markdown_table(["noise", "wrong labels", "estimated"], rows)


def _estimates_table() -> str:
    """Return the coverage and the width of each estimate, and the width by the checks alone."""
    trials = read_trials(RESULTS / ESTIMATED)
    names = list(trials[0]["estimates"]) if trials else []
    rows = []
    for trial in trials:
        row = [trial["case"], trial["drawn"]]
        for held, width, *plain in trial["estimates"].values():
            beside = f" ({_short(plain[0])})" if plain else ""
            row.append(f"{_short(held)}, {_short(width)}{beside}")
        rows.append(row)
    return markdown_table(["labels", "drawn from", *names], rows)


def _time_table(cost: dict[str, Any]) -> str:
    seconds = {method: np.median(found) for method, found in cost["seconds"].items()}
    rows = [[m, f"{s:.2f}", f"{s / seconds['paper']:.2f}"] for m, s in seconds.items()]
    return markdown_table(["method", "seconds (median)", "times the paper's control"], rows)


def _figure(measured: Measured) -> Figure:
    """Draw the realised error rate against q: a line for each control, a panel for each case."""
    cases = measured.cases
    columns = 4
    height = -(-len(cases) // columns)
    with mpl.rc_context({"svg.hashsalt": "kspr", "font.size": 8}):
        figure = Figure(figsize=(10, 2.6 * height + 0.5))
        axes = figure.subplots(height, columns, squeeze=False).ravel()
        for panel, case in zip(axes, cases, strict=False):
            _panel(panel, measured, case)
        for panel in axes[len(cases) :]:
            panel.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        return figure


def _panel(panel: Axes, measured: Measured, case: str) -> None:
    panel.plot([0, 0.3], [0, 0.3], color="#999999", linewidth=1, linestyle="--")
    for control, colour in COLOURS.items():
        found = measured.trials.get((case, control), [])
        levels = sorted({q for trial in found for q in trial["at"]}, key=float)
        asked = [float(q) for q in levels]
        real = [measured.values(case, control, q, "fsr").mean() for q in levels]
        panel.plot(asked, real, color=colour, marker="o", markersize=2.5, label=control)
    panel.set_title(case, fontsize=9)
    panel.set_xlabel("asked (q)")
    panel.set_ylabel("realised FSR")
    panel.set_xlim(0, 0.31)
    panel.set_ylim(0, 0.45)
