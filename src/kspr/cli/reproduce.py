"""`kspr reproduce`: the paper's tables and figures, at the scale of this machine."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr.cli._output import INVOCATION, Json, print_json

__all__ = ["reproduce"]


def reproduce(
    recipe: str | None = None,
    /,
    *,
    scale: str = "smoke",
    seeds: int | None = None,
    jobs: int = 1,
    out: Path = Path("kspr-reproduced"),
    data: Path | None = None,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    json: Json = False,
) -> None:
    """Run a table or figure of the paper, and show its values beside those found here.

    What was run is kept in --out: a run that is interrupted goes on with the same command, and a
    second one is answered from there. The answer depends on the seeds, never on --jobs.

    Example: kspr reproduce --list

    Example: kspr reproduce table4 --scale mini --seeds 3 --jobs 2 --data data/cifar10

    Parameters
    ----------
    recipe
        Its name: table1 to table6, figure2 to figure5, appendix-figure1.
    scale
        `smoke`: seconds, on handwritten digits or made data; shows that it runs, nothing else.
        `mini`: at most half an hour on two cores, on real CIFAR-10 features or images. `paper`:
        the full setting, for a machine with GPUs.
    seeds
        How many times each cell is run, with other noise and other splits. [default: the recipe's]
    jobs
        Cells that run side by side.
    out
        Folder for the cells, the table (Markdown), the figure (SVG) and the result (JSON).
    data
        Folder with the data set, or the one that holds it. `kspr datasets` says where it is
        looked for otherwise; CIFAR-10 may also be there as features.npz or train.parquet.
    list_
        List the recipes and what each would run, and stop.
    """
    from kspr.errors import InputError
    from kspr.experiments.reproduce.recipes import load_recipe
    from kspr.experiments.reproduce.running import reproduce as run

    if list_:
        _list(data, json)
        return
    if recipe is None:
        raise InputError("Name a recipe, such as table4; `kspr reproduce --list` shows them all.")
    command = INVOCATION.get()
    found = run(
        load_recipe(recipe), scale, out, seeds=seeds, jobs=jobs, folder=data, command=command
    )
    from kspr.experiments.reproduce.page import render_text, write_reproduction

    written = write_reproduction(found, out)
    if json:
        print_json(found)
        return
    print(render_text(found))
    print("\nWritten: " + ", ".join(map(str, (out / f"{recipe}-{scale}.json", *written))))


def _list(data: Path | None, json: bool) -> None:
    from kspr.experiments.reproduce.listing import list_recipes

    listed = list_recipes(data)
    if json:
        print_json(listed)
        return
    for entry in listed:
        print(f"{entry.name:<17} {entry.place}: {entry.title}")
        for scale in entry.scales:
            took = f"about {scale.minutes} min on two cores; " if scale.minutes else ""
            print(f"{'':<17}   {scale.name:<6} cells: {scale.cells:>3}; {took}{scale.state}")
