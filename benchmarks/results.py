"""Write docs/results.md from stored results: `make results`.

    kspr reproduce table4 --scale mini --jobs 2 --data FOLDER --out benchmarks/results/reproduced
    python benchmarks/results.py

The page shows benchmarks/results/reproduced and benchmarks/results/peers.jsonl. Results
of the scale `smoke` are refused, because they do not measure the method.
"""

from typing import Any

from _common import DOCS, ROOT, Bench, Store, markdown_table
from kspr.experiments.reproduce.figures import draw
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.rendering import render_markdown
from kspr.experiments.reproduce.reproduction import Reproduction, read_reproduction

# A smoke run reads the stored results too, and writes another page.
STORED = ROOT / "benchmarks" / "results" / "reproduced"
FIGURES = {
    "figure2": "reproduced-figure2.svg",
    "figure3": "reproduced-figure3.svg",
    "figure4": "reproduced-figure4.svg",
    "figure5": "reproduced-figure5.svg",
    "appendix-figure1": "reproduced-appendix-figure1.svg",
}
"""Names of the figures of the page in docs/figures."""
BUSY = ("appendix-figure1", "figure4", "human-noise", "table1", "table4", "table6")
"""Recipes that were run while other work had the machine: their minutes are too many."""


def stored() -> dict[str, Reproduction]:
    """Return the result of each recipe at the largest scale that was run."""
    found = {}
    for path in sorted(STORED.glob("*.json")):
        result = read_reproduction(path)
        if result.scale == "smoke":
            raise ValueError(f"{path} is of the scale smoke, which this page does not show.")
        if result.recipe not in found or result.scale == "paper":
            found[result.recipe] = result
    return {name: found[name] for name in recipe_names() if name in found}


def parts(found: dict[str, Reproduction]) -> dict[str, str]:
    states = [_state(name, found.get(name)) for name in recipe_names()]
    head = ["recipe", "in the paper", "run", "minutes, one job", "with"]
    sections = [_section(name, found.get(name)) for name in recipe_names()]
    return {"run": markdown_table(head, states), "recipes": "\n\n".join(filter(None, sections))}


def _section(name: str, result: Reproduction | None) -> str:
    if result is not None:
        return render_markdown(result, f"figures/{FIGURES[name]}" if name in FIGURES else None)
    # The paper's values beside empty columns; a figure would be empty.
    nothing = Reproduction(name, "mini", (), {}, {}, {}, ())
    return render_markdown(nothing) if load_recipe(name).reported else ""


def _state(name: str, result: Reproduction | None) -> list[str]:
    place = load_recipe(name).place
    if result is None:
        return [f"`{name}`", place, "not yet", "-", f"`kspr reproduce {name} --scale mini`"]
    ran = f"scale {result.scale}, {max(trial.when for trial in result.trials)[:10]}"
    minutes = f"{result.seconds / 60:,.1f}{' beside other work' * (name in BUSY)}"
    return [f"`{name}`", place, ran, minutes, f"`{' '.join(result.command)}`"]


class Reproduced(Store):
    """The trials of `kspr reproduce`."""

    def trials(self) -> list[dict[str, Any]]:
        """Return the trials of all recipes that are shown."""
        return [vars(trial) for result in stored().values() for trial in result.trials]


def draw_all() -> None:
    for name, result in stored().items():
        if name in FIGURES:
            draw(result, DOCS / "figures" / FIGURES[name])


BENCH = Bench(
    "make results",
    "results.md",
    (Reproduced("reproduced"),),
    lambda: parts(stored()),
    files=("src/kspr/core", "src/kspr/selectors", "src/kspr/train", "src/kspr/experiments"),
    stamped=False,
    draw=draw_all,
)

if __name__ == "__main__":
    BENCH.run(__doc__)
