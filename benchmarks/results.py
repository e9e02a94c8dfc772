"""Write docs/results.md from what was really run: `make results`.

    kspr reproduce table4 --scale mini --jobs 2 --data FOLDER --out benchmarks/results/reproduced
    python benchmarks/results.py

The page holds what the JSON files in benchmarks/results/reproduced and benchmarks/results/peers
hold, and nothing else; results of the scale `smoke` are refused, because they say nothing of the
method.
"""

from pathlib import Path

from _peers_page import render_peers, stored_peers
from _prose import wrap_prose
from kspr.experiments.reproduce.page import render_markdown, write_figure
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import Reproduction, read_reproduction

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "benchmarks" / "results" / "reproduced"
PEERS = ROOT / "benchmarks" / "results" / "peers"
PAGE = ROOT / "docs" / "results.md"
FIGURES = {
    "figure2": "reproduced-figure2.svg",
    "figure3": "reproduced-figure3.svg",
    "figure4": "reproduced-figure4.svg",
    "figure5": "reproduced-figure5.svg",
    "appendix-figure1": "reproduced-appendix-figure1.svg",
}
"""Where the figures of the page are, in docs/figures."""

HEAD = """# The paper reproduced, and its peers beside it

Every table and figure of the paper is a recipe (`src/kspr/experiments/reproduce/recipes/`), run by
one command and shown with the paper's values beside ours. Made by `make results` from the
JSON files in `benchmarks/results/reproduced/`; a test fails where this page and they differ.

- `--scale mini` is what a machine with two cores can do in half an hour: heads on frozen ImageNet
  features, or small networks on a part of the images. Methods can be compared with each other
  there. Its accuracies are not those of a ResNet-18 trained for 180 epochs.
- `--scale paper` is the paper's setting, for a machine with GPUs{full}.
- `--scale smoke` runs in seconds on handwritten digits, to show that a recipe works. Its numbers
  are not shown here.

## What has been run

{state}
"""


def stored() -> dict[str, Reproduction]:
    """Return the result to show for each recipe: the one at the largest scale."""
    found = {}
    for path in sorted(STORED.glob("*.json")):
        result = read_reproduction(path)
        if result.scale == "smoke":
            raise ValueError(f"{path} is of the scale smoke, which is not for this page.")
        if result.recipe not in found or result.scale == "paper":
            found[result.recipe] = result
    return {name: found[name] for name in recipe_names() if name in found}


def render_page(found: dict[str, Reproduction]) -> str:
    lines = ["| recipe | in the paper | run | with |", "|---|---|---|---|"]
    lines += [_state(name, found.get(name)) for name in recipe_names()]
    sections = [
        render_markdown(result, f"figures/{FIGURES[name]}" if name in FIGURES else None)
        for name, result in found.items()
    ]
    full = "" if any(r.scale == "paper" for r in found.values()) else "; it has not been run"
    head = HEAD.format(state="\n".join(lines), full=full).rstrip()
    peers = render_peers(stored_peers(PEERS))
    return wrap_prose("\n\n".join(filter(None, [head, *sections, peers])) + "\n")


def _state(name: str, result: Reproduction | None) -> str:
    place = load_recipe(name).place
    if result is None:
        return f"| `{name}` | {place} | not yet | `kspr reproduce {name} --scale mini` |"
    ran = f"scale {result.scale}, {max(cell.when for cell in result.cells)[:10]}"
    return f"| `{name}` | {place} | {ran} | `{' '.join(result.command)}` |"


def main() -> None:
    found = stored()
    for name, file in FIGURES.items():
        if name in found:
            write_figure(found[name], PAGE.parent / "figures" / file)
    PAGE.write_text(render_page(found))
    print(f"wrote {PAGE.relative_to(ROOT)}: {len(found)} of {len(recipe_names())} recipes were run")


if __name__ == "__main__":
    main()
