"""`kspr gate`: let a build fail when labels are worse than they may be."""

import sys
from pathlib import Path
from typing import Literal

from kspr._text import text_table
from kspr.cli import _common as common


def gate(
    run: common.Made,
    /,
    *,
    max_wrong: float,
    min_kept: float,
    evidence: Literal["checked", "declared", "estimated"] = "checked",
    confidence: float = 0.95,
    against: Path | None = None,
    junit: Path | None = None,
    source: common.Moved = None,
    json: common.Json = False,
) -> None:
    """Fail, with exit code 1, if a run has too many wrong labels or keeps too few.

    The error rate must rest on rows that `kspr verify` drew and a person checked, all of them, and
    the data must be what the run was made from. Bad input ends with exit code 2.

    Example: kspr gate run --max-wrong 0.05 --min-kept 0.8 --junit gate.xml

    Parameters
    ----------
    max_wrong
        Largest share of wrong labels among the kept ones.
    min_kept
        Smallest share of the labels that must be kept.
    evidence
        What the rate may rest on at least. `checked`: rows that `kspr verify --checks` drew.
        `declared`: also rows that you say were drawn at random from all rows. `estimated`: also
        the estimate of a selection without checked rows, which needs an assumption on the noise.
    confidence
        Least confidence of a guarantee that has one, which is any but `mean`.
    against
        An earlier run. Fail too if more of the checked labels are wrong than there, over all
        classes or in one of them, by more than chance: 5 % of equally good batches fail.
    junit
        XML file to write, which CI services show as a list of tests.
    """
    from kspr.runs.gate import gate_run, write_junit

    result = gate_run(
        run,
        max_wrong=max_wrong,
        min_kept=min_kept,
        evidence=evidence,
        confidence=confidence,
        against=against,
        source=source,
    )
    if junit is not None:
        write_junit(junit, result)
    if json:
        # `vars` has the fields alone, without properties.
        common.print_json({"passed": result.passed, **vars(result)})
    else:
        rows = [
            ["ok" if one.met else "FAIL", one.name, one.sentence] for one in result.requirements
        ]
        print(text_table(["", "asked for", "result"], rows, left=3))
    if not result.passed:
        first = next(one for one in result.requirements if not one.met)
        common.print_notes([f"the run does not pass. {first.sentence}"])
        sys.exit(1)
