"""`kspr reproduce`: run a table or figure of the paper."""

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from kspr.cli import _common as common


def reproduce(
    recipe: str | None = None,
    /,
    *,
    scale: str = "smoke",
    methods: common.Names = None,
    noises: common.Names = None,
    seeds: int | None = None,
    shard: str | None = None,
    jobs: int | None = None,
    device: common.Names = None,
    again: Annotated[bool, Parameter(negative="")] = False,
    out: Path = Path("kspr-reproduced"),
    data: Path | None = None,
    # The name of the flag, without the underscore that keeps the builtin `list` usable.
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    json: common.Json = False,
) -> None:
    """Run a table or figure of the paper, and show our values beside the paper's.

    Finished trials are kept in --out: the same command continues an interrupted run, and computes
    nothing twice. The values depend on the seeds, never on --jobs. Each trial is kept with the
    version and commit of kspr that computed it; the page says which, and which trials are older.

    Parts of a recipe can be run in several places. Copy their folders into one: the command shows
    all that is there. A trial that cannot run is named with the reason, and the others go on; the
    exit code is then 1.

    Example: kspr reproduce --list

    Example: kspr reproduce table4 --scale mini --seeds 3 --jobs 2 --data data/cifar10

    Example: kspr reproduce table1 --scale paper --methods SPR GCE --device cuda:0 cuda:1

    Example: kspr reproduce table1 --scale paper --shard 3/8 --out shared

    Parameters
    ----------
    recipe
        Name of the recipe: table1 to table6, human-noise, figure2 to figure5, appendix-figure1.
    scale
        `smoke`: seconds, on handwritten digits or generated data, to see that the recipe runs.
        `mini`: on CIFAR-10 features or images, for two cores; --list says how many minutes, and
        table1 takes hours. `paper`: what the paper ran, as far as the recipe's note says no other,
        for a machine with GPUs.
    methods
        Rows of the table to run, named as in it. [default: all]
    noises
        Noises to run, named as in the table: "Sym. 40 %". [default: all]
    seeds
        Number of trials of each method, with different noise and splits. [default: the recipe's]
    shard
        `3/8` runs the third of eight parts of the trials, for the jobs of an array.
    jobs
        Number of trials that run at the same time. [default: 1, or one for each device]
    device
        Devices that networks are trained on, shared by the jobs. [default: a GPU if there is one]
    again
        Run trials anew that another version or commit of kspr has computed.
    out
        Folder for the trials, the result (JSON), the table (Markdown) and the figure (SVG).
    data
        Folder of the data set, or its parent folder. Without it, the places that `kspr datasets`
        lists are used. CIFAR-10 can also be features.npz or train.parquet.
    list_
        List the recipes with the number of trials at each scale, and run nothing.
    """
    from kspr.errors import InputError
    from kspr.experiments.reproduce.figures import write_reproduction
    from kspr.experiments.reproduce.recipes import load_recipe
    from kspr.experiments.reproduce.rendering import render_text
    from kspr.experiments.reproduce.running import reproduce as run
    from kspr.experiments.reproduce.trials import Part

    if list_:
        _list(data, json)
        return
    if recipe is None:
        raise InputError("Name a recipe, such as table4; `kspr reproduce --list` shows them.")
    result = run(
        load_recipe(recipe),
        scale,
        out,
        seeds=seeds,
        part=Part(methods, noises, shard),
        jobs=jobs,
        devices=device or (),
        again=again,
        folder=data,
        # Kept in the result, so that its page can say how it was computed.
        command=common.INVOCATION.get(),
    )
    written = write_reproduction(result, out)
    if json:
        common.print_json(result)
    else:
        print(render_text(result))
        print("\nWritten: " + ", ".join(map(str, (out / f"{recipe}-{scale}.json", *written))))
    if result.failed:
        n = len(result.failed)
        common.print_notes([f"{n} trial{'s' * (n != 1)} could not be run; the page says why."])
        sys.exit(1)


def _list(data: Path | None, json: bool) -> None:
    from kspr._text import text_table
    from kspr.experiments.reproduce.trials import list_recipes

    listed = list_recipes(data)
    if json:
        common.print_json(listed)
        return
    for (name, place, title), scales in groupby(listed, lambda x: (x.recipe, x.place, x.title)):
        print(f"{name}: {place}, {title}")
        rows = [("", s.scale, str(s.trials), str(s.minutes or "-"), s.state) for s in scales]
        print(text_table(["", "scale", "trials", "minutes", "here"], rows, left=5) + "\n")
    print("Minutes are for two jobs on two cores.")
