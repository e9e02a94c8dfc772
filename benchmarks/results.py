"""Write docs/results.md from stored results: `make results`.

    kspr reproduce table4 --scale mini --jobs 2 --data FOLDER --out benchmarks/results/reproduced
    python benchmarks/results.py

The page shows the JSON files in benchmarks/results/reproduced and benchmarks/results/peers. Results
of the scale `smoke` are refused, because they do not measure the method.
"""

from _common import RESULTS, ROOT, markdown_table
from _peers_page import render_peers, stored_peers
from _prose import wrap_prose
from kspr.experiments.reproduce.figures import draw
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import (
    Reproduction,
    read_reproduction,
    render_markdown,
)

STORED = RESULTS / "reproduced"
PEERS = RESULTS / "peers"
PAGE = ROOT / "docs" / "results.md"
FIGURES = {
    "figure2": "reproduced-figure2.svg",
    "figure3": "reproduced-figure3.svg",
    "figure4": "reproduced-figure4.svg",
    "figure5": "reproduced-figure5.svg",
    "appendix-figure1": "reproduced-appendix-figure1.svg",
}
"""Names of the figures of the page in docs/figures."""

HEAD = """# The paper reproduced, and other methods compared

Every table and figure of the paper is a recipe (`src/kspr/experiments/reproduce/recipes/`), run by
one command and shown with the paper's values beside ours. Made by `make results` from the
JSON files in `benchmarks/results/reproduced/`; a test checks that this page matches them.

**Which default was measured.** Table 1, the table of human noise and the comparison with the
methods of others have the selection of today, and `kspr default` in the tables the cycle of
2026-11-18. Other rows of these two tables were trained before its last changes. One trial of each
method was then run again and had the same values (`benchmarks/results/restamped.json`); of the
oldest, of seed 0 of Table 1, two that were repeated earlier differ by 0.1 and 0.2 points. All other
tables and figures were measured before the default of the selection changed (one cut per class, SPR
first, 128 components); [Is the error rate kept?](error-rate.md) has the default of today.

- `--scale mini` is what a machine with two cores can do in half an hour: heads on frozen ImageNet
  features, or small networks on a part of the images. Methods can be compared with each other
  there; its accuracies are not those of a ResNet-18 trained for 180 epochs.
- `--scale paper` is what the paper ran, for a machine with GPUs{full}.
- `--scale smoke` runs in seconds on handwritten digits, to show that a recipe works. Its numbers
  are not shown here.

## What has been run

{state}
"""


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


def render_page(found: dict[str, Reproduction]) -> str:
    states = [_state(name, found.get(name)) for name in recipe_names()]
    table = markdown_table(["recipe", "in the paper", "run", "with"], states)
    sections = [
        render_markdown(result, f"figures/{FIGURES[name]}" if name in FIGURES else None)
        for name, result in found.items()
    ]
    full = "" if any(r.scale == "paper" for r in found.values()) else "; it has not been run"
    head = HEAD.format(state=table, full=full).rstrip()
    peers = render_peers(stored_peers(PEERS))
    return wrap_prose("\n\n".join(filter(None, [head, *sections, peers])) + "\n")


def _state(name: str, result: Reproduction | None) -> list[str]:
    place = load_recipe(name).place
    if result is None:
        return [f"`{name}`", place, "not yet", f"`kspr reproduce {name} --scale mini`"]
    ran = f"scale {result.scale}, {max(trial.when for trial in result.trials)[:10]}"
    return [f"`{name}`", place, ran, f"`{' '.join(result.command)}`"]


def main() -> None:
    found = stored()
    for name, file in FIGURES.items():
        if name in found:
            draw(found[name], PAGE.parent / "figures" / file)
    PAGE.write_text(render_page(found))
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(found)} of {len(recipe_names())} recipes were run")


if __name__ == "__main__":
    main()
