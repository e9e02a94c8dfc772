"""`kspr select`: the clean rows of a file, at an error rate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from kspr.cli._output import INVOCATION, Json, print_json
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.sources.options import AS_FOUND, ReadOptions

if TYPE_CHECKING:
    from kspr.runs.run import Run
    from kspr.selectors import SPR, KnockoffsSPR

__all__ = ["chosen_selector", "select"]

_WITH_A_RATE = ("q", "level", "control", "confidence", "n_splits", "remove_floor")
"""Choices that say something only where there is an error rate."""


def select(
    source: Path,
    /,
    *,
    out: Path,
    q: float | None = None,
    control: Literal["transition", "exchangeable", "paper", "theorem"] | None = None,
    cut: Literal["per_class", "pooled"] | None = None,
    checked: Path | None = None,
    confidence: float | None = None,
    n_splits: int | None = None,
    remove_floor: Annotated[bool | None, Parameter(negative="")] = None,
    preset: Literal["default", "paper", "spr"] = "default",
    level: Literal["fixed", "smallest", "f1"] | None = None,
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
    control
        How the error rate is estimated, and what it assumes. `transition`: how a label goes wrong
        depends on the true class only. `exchangeable`: a wrong label is any wrong class with
        equal chance; keeps less. `paper`: how well a wrong label fits says nothing of whether it
        beats its knockoff, which real features break under heavy noise. `theorem`: the same, at
        the smaller level of the paper's Theorem 2. [default: transition]
    cut
        Hold q in every class (`per_class`), or over all of them (`pooled`), which keeps more.
        [default: per_class]
    checked
        CSV file with a column `row` or `id` and a column `true_label`, for rows drawn at random
        from all rows (`kspr verify RUN --from all` draws them). They move the cut to where q holds
        with --confidence, whatever the noise is.
    confidence
        How sure q shall be with --checked. [default: 0.95]
    n_splits
        Fit this many random splits and combine them: an answer that hardly depends on the seed.
    remove_floor
        With `exchangeable`: take off what wrong labels that meet their true class add to the
        estimate; assumes that the clearest rows of a class are of that class.
    preset
        `default`; `paper`, the paper's own choices; or `spr`, a fixed share without error rate.
    level
        `fixed` keeps nothing where q cannot be reached; `smallest` takes the smallest level from q
        on that can be (with `paper` and `theorem`); `f1` takes the level of the greatest estimated
        F1, whatever q is (with `transition`, and best with --cut pooled).
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
    from kspr.runs.select import select_source

    given = {
        "q": q,
        "control": control,
        "cut": cut,
        "confidence": confidence,
        "n_splits": n_splits,
        "remove_floor": remove_floor,
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
        chosen_selector(preset, {**chosen, "random_state": seed}, checked),
        options=options,
        settings=settings,
        command=INVOCATION.get(),
        overwrite=overwrite,
        checked=checked,
    )
    _print(run, json)


def chosen_selector(
    preset: str, chosen: dict[str, Any], checked: Path | None = None
) -> "SPR | KnockoffsSPR":
    """Return the selector of a preset, with what was chosen laid over it."""
    from kspr.errors import InputError
    from kspr.selectors import SPR, KnockoffsSPR

    if preset != "spr":
        return KnockoffsSPR.paper(**chosen) if preset == "paper" else KnockoffsSPR(**chosen)
    given = [name for name in _WITH_A_RATE if name in chosen]
    if checked is not None:
        given.append("checked")
    for name in given:
        flag = name.replace("_", "-")
        raise InputError(f"--{flag} goes with an error rate, which --preset spr does not have.")
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
