"""`kspr verify`: let a person check a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from kspr.cli._output import Json, print_json

if TYPE_CHECKING:
    from kspr.runs.verify import Draw, Verification

__all__ = ["verify"]


def verify(
    run: Path,
    /,
    *,
    sample: int = 200,
    # `from` is a keyword, so the parameter has another name than its flag.
    pool: Annotated[Literal["kept", "all"], Parameter(name="--from")] = "kept",
    out: Path | None = None,
    answers: Path | None = None,
    seed: int = 0,
    source: Path | None = None,
    json: Json = False,
) -> None:
    """Draw rows for a person to check, and read the answers back.

    First `--out` writes rows, drawn at random, to a CSV file. Fill in the column `true_label`
    (a dash for a row that belongs to no class); rows left empty are simply missing, and as they
    come in random order you may stop at any time. Then `--answers` gives the share of wrong
    labels among the kept ones with an exact interval, and notes it in the run.

    Example: kspr verify run --sample 200 --out checks.csv

    Example: kspr verify run --answers checks.csv

    Parameters
    ----------
    run
        A directory that `kspr select` made.
    sample
        How many rows to draw.
    pool
        `kept`: every answer is about a kept label, so few answers say much about the error rate.
        `all`: answers are about any row; they also give the noise, and only these may move the cut
        with `kspr select --checked`.
    out
        CSV file to make for the person.
    answers
        The CSV file, filled in or partly so.
    seed
        Seed of the draw.
    source
        Where the data of the run is now, if it has moved.
    """
    from kspr.errors import InputError
    from kspr.runs.verify import draw_checks, verify_run

    # Two steps of one command, days apart: neither both nor none of them.
    if (out is None) == (answers is None):
        raise InputError("kspr verify needs --out, to draw rows, or --answers, to read them.")
    if out is not None:
        made = draw_checks(run, out, sample=sample, pool=pool, seed=seed, source=source)
        _print_draw(made, run, json)
    elif answers is not None:
        _print_found(verify_run(run, answers), run, answers, json)


def _print_draw(draw: "Draw", run: Path, json: bool) -> None:
    if json:
        print_json(draw)
        return
    what = "kept rows" if draw.drawn_from == "kept" else "rows"
    print(f"{draw.n_drawn:,} of {draw.n_pool:,} {what} drawn: {draw.path}")
    print(
        "Fill in the column true_label, from the top; a dash where no class fits.\n"
        f"Then: kspr verify {run} --answers {draw.path}"
    )


def _print_found(found: "Verification", run: Path, answers: Path, json: bool) -> None:
    if json:
        # `vars` has the fields alone, without properties.
        print_json({**vars(found), "verdict": found.verdict, "n_needed": found.n_needed})
        return
    if found.n_missing:
        print(f"{found.n_missing:,} of the drawn rows have no answer yet.")
    low, high = found.interval
    print(
        f"Of {found.n_checked:,} kept labels that were checked, {found.n_wrong:,} are wrong: "
        f"{found.fsr:.1%} (95 %: {low:.1%} to {high:.1%})."
    )
    if found.noise_interval is not None and found.noise_rate is not None:
        low, high = found.noise_interval
        print(
            f"Of all {found.n_answered:,} labels that were checked, {found.noise_rate:.1%} are "
            f"wrong (95 %: {low:.1%} to {high:.1%})."
        )
    if found.q is not None:
        print(f"Asked for at most {found.q:.1%}: {_verdict(found)}")
    print(f"\n{_next(found, run, answers)}")


def _verdict(found: "Verification") -> str:
    if found.verdict == "held":
        return "held."
    if found.verdict == "not held":
        return "not held."
    if found.n_needed is None:
        return "cannot tell; the share is too near to it."
    return f"cannot tell; about {found.n_needed:,} checks of kept labels would."


def _next(found: "Verification", run: Path, answers: Path) -> str:
    if found.drawn_from == "kept":
        return (
            f"In the report: kspr report {run}\n"
            f"To move the cut by answers, draw from all rows: kspr verify {run} --from all --out "
            "FILE"
        )
    return (
        f"In the report: kspr report {run}\n"
        f"To cut where these answers hold the rate: kspr select SOURCE --checked {answers} --out "
        "DIR"
    )
