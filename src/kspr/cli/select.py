"""`kspr select`: the clean rows of a file, at an error rate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from kspr.cli._output import INVOCATION, Json, print_json
from kspr.data.options import AS_FOUND, AS_SHIPPED, EmbedSettings, ReadOptions

if TYPE_CHECKING:
    from kspr.data.runs import Run
    from kspr.selectors import SPR, KnockoffsSPR

__all__ = ["select"]


def select(
    source: Path,
    /,
    *,
    out: Path,
    q: float | None = None,
    preset: Literal["default", "paper", "spr"] = "default",
    level: Literal["fixed", "smallest"] | None = None,
    dimensions: int | None = None,
    clean_ratio: float | None = None,
    classes_per_group: int | None = None,
    samples_per_class: int | None = None,
    min_class_size: int | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    settings: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Find the rows whose labels can be trusted, and rank the others.

    SOURCE holds features (npy, npz, csv, tsv, parquet, arrow) or images or texts, which are
    embedded first. The run goes to the directory --out; look at it with `kspr report`.

    Example: kspr select embeddings.parquet --label species --q 0.05 --out run

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read.
    out
        Directory to make for the run.
    q
        Error rate: at most this share of the kept labels should be wrong. [default: 0.05]
    preset
        `default`; `paper`, the paper's own choices; or `spr`, a fixed share without error rate.
    level
        `fixed` keeps nothing where q cannot be reached; `smallest` takes the smallest level from q
        on that can be.
    dimensions
        Principal components to keep.
    clean_ratio
        Share that SPR keeps.
    classes_per_group
        Solve this many similar classes together.
    samples_per_class
        Split the data into pieces with this many samples of each class.
    min_class_size
        Smallest class that is accepted.
    seed
        Seed of the splits; the answer depends on it and on nothing else.
    n_jobs
        Workers for split data; -1 for all cores.
    overwrite
        Replace an earlier run in --out.
    """
    from kspr.data.selecting import select_source

    given = {
        "q": q,
        "level": level,
        "reduction": dimensions,
        "clean_ratio": clean_ratio,
        "classes_per_group": classes_per_group,
        "samples_per_class": samples_per_class,
        "min_class_size": min_class_size,
        "n_jobs": n_jobs,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    run = select_source(
        source,
        out,
        _selector(preset, {**chosen, "random_state": seed}),
        options=options,
        settings=settings,
        command=INVOCATION.get(),
        overwrite=overwrite,
    )
    _print(run, json)


def _selector(preset: str, chosen: dict[str, Any]) -> "SPR | KnockoffsSPR":
    from kspr.errors import InputError
    from kspr.selectors import SPR, KnockoffsSPR

    if preset != "spr":
        return KnockoffsSPR.paper(**chosen) if preset == "paper" else KnockoffsSPR(**chosen)
    for name in ("q", "level"):
        if name in chosen:
            raise InputError(f"--{name} goes with an error rate, which --preset spr does not have.")
    return SPR(**chosen)


def _print(run: "Run", json: bool) -> None:
    summary = run.selection.summary()
    if json:
        counts = {"rows": len(run.row), "unreadable": run.origin.unreadable}
        print_json({"out": run.folder, **counts, "summary": summary})
        return
    print(summary)
    if run.origin.unreadable:
        print(
            f"\n{run.origin.unreadable:,} items could not be read and were left out; they are "
            f"listed in {run.origin.embedding}/embedding.json."
        )
    print(f"\nThe run: {run.folder}\nLook at it: kspr report {run.folder}")
