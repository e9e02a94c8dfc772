"""docs/error-rate.md and its figures, from the measurements of `fsr.py`."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from _common import ROOT
from _fsr_methods import METHODS

__all__ = ["FIGURES", "PAGE", "render_page", "write_page"]

PAGE = ROOT / "docs" / "error-rate.md"
FIGURES = ROOT / "docs" / "figures"
TEMPLATE = Path(__file__).with_suffix(".md")
SHOWN = ("0.05", "0.1", "0.2")
COLOURS = {
    "transition": "#1b6ca8",
    "transition, pooled": "#74b3d8",
    "exchangeable": "#2f855a",
    "exchangeable, no floor": "#8cc5a2",
    "paper": "#c2570c",
    "theorem": "#e3a873",
}
"""One line a mode, in the figures."""

Records = list[dict[str, Any]]


class Measured:
    """Measurements by setting and method, in the order in which they were made."""

    def __init__(self, records: Records, group: str) -> None:
        self.cells: dict[tuple[str, str], Records] = defaultdict(list)
        for record in records:
            if record["group"] == group:
                setting = record["noise"]
                if record["data"] != "CIFAR-10":
                    setting = f"{record['data']}, {setting}"
                self.cells[setting, record["method"]].append(record)

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(setting for setting, _ in self.cells))

    @property
    def methods(self) -> list[str]:
        present = {method for _, method in self.cells}
        return [method for method in METHODS if method in present]

    def values(self, setting: str, method: str, q: str, name: str) -> np.ndarray:
        found = self.cells.get((setting, method), [])
        at = [record["at"].get(q, record["at"].get("own")) for record in found]
        return np.array([cell[name] for cell in at if cell is not None])

    def has_levels(self, method: str) -> bool:
        return any("0.1" in r["at"] for (_, m), rs in self.cells.items() for r in rs if m == method)


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean()), float(error)


def write_page(records: Records, cost: dict[str, Any]) -> None:
    FIGURES.mkdir(exist_ok=True)
    for group, name in (("table", "error-rate.svg"), ("untuned", "error-rate-untuned.svg")):
        _figure(Measured(records, group)).savefig(
            FIGURES / name, format="svg", metadata={"Date": None}
        )
    PAGE.write_text(render_page(records, cost))


def render_page(records: Records, cost: dict[str, Any]) -> str:
    """Return the page: a pure function of the measurements."""
    table, untuned, small = (Measured(records, group) for group in ("table", "untuned", "small"))
    seeds = max(record["seed"] for record in records if record["group"] == "table") + 1
    dates = sorted(record["date"][:10] for record in records)
    return TEMPLATE.read_text().format(
        seeds=seeds,
        dates=dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}",
        targets=_targets(table),
        fsr=_fsr_table(table),
        recall=_recall_table(table),
        peers=_peer_table(table),
        untuned_fsr=_fsr_table(untuned),
        untuned_recall=_recall_table(untuned),
        untuned_peers=_peer_table(untuned),
        small_fsr=_fsr_table(small),
        small_recall=_recall_table(small),
        small_peers=_peer_table(small),
        noise=_noise_table([table, untuned]),
        time=_time_table(cost),
        cost_setting=cost["setting"],
        cost_date=cost["date"][:10],
    )


def _lines(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    columns = list(head)
    out = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    out += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(out)


def _short(value: float) -> str:
    text = f"{value:.3f}"
    return text[1:] if text.startswith("0.") else text


def _fsr_table(measured: Measured) -> str:
    modes = [method for method in measured.methods if measured.has_levels(method)]
    rows = []
    for setting in measured.settings:
        row = [setting]
        for mode in modes:
            cells = []
            for q in SHOWN:
                values = measured.values(setting, mode, q, "fsr")
                if not len(values):
                    cells.append("-")
                    continue
                mean, error = mean_and_error(values)
                mark = "**" if mean > float(q) + 2 * error + 1e-9 else ""
                cells.append(f"{mark}{_short(mean)}{mark}")
            row.append(" / ".join(cells))
        rows.append(row)
    return _lines(["noise", *modes], rows)


def _recall_table(measured: Measured) -> str:
    modes = [method for method in measured.methods if measured.has_levels(method)]
    rows = []
    for setting in measured.settings:
        found = [measured.values(setting, mode, "0.1", "recall") for mode in modes]
        rows.append([setting, *(_short(v.mean()) if len(v) else "-" for v in found)])
    return _lines(["noise", *modes], rows)


def _peer_table(measured: Measured) -> str:
    peers = [method for method in measured.methods if not measured.has_levels(method)]
    rows = []
    for setting in measured.settings:
        row = [setting]
        for method in ("transition", *peers):
            names = ("fsr", "recall", "f1")
            found = [measured.values(setting, method, "0.1", name) for name in names]
            row.append(" / ".join(_short(v.mean()) if len(v) else "-" for v in found))
        rows.append(row)
    return _lines(["noise", "transition, q = 0.1", *peers], rows)


RECALL_TARGETS = {
    "transition": {
        "Sym. 20%": 0.97,
        "Sym. 40%": 0.91,
        "Sym. 60%": 0.80,
        "Asy. 20%": 0.96,
        "Asy. 30%": 0.91,
        "Asy. 40%": 0.87,
    },
    "exchangeable, no floor": {"Sym. 20%": 0.86, "Sym. 40%": 0.76, "Sym. 60%": 0.48},
}
"""Recall to reach at q = 0.10, where the FSR must be kept at all three q."""


def _targets(measured: Measured) -> str:
    """Hold the measurements against what was asked of them."""
    rows = []
    for method, wanted in RECALL_TARGETS.items():
        for setting, target in wanted.items():
            recall = measured.values(setting, method, "0.1", "recall").mean()
            kept = _within(measured, setting, method)
            met = "yes" if recall >= target and kept else "**no**"
            rows.append([method, setting, f"{recall:.3f}", f">= {target:g}", _word(kept), met])
    recall, fsr = (
        measured.values("Sym. 80%", "transition", "0.2", name).mean() for name in ("recall", "fsr")
    )
    met = "yes" if recall >= 0.45 and fsr <= 0.2 else "**no**"
    kept = _word(fsr <= 0.2)
    rows.append(["transition", "Sym. 80%, q = 0.20", f"{recall:.3f}", ">= 0.45", kept, met])
    for setting in measured.settings:
        kept = _within(measured, setting, "exchangeable")
        rows.append(["exchangeable", setting, "-", "-", _word(kept), "yes" if kept else "**no**"])
    return _lines(["mode", "noise", "recall at q = 0.10", "target", "FSR kept", "met"], rows)


def _within(measured: Measured, setting: str, method: str) -> bool:
    """Say whether the FSR stays below q + 2 standard errors at all three levels."""
    found = {q: mean_and_error(measured.values(setting, method, q, "fsr")) for q in SHOWN}
    return all(mean <= float(q) + 2 * error for q, (mean, error) in found.items())


def _word(kept: bool) -> str:
    return "yes" if kept else "no"


def _noise_table(groups: list[Measured]) -> str:
    rows = []
    for measured in groups:
        for setting in measured.settings:
            found = measured.cells[setting, "transition"]
            true = np.mean([record["wrong"] for record in found])
            mean, error = mean_and_error(np.array([record["noise_rate"] for record in found]))
            rows.append([setting, f"{true:.3f}", f"{mean:.3f} ± {error:.3f}"])
    return _lines(["noise", "wrong labels", "estimated"], rows)


def _time_table(cost: dict[str, Any]) -> str:
    seconds = {method: np.median(found) for method, found in cost["seconds"].items()}
    rows = [[m, f"{s:.2f}", f"{s / seconds['paper']:.2f}"] for m, s in seconds.items()]
    return _lines(["method", "seconds (median)", "times the paper's mode"], rows)


def _figure(measured: Measured) -> Figure:
    """Draw realised against asked, one line a mode, one panel a kind of noise."""
    settings = measured.settings
    columns = 4
    height = -(-len(settings) // columns)
    with mpl.rc_context({"svg.hashsalt": "kspr", "font.size": 8}):
        figure = Figure(figsize=(10, 2.6 * height + 0.5))
        axes = figure.subplots(height, columns, squeeze=False).ravel()
        for panel, setting in zip(axes, settings, strict=False):
            _panel(panel, measured, setting)
        for panel in axes[len(settings) :]:
            panel.set_axis_off()
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False)
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        return figure


def _panel(panel: Axes, measured: Measured, setting: str) -> None:
    panel.plot([0, 0.3], [0, 0.3], color="#999999", linewidth=1, linestyle="--")
    for mode, colour in COLOURS.items():
        found = measured.cells.get((setting, mode), [])
        levels = sorted({q for record in found for q in record["at"]}, key=float)
        asked = [float(q) for q in levels]
        real = [measured.values(setting, mode, q, "fsr").mean() for q in levels]
        panel.plot(asked, real, color=colour, marker="o", markersize=2.5, label=mode)
    panel.set_title(setting, fontsize=9)
    panel.set_xlabel("asked (q)")
    panel.set_ylabel("realised FSR")
    panel.set_xlim(0, 0.31)
    panel.set_ylim(0, 0.45)
