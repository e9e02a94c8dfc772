"""`kspr select`: the clean rows of a file, at an error rate."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from kspr._text import visible
from kspr.cli._output import INVOCATION, Json, print_json, print_notes, with_dashes
from kspr.errors import InputError
from kspr.features.options import AS_SHIPPED, EmbedSettings
from kspr.selectors.options import AS_PRESET, SelectorOptions
from kspr.sources.options import AS_FOUND, ReadOptions

if TYPE_CHECKING:
    from kspr.runs.run import Run
    from kspr.selectors import Annotators

__all__ = ["Chosen", "refuse_spr", "select"]

# "*": the fields become flags of their own (--q, not --chosen.q). "": no --no- form of switches.
Chosen = Annotated[SelectorOptions, Parameter(name="*", negative_bool="")]
"""The options of a selector, as flags of a command."""


def select(
    source: Path,
    /,
    *,
    out: Path,
    chosen: Chosen = AS_PRESET,
    kind: Literal["features", "probabilities"] = "features",
    checked: Path | None = None,
    scheduler: str | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    options: Annotated[ReadOptions, Parameter(name="*")] = AS_FOUND,
    settings: Annotated[EmbedSettings, Parameter(name="*")] = AS_SHIPPED,
    json: Json = False,
) -> None:
    """Find the rows whose labels can be trusted, and rank the others.

    SOURCE holds features (npy, npz, csv, tsv, parquet, arrow) or images or texts, which are
    embedded first. Or bring the class probabilities of your own model with --probabilities. The run
    goes to the directory --out; look at it with `kspr report`.

    Example: kspr select embeddings.parquet --label species --q 0.05 --out run

    Example: kspr select 'parts/*.parquet' --label species --out run

    Example: kspr select scans.parquet --label finding --groups patient --out run

    Example: kspr select answers.parquet --annotators 'rater_*' --q 0.05 --out run

    Example: kspr select predictions.parquet --label species --probabilities 'p_*' --out run

    Example: kspr select parts --label species --scheduler local --out run

    Parameters
    ----------
    source
        A file or folder; `kspr datasets` lists what can be read. Of parquet or Arrow files also a
        pattern in quotes, such as 'parts/*.parquet', or an address, such as s3://bucket/parts.
    out
        Directory to make for the run. It appears when it is whole; after a crash, the same command
        starts again.
    kind
        What the numbers of an npy file are: features, or class `probabilities` of your own model,
        one column per class in the sorted order of the classes.
    checked
        CSV file with a column `row` or `id` and a column `true_label`, for rows that a person has
        checked. They are kept or not as the answers say. With a column `drawn_from` that says
        `all`, for rows drawn at random from all rows, they also move the cut. `kspr verify` draws
        rows for a run, and moves its cut without a new fit.
    scheduler
        Let the workers of a Dask cluster read and judge the parquet or Arrow files of SOURCE, which
        all of them must reach: the address of its scheduler, such as tcp://10.0.0.1:8786, or
        `local` for processes that are started on this machine.
    overwrite
        Replace an earlier run in --out.
    """
    # In the function, as in every command: `kspr --help` imports all of them and must be quick.
    from kspr.runs.select import select_by_annotators, select_by_probabilities, select_source
    from kspr.selectors import by_annotators, by_probabilities, from_options

    by_model = kind == "probabilities" or options.probabilities is not None
    # Before anything is read: embedding may take long.
    if options.groups is not None and (by_model or chosen.preset == "spr"):
        what = "probabilities of your own model" if by_model else "the preset 'spr'"
        raise InputError(
            f"--groups keeps rows in one half of the data; there are no halves with {what}. "
            "Leave it out."
        )
    if scheduler is not None and (by_model or options.annotators is not None):
        raise InputError("--scheduler goes with features and one label a row. Leave it out.")
    if by_model:
        selected = select_by_probabilities(
            source,
            out,
            by_probabilities(chosen),
            options=options,
            command=INVOCATION.get(),
            overwrite=overwrite,
            checked=checked,
        )
        _print(selected, json)
        return
    if options.annotators is not None:
        if checked is not None:
            raise InputError(
                "--checked goes with one label a row. With --annotators, check rows of the run "
                "with `kspr verify`."
            )
        crowd, people = select_by_annotators(
            source,
            out,
            by_annotators(chosen),
            options=options,
            settings=settings,
            command=INVOCATION.get(),
            overwrite=overwrite,
        )
        _print(crowd, json, people)
        return
    for name, value in (("--checked", checked), ("--scheduler", scheduler)):
        if value is not None:
            refuse_spr(chosen, name)
    run = select_source(
        source,
        out,
        from_options(chosen),
        options=options,
        settings=settings,
        command=INVOCATION.get(),
        overwrite=overwrite,
        checked=checked,
        scheduler=scheduler,
    )
    _print(run, json)


def refuse_spr(chosen: SelectorOptions, what: str) -> None:
    """Raise `InputError` for the preset spr: `what` needs an error rate, which it does not have."""
    if chosen.preset == "spr":
        raise InputError(
            f"{what} goes with an error rate, which the preset 'spr' does not have. Choose "
            "another --preset."
        )


def _print(run: "Run", json: bool, people: "Annotators | None" = None) -> None:
    summary = run.selection.summary()
    print_notes(run.origin.notes)
    if json:
        counts = {"rows": len(run.row), "unreadable": run.origin.unreadable}
        more = {} if people is None else {"annotators": people}
        print_json({"out": run.folder, **counts, "summary": summary, **more})
        return
    print(with_dashes(str(summary), select))
    if people is not None:
        print(f"\n{people}\nAbout {people.noise_rate:.1%} of the labels that they gave are wrong.")
    if run.origin.unreadable:
        print(
            f"\n{run.origin.unreadable:,} items could not be read and were left out; they are "
            f"listed in {visible(run.origin.embedding)}/embedding.json."
        )
    folder = visible(shlex.quote(str(run.folder)))
    print(
        f"\nThe run: {visible(run.folder)}\n"
        f"Look at it: kspr report {folder} --open\n"
        f"Check a hundred rows: kspr review {folder}, or kspr verify {folder} --checks 100"
    )
