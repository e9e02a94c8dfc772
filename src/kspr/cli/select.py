"""`kspr select`: the clean rows of a file, at an error rate."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from kspr._text import visible
from kspr.cli import _common as common
from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.runs.run import Run
    from kspr.selectors import Annotators


def select(
    source: Path,
    /,
    *,
    out: Path,
    chosen: common.Chosen = common.AS_PRESET,
    kind: Literal["features", "probabilities"] = "features",
    model: str | None = None,
    doubt: common.Names = None,
    doubtful: Literal["high", "low"] = "high",
    checked: Path | None = None,
    scheduler: str | None = None,
    judged_by: Annotated[Path | None, Parameter(name="--with")] = None,
    overwrite: common.Switch = False,
    options: common.Reading = common.AS_FOUND,
    settings: common.Embedding = common.AS_SHIPPED,
    json: common.Json = False,
) -> None:
    """Find the rows whose labels can be trusted, and rank the others.

    SOURCE holds features (npy, npz, csv, tsv, parquet, arrow) or images, texts or sounds, which
    are embedded first. Or bring the class probabilities of your own model with --probabilities. The
    run goes to the directory --out; look at it with `kspr report`. Most data need no more than
    --out, --q, --label, --features, --id, --labels, --groups, --annotators, --probabilities,
    --checked.

    Example: kspr select embeddings.parquet --label species --q 0.05 --out run

    Example: kspr select 'parts/*.parquet' --label species --out run

    Example: kspr select scans.parquet --label finding --groups patient --out run

    Example: kspr select answers.parquet --annotators 'rater_*' --q 0.05 --out run

    Example: kspr select photos.csv --label tags --labels-separator '|' --out run

    Example: kspr select predictions.parquet --label species --probabilities 'p_*' --out run

    Example: kspr select customers.csv --label segment --model hist-gradient-boosting --out run

    Example: kspr select houses.csv --label price --target numbers --out run

    Example: kspr select boxes.parquet --doubt quality --doubtful low --out run

    Example: kspr select parts --label species --scheduler local --out run

    Example: kspr select new.parquet --with run --out new-run

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
    model
        Judge by the class probabilities of this classifier of scikit-learn, such as
        `hist-gradient-boosting` or `random-forest`, which is fitted to four fifths of the rows at a
        time and judges the others. Without it, a linear fit judges. With --target numbers, a
        regressor, such as `random-forest` or `ridge`; without it, boosted trees.
    doubt
        Column of a score that says how doubtful each row is, from any tool or model; for any kind
        of label. Or several, by name or by a pattern such as `doubt_*`: their mean place in the
        order counts, or with --checked, first answers about some rows, a fit to these answers, and
        to --features.
        Nothing is kept before rows are checked. With --label, labels are classes; without it, a
        checked row is `right`, or else wrong.
    doubtful
        With --doubt: whether `high` or `low` scores are doubtful.
    checked
        CSV file with a column `row` or `id` and a column `true_label`, for rows that a person has
        checked. They are kept or not as the answers say. With a column `drawn_from` that says
        `all`, for rows drawn at random from all rows, they also move the threshold. `kspr verify`
        draws rows for a run, and moves its threshold without a new fit.
    scheduler
        Let the workers of a Dask cluster read and judge the parquet or Arrow files of SOURCE, which
        all of them must reach: the address of its scheduler, such as tcp://10.0.0.1:8786, or
        `local` for processes that are started on this machine.
    judged_by
        An earlier run: judge the rows of SOURCE, a new batch, by its fit and its noise. The source
        is read as that one was, unless options for reading are given; the options of the selection
        are those of that run. A warning says where the new rows look otherwise.
    overwrite
        Replace an earlier run in --out.
    """
    # In the function, as in every command: `kspr --help` imports all of them and must be quick.
    from kspr import selectors
    from kspr.runs import select as selecting
    from kspr.runs.run import load_run

    by_model = kind == "probabilities" or options.probabilities is not None
    crowd, changed = options.annotators is not None, chosen != common.AS_PRESET
    others = by_model or crowd or bool(scheduler)
    several = options.labels_separator is not None
    numbers = options.target == "numbers"
    # Before anything is read: embedding may take long.
    for wrong, sentence in (
        (
            judged_by and (changed or model or doubt or checked or scheduler or kind != "features"),
            f"--with takes all options of the selection from the run {judged_by}. Leave the others "
            "out; another q is asked for afterwards, by `kspr export --q`.",
        ),
        (
            doubt and (others or model),
            "--doubt takes the place of features, models and annotators: give it alone, or with "
            "--label.",
        ),
        (
            options.groups is not None and chosen.preset != "default",
            "--groups keeps rows in one half of the data; there are no halves with the preset "
            f"{chosen.preset!r}. Leave it out.",
        ),
        (
            scheduler and chosen.preset != "default",
            f"--scheduler goes with the preset 'default', got {chosen.preset!r}. Leave out either.",
        ),
        (
            scheduler and (by_model or crowd),
            "--scheduler goes with features and one label a row. Leave it out.",
        ),
        (
            model and others,
            "--model goes with features and one label a row, on one machine. Leave out "
            "--probabilities, --annotators and --scheduler.",
        ),
        (
            several and (others or model or doubt),
            "--labels-separator goes with features: each label is judged by a fit of its own. "
            "Leave out --probabilities, --annotators, --model, --doubt and --scheduler.",
        ),
        (
            numbers and (others or doubt or several),
            "--target numbers goes with features, by which a model judges them. Leave out "
            "--probabilities, --annotators, --doubt, --labels-separator and --scheduler.",
        ),
        (
            checked and crowd,
            "--checked goes with one label a row. With --annotators, check rows of the run with "
            "`kspr verify`.",
        ),
    ):
        if wrong:
            raise InputError(sentence)
    if checked is not None:
        common.refuse_spr(chosen, "--checked")
    how: dict[str, Any] = {"command": common.INVOCATION.get(), "overwrite": overwrite}
    how["options"] = options
    people = None
    if judged_by is not None:
        run = selecting.select_new(source, out, load_run(judged_by), settings=settings, **how)
    elif doubt is not None:
        # To later commands they are numbers of a model, which are never shown beside an answer.
        how |= {"options": replace(options, probabilities=",".join(doubt)), "checked": checked}
        by_doubt = selectors.of_kind(selectors.DoubtSelector, chosen, doubtful=doubtful)
        run = selecting.select_by_doubt(source, out, by_doubt, **how)
    elif crowd:
        by_all = selectors.of_kind(selectors.AnnotatorSelector, chosen)
        run, people = selecting.select_by_annotators(source, out, by_all, settings=settings, **how)
    else:
        how |= {"settings": settings, "checked": checked, "scheduler": scheduler}
        how |= {"model": model, "seed": chosen.seed}
        usual = selectors.from_options(chosen)
        if numbers:
            usual = selectors.of_kind(selectors.DoubtSelector, chosen)
        elif model is not None or by_model:
            usual = selectors.of_kind(selectors.ProbabilitySelector, chosen)
        run = selecting.select_source(source, out, usual, **how)
    _print(run, json, people)


def _print(run: "Run", json: bool, people: "Annotators | None" = None) -> None:
    summary = run.selection.summary()
    common.print_notes(run.origin.notes)
    if json:
        counts = {"rows": len(run.row), "unreadable": run.origin.unreadable}
        more = {} if people is None else {"annotators": people}
        common.print_json({"out": run.folder, **counts, "summary": summary, **more})
        return
    print(common.with_dashes(str(summary), select))
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
        f"Check 100 rows: kspr review {folder}, or kspr verify {folder} --checks 100\n"
        f"Look at it: kspr report {folder} --open"
    )
