"""Draw the README's figure: `python benchmarks/readme_figure.py`.

Left: the most suspicious of 1,797 handwritten digits of which 20 % are mislabelled. Right: the
error rate asked for and realised on CIFAR-10 features, from benchmarks/results/fsr.jsonl.
"""

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

from _common import DOCS, ROOT, arguments, read_trials
from kspr import KnockoffsSPR
from kspr.noise import symmetric

NAME = "readme.svg"
OUT = DOCS / "figures" / NAME
MEASURES = ("src/kspr/core", "src/kspr/selectors")
LINES = {
    "wrong by class (Sym. 40 %)": ("Sym. 40%", "#1b6ca8"),
    "wrong by class (Asy. 40 %)": ("Asy. 40%", "#74b3d8"),
    "wrong by features (40 %)": ("instance 40%", "#b03a2e"),
}
"""What is drawn on the right: a name, the noise in the results, and a colour."""
LEVELS = ("0.01", "0.02", "0.05", "0.1", "0.15", "0.2")


def draw() -> Figure:
    """Return the figure."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.05, 1])
    _draw_suspects(left)
    _draw_rates(right.subplots())
    return figure


def _draw_suspects(part: Any) -> None:
    X, y_true = load_digits(return_X_y=True)
    y = symmetric(y_true, rate=0.2, seed=0)
    selection = KnockoffsSPR(q=0.05).fit(X, y).selection_
    part.suptitle("The most suspicious labels", fontsize=11)
    axes = part.subplots(2, 5)
    for ax, row in zip(axes.flat, selection.suspect_indices, strict=False):
        ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"label {y[row]}\nbetter {selection.suggested_label[row]}", fontsize=9)
        ax.axis("off")


def _draw_rates(ax: Axes) -> None:
    trials = read_trials(ROOT / "benchmarks" / "results" / "fsr.jsonl")
    asked = np.array([float(q) for q in LEVELS])
    for name, (noise, colour) in LINES.items():
        levels = [
            trial["at"]
            for trial in trials
            if (trial["data"], trial["noise"], trial["method"]) == ("CIFAR-10", noise, "default")
        ]
        got = np.mean([[at[q]["fsr"] for q in LEVELS] for at in levels], axis=0)
        ax.plot(asked, got, "o-", color=colour, label=name, markersize=4)
    ax.plot([0, 0.2], [0, 0.2], color="k", linestyle=":", label="what was asked for")
    ax.set_title("Error rate among the kept labels", fontsize=11)
    ax.set(xlabel="asked for (q)", ylabel="got", xlim=(0, 0.205), xticks=np.arange(0, 0.21, 0.05))
    ax.set_ylim(0, None)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    arguments(__doc__).parse_args()
    mpl.rcParams["svg.hashsalt"] = "kspr"  # the same ids each time
    draw().savefig(OUT, format="svg", metadata={"Date": None})
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
