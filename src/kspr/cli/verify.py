"""`kspr verify`: let a person check a hundred rows, and move the threshold by the answers."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kspr.cli import _common as common

if TYPE_CHECKING:
    from kspr.runs.draws import Draw
    from kspr.runs.verify import Verification


def verify(
    run: common.Made,
    /,
    *,
    checks: int | None = None,
    out: Path | None = None,
    answers: Path | None = None,
    drawn: Literal["pool", "all", "chosen"] | None = None,
    drawing: common.Drawing = common.AS_DRAWN,
    source: common.Moved = None,
    json: common.Json = False,
) -> None:
    """Draw rows for a person to check, and move the threshold by the answers.

    Without checked rows an error rate rests on an assumption, which people's errors break. With
    about a hundred it holds whatever the errors are.

    First `--checks 100` draws rows at random from those that could be kept, and writes them to a
    CSV file. Fill in its column `true_label`, from the top: a dash for a row that belongs to no
    class, a question mark where you cannot tell. Then `--answers` moves the threshold of the run
    once all of them are answered; nothing is fitted again. An answer that is emptied is withdrawn.
    A larger `--checks` later adds rows to the same draw. Of a training run, its selection is
    verified.

    Example: kspr verify run --checks 100

    Example: kspr verify run --answers run-checks.csv

    Parameters
    ----------
    checks
        How many rows to draw in all. The file has those that the draw did not have before.
    out
        CSV file to make for the person. Without it: the name of the run and `-checks.csv`.
    answers
        The CSV file, filled in or partly so; or tasks that Label Studio exported as .json.
    drawn
        How rows are drawn, from the `pool` of those that could be kept or from `all` rows. With
        `--answers`, for rows that were not drawn here: from `all` rows at random, or `chosen` in
        any other way. Chosen rows are kept or not, and do not move the threshold.
    """
    from kspr.errors import InputError
    from kspr.runs.draws import draw_checks
    from kspr.runs.verify import verify_run
    from kspr.train.run_folder import is_training_run

    named = run.with_name(f"{run.resolve().name}-checks.csv") if out is None else out
    # A training run keeps its selection as a run of its own.
    run = run / "selection" if is_training_run(run) else run
    if answers is not None and checks is None:
        if drawing.whole_groups:
            raise InputError("--whole-groups goes with --checks: it says which rows are shown.")
        how = {name: getattr(drawing, name) for name in ("q", "guarantee", "confidence")}
        _print_result(verify_run(run, answers, drawn, **how), run, json)
        return
    # Two steps of one command, days apart: neither both nor none of them.
    if checks is None or answers is not None:
        raise InputError("kspr verify needs --checks N, to draw rows, or --answers FILE, to read.")
    if drawn == "chosen":
        raise InputError("--drawn chosen goes with --answers; rows are drawn from pool or all.")
    draw = draw_checks(run, named, n=checks, source=source, drawn=drawn, **vars(drawing))
    _print_draw(draw, run, json)


def _print_draw(draw: "Draw", run: Path, json: bool) -> None:
    if json:
        common.print_json(draw)
        return
    more = f"{draw.n_drawn:,} more rows" if draw.n_before else f"{draw.n_drawn:,} rows"
    beside = f", with {draw.n_beside:,} more of their groups" if draw.n_beside else ""
    print(f"{more} drawn{beside}, for q = {draw.q:g}: {draw.path}")
    if draw.n_open:
        print(
            f"{draw.n_open:,} rows that were drawn before have no answer yet: `kspr review {run}` "
            "shows them."
        )
    print(
        "Fill in the column true_label, from the top: - where no class fits, ? where you cannot "
        "tell."
    )
    _print_forecast(
        draw.forecast,
        "Right labels that can be expected to be kept, if the fit is right about the noise:",
    )
    if draw.n_needed is not None:
        print(
            f"About {draw.n_needed:,} checks reach q = {draw.q:g}: they can be expected to keep "
            "nine tenths of what the best threshold would."
        )
    print(f"Then: kspr verify {run} --answers {draw.path}")


def _print_result(result: "Verification", run: Path, json: bool) -> None:
    if json:
        # `vars` has the fields alone, without properties.
        common.print_json({**vars(result), "verdict": result.verdict})
        return
    empty = result.n_passed_over
    print(
        f"{result.n_counted - empty:,} of {result.n_drawn:,} drawn rows checked, "
        f"{result.n_wrong - empty:,} wrong."
    )
    if empty:
        print(
            f"Empty rows above the last answer: {empty:,}. They count as wrong until they are "
            f"filled in: `kspr review {run}` shows them too."
        )
    elif result.n_checked_before:
        low, high = result.interval_before
        print(
            f"Without checks {result.n_kept_before:,} of {result.n_rows:,} rows were kept at "
            f"q = {result.q:g}; of the {result.n_checked_before:,} checked ones among them "
            f"{result.n_wrong_before:,} are wrong (95 %: {low:.1%} to {high:.1%})."
        )
    if result.n_other:
        print(f"{result.n_other:,} other answers are kept; they do not move the threshold.")
    print(*result.notes, sep="\n")
    if result.estimates is not None:
        promise = f"at most {result.q:.1%} of the kept labels are wrong"
        held = f"With {result.confidence:.0%} confidence, {promise}, whatever the noise is."
        if result.guarantee == "mean":
            held = (
                f"Over such draws of {result.n_counted:,} rows, {promise} on average, whatever the "
                "noise is."
            )
        print(f"Now {result.n_kept:,} are kept. {held}")
        print(result.estimates)
    if result.n_counted > empty:
        _print_forecast(
            tuple(one for one in result.forecast if one[0] > result.n_counted),
            "Of the right labels, more checks of this draw can be expected to keep",
        )
    print(f"\nNext: kspr report {run}, or kspr export {run} --out FILE")


def _print_forecast(forecast: tuple[tuple[int, float], ...], words: str) -> None:
    if forecast:
        parts = ", ".join(f"{share:.0%} with {n:,} checks" for n, share in forecast)
        print(f"{words} {parts}.")
