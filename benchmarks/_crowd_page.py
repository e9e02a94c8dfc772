"""docs/several-labels.md, from the trials of benchmarks/crowd.py."""

from collections.abc import Callable
from typing import Any

import numpy as np

from _common import Case, markdown_table
from _prose import wrap_prose

__all__ = ["BINS", "CHECKED_LEVELS", "CHECKS", "DRAWS", "LEVELS", "render_page"]

LEVELS, CHECKED_LEVELS = (0.01, 0.02, 0.05, 0.1), (0.02, 0.05)
CHECKS, DRAWS, BINS = 100, 20, 4

HEAD = """# Several labels a row, measured

Three or two labels a row, and what [`AnnotatorSelector`](how-to/annotators.md) makes of them
without any checked row, beside other ways. Means over {seeds} seeds of the split. Made by
`make crowd` from `benchmarks/results/crowd.jsonl`.

- *CIFAR-10N*: what people answered for the 50,000 images (`random1` to `random3`), and the same
  with one of the three taken away. People err together on images that are hard.
- *as often wrong, independently*: the same share of each wrong label in each class, drawn for each
  annotator anew.
- *confused alike*: three annotators who call 20 % of the texts by the most similar class, hard
  texts more often than easy ones. Where two of them err on one text, they agree.

## How many labels are wrong?

One label a row can tell only where labels go wrong by class alone; several can elsewhere, nearly.

"""
RATES = """
## The error rate of what is kept

Wrong among the kept ones / share kept, for the q that is asked for; bold where more than q are
wrong. *One label* keeps the first label of each row (`KnockoffsSPR`), the others keep a consensus.
*Majority* is `KnockoffsSPR` on the majority vote. *Dawid and Skene* is the model alone, with the
features as its prior, and with matrices of their own for {bins} groups of rows that look equally
hard. They and cleanlab's CROWDLAB, which has no q, are cut where the mean of their doubt is q; all
that use features have the same held-out fit. *AUC* is how well the doubt ranks wrong labels before
right ones, whatever the cut; the row *one label* ranks other labels than the rest.

"""
CHECKED = """
With {checks} checked rows (means over {draws} draws each), the rate holds whatever the annotators
do:

"""
TOLD = """
## What holds, and what does not

- Where annotators err independently, the estimate is nearly true.
- Where they err together, Dawid and Skene's model is much too sure, with features or without, and
  matrices for hard rows do not mend it. The labels of a row predict each other worse than the model
  says; scaling its log-odds down until they fit (the *worth* above) removes a good part of the
  excess with three labels a row, and little with two. An error that all annotators share looks like
  the truth, whatever is done.
- CROWDLAB's scores rank rows; they are no chances, and nearly nothing is kept at a small q. Its
  consensus and its order are better than ours on the texts, and worse on CIFAR-10N with three
  people and on independent errors.
- The correction was chosen among about ten forms with the true labels of CIFAR-10N in view
  (temperatures of the prior, matrices for up to 16 grades of difficulty, models of easy and hard
  rows, fixed and held-out exponents). The texts were measured after that; since then only how the
  exponent is searched for, and the shrinkage of rare classes, have changed.
- So read the rate as an estimate that is better than that from one label, and check a hundred rows
  where it matters.
"""
NAMES = {
    "one label": "one label",
    "majority": "majority",
    "labels alone": "Dawid and Skene",
    "with features": "Dawid and Skene, features",
    "with features, by difficulty": "the same, by difficulty",
    "CROWDLAB": "CROWDLAB",
    "AnnotatorSelector": "AnnotatorSelector",
}


def render_page(trials: list[dict[str, Any]], cases: list[Case]) -> str:
    """Return the page of stored trials."""
    found = {
        case.name: own
        for case in cases
        if (own := [t for t in trials if (t["data"], t["noise"]) == (case.data, case.noise)])
    }
    noise = [
        [
            name,
            *(f"{_mean(own, read):.3f}" for read in (
                lambda t: t["wrong"],
                lambda t: t["estimates"]["one label"],
                lambda t: t["estimates"]["all"],
            )),
            f"{_mean(own, lambda t: t['worth']):.2f}",
        ]
        for name, own in found.items()
    ]  # fmt: skip
    rates = [
        [name, shown, *_cells([trial["methods"][method] for trial in own])]
        for name, own in found.items()
        for method, shown in NAMES.items()
    ]
    checked = [
        [name, *(_pair(own, lambda t, q=q: t["checked"][f"{q:g}"], q) for q in CHECKED_LEVELS)]
        for name, own in found.items()
    ]
    levels = [f"q = {q:g}" for q in LEVELS]
    parts = [
        HEAD.format(seeds=cases[0].seeds),
        markdown_table(["labels", "wrong", "estimated from one label", "from all", "worth"], noise),
        RATES.format(bins=BINS),
        markdown_table(["labels", "method", "wrong in all", "AUC", *levels], rates),
        CHECKED.format(checks=CHECKS, draws=DRAWS),
        markdown_table(["labels", *(f"q = {q:g}" for q in CHECKED_LEVELS)], checked),
        TOLD,
    ]
    return wrap_prose("\n".join(part.strip("\n") + "\n" for part in parts))


def _mean(trials: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any]) -> float:
    return float(np.mean([read(trial) for trial in trials]))


def _cells(results: list[dict[str, Any]]) -> list[str]:
    """Return the cells of one method: wrong in all, AUC, and what each level gives."""
    return [
        *(f"{_mean(results, lambda r, v=v: r[v]):.3f}" for v in ("wrong", "auc")),
        *(_pair(results, lambda r, q=q: r["at"][f"{q:g}"], q) for q in LEVELS),
    ]


def _pair(trials: list[dict[str, Any]], read: Callable[[dict[str, Any]], Any], q: float) -> str:
    fsr, kept = np.mean([read(trial) for trial in trials], axis=0)
    mark = "**" if round(fsr, 3) > q else ""
    return f"{mark}{fsr:.3f}{mark} / {kept:.3f}"
