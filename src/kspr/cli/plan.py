"""`kspr plan`: which rows a person must label, so that few of the finished data are wrong."""

from pathlib import Path

from kspr.cli import _common as common


def plan(
    run: common.Made,
    /,
    *,
    max_wrong: float,
    confidence: float = 0.95,
    out: Path | None = None,
    source: common.Moved = None,
    json: common.Json = False,
) -> None:
    """Find the rows that a person must label, so that few of all labels are wrong in the end.

    RUN needs rows that were drawn and checked (`kspr verify` or `kspr review`). The more of them,
    the fewer are left to label: 100 to 400 are worth their time. `kspr review` then asks for the
    rows, the most doubtful first; or fill in the column `true_label` of a CSV file. Then all labels
    together, those of people and the others, have at most the share --max-wrong of wrong ones,
    whatever the noise is.

    Example: kspr plan run --max-wrong 0.05

    Parameters
    ----------
    max_wrong
        Largest share of wrong labels in the finished data set. Set it before you look.
    confidence
        Probability of that.
    out
        CSV file to make for the person. Without it: the name of the run and `-plan.csv`.
    """
    from kspr.runs.draws import write_plan

    named = run.with_name(f"{run.resolve().name}-plan.csv") if out is None else out
    found = write_plan(run, named, max_wrong=max_wrong, confidence=confidence, source=source)
    if json:
        common.print_json(found)
        return
    print(found)
    if len(found.rows):
        print(
            f"On a page, the most doubtful first: kspr review {run}\n"
            f"Or fill in the column true_label of {named}, then:\n"
            f"kspr verify {run} --answers {named}"
        )
    print(f"The finished data set: kspr export {run} --out FILE")
