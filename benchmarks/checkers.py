"""The promise of a hundred checks where some answers are wrong: its FSR, and what it keeps.

The checks are those of the page: drawn from the default's pool, for the mean. An answer is wrong
with a given chance, either any answer ("slips"), or only by letting a wrong label pass as right.
"Asked again" is what the page does: a refused label is asked again, and where the second answer
differs, a third one settles it; here as careless as the others.
Run: ``python benchmarks/checkers.py``; it writes benchmarks/results/checkers.jsonl and the table of
docs/review.md.
"""

from collections.abc import Callable

import numpy as np

from _common import (
    DOCS,
    RESULTS,
    add_trial,
    arguments,
    either,
    fill_page,
    markdown_table,
    named_trials,
    parsed,
)
from _data import check_shared
from draws import Ranked, cases, pool_at
from kspr import KnockoffsSPR

COMMAND = "python benchmarks/checkers.py"
PAGE = DOCS / "review.md"
TRIALS = RESULTS / "checkers.jsonl"
MEASURES = ("src/kspr/core", "src/kspr/selectors")
Q, CHECKS, PLAYED = 0.05, 100, either(200, 3)
CASES = ("random1", "aggre", "Sym. 40%")

Checker = Callable[[Ranked, np.random.Generator], np.ndarray]
"""Rows and random numbers; returns which labels a person would call wrong."""


def slips(rate: float) -> Checker:
    """Give a wrong answer to any row, with the same chance."""
    return lambda rows, rng: rows.wrong ^ (rng.random(len(rows.wrong)) < rate)


def slips_asked_again(rate: float) -> Checker:
    """Give a wrong answer with the same chance, and be asked again about every refused label."""

    def said(rows: Ranked, rng: np.random.Generator) -> np.ndarray:
        first, second, third = (slips(rate)(rows, rng) for _ in range(3))
        return first & (second | third)

    return said


def lets_pass(rate: float) -> Checker:
    """Call wrong labels right, so often that a share `rate` of all answers is wrong."""

    def said(rows: Ranked, rng: np.random.Generator) -> np.ndarray:
        share = rows.wrong[rows.level <= 2 * Q].mean()
        return rows.wrong & (rng.random(len(rows.wrong)) >= rate / max(share, rate))

    return said


CHECKERS: dict[str, Checker] = {
    "none": slips(0.0),
    "5 %, any answer": slips(0.05),
    "10 %, any answer": slips(0.1),
    "5 %, any answer; asked again": slips_asked_again(0.05),
    "10 %, any answer; asked again": slips_asked_again(0.1),
    "5 %, all let a wrong label pass": lets_pass(0.05),
    "10 %, all let a wrong label pass": lets_pass(0.1),
}


def measure() -> None:
    """Store mean FSR and recall for every way to err."""
    draw = pool_at(2.0)
    for name, sample in cases():
        if name not in CASES:
            continue
        selection = KnockoffsSPR(q=Q, random_state=0, progress=False)
        selection = selection.fit(sample.X, sample.y).selection_
        rows = Ranked(selection.doubt, selection.q_value, sample.y != sample.y_true)
        found = {}
        for words, checker in CHECKERS.items():
            kept = []
            for played in range(PLAYED):
                rng = np.random.default_rng([played, CHECKS])
                said = rows._replace(wrong=checker(rows, np.random.default_rng([played, 1])))
                kept.append(draw(said, Q, CHECKS, rng))
            fsr = [float(rows.wrong[keep].mean()) if keep.any() else 0.0 for keep in kept]
            recall = [float(keep[~rows.wrong].mean()) for keep in kept]
            found[words] = [float(np.mean(fsr)), float(np.mean(recall))]
        add_trial(TRIALS, {"name": name, "checkers": found}, ["name"])
        print(name, "done", flush=True)


def filled(text: str) -> str:
    """Return the page's text with the table in its place: FSR / recall."""
    found = {name: trial["checkers"] for name, trial in named_trials(TRIALS).items()}
    rows = [[words, *(_cell(case[words]) for case in found.values())] for words in CHECKERS]
    shown = markdown_table(["wrong answers", *found], rows)
    return fill_page(text, COMMAND, shown, named_trials(TRIALS).values())


def _cell(measured: list[float]) -> str:
    fsr, recall = measured
    return f"{fsr:.3f} / {recall:.3f}"


def main() -> None:
    if not parsed(arguments(__doc__), TRIALS).page:
        check_shared()
        measure()
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
