"""The text that goes with an exported data set: what was done, and what its error rate rests on."""

from pathlib import Path

from kspr._packages import version
from kspr._text import visible
from kspr.runs.run import Run

__all__ = ["CARD", "data_card"]

CARD = "README.md"
"""Where the pages of Hugging Face look for it."""
_PAGE = """# {name}, labels checked by kspr

The labels of `{name}` were judged with knockoffs-spr {version}.

    {headline}

{rows:,} rows are in this data set. Of the suspects, {relabelled:,} have the suggested label now,
and {dropped:,} were left out; `changes.csv` lists them. The other labels are as they were.

## What the error rate rests on

{basis}

## Columns that were added

| column | what it holds |
|---|---|
| `kspr_row` | row number in the source, from 0 |
| `kspr_given_label` | the label that the source gives |
| `kspr_clean` | whether that label was kept |
| `kspr_suggested_label` | the class that fits best, or what a person has found |
| `kspr_selection_time` | large values are suspicious |
| `kspr_q_value` | the smallest error rate at which the row is kept, where there is one |
| `kspr_doubt` | estimated probability that the given label is wrong, where it was estimated |
"""


def data_card(run: Run, rows: int, relabelled: int, dropped: int) -> str:
    """Return the card of the exported rows of a run, in Markdown."""
    summary = run.selection.summary()
    # The name alone: a path would tell whoever reads the card about the machine.
    name = visible(Path(run.origin.source).name).replace("`", "'")
    basis = summary.basis or "No error rate was estimated."
    return _PAGE.format(
        name=name,
        version=version("knockoffs-spr"),
        headline=summary.headline().replace("\n", "\n    "),
        rows=rows,
        relabelled=relabelled,
        dropped=dropped,
        basis="\n\n".join(basis.split("\n")),
    )
