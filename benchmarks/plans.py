"""Labels by a language model: what a plan asks people to label, beside labelling at random.

On two sets of texts, rows are drawn from all rows and checked, many times; then people label what
`Selection.plan` asks for. "At random" is told how many labels are wrong: the fewest rows, chosen at
random, after which the set is as good with the same confidence.
Run: ``python benchmarks/plans.py``; it writes benchmarks/results/plans.jsonl and the tables of
docs/how-to/any-label.md and docs/theory.md.
"""

from pathlib import Path

import numpy as np
import pyarrow.csv as pc
from scipy.stats import hypergeom

from _common import SHARED, WORK, Bench, Store, either, markdown_table
from kspr import DoubtSelector, KnockoffsSPR, Selection
from kspr.features.embedding import embed
from kspr.selectors.cut_groups import explained
from kspr.sources.opening import open_source
from kspr.sources.options import EmbedSettings, ReadOptions

COMMAND = "python benchmarks/plans.py"
TRIALS, SEEN = Store("plans"), Store("unseen")
SETS = {"stance": "text", "misinfo": "headline"}
"""The column of the texts."""
CONFIDENCE, MAX_WRONG, CHECKS, DRAWS = 0.95, (0.05, 0.1), (200, 400), either(400, 3)
Q = 0.1


def measured(name: str, column: str) -> None:
    """Store what plans ask for by each doubt, and whether the finished sets are good."""
    source = SHARED / "llm" / f"{name}.csv"
    table = pc.read_csv(source).to_pydict()
    given, truth = np.array(table["Yhat (GPT4o)"]), np.array(table["Y"])
    sure = 1 - np.array(table["confidence"])
    fitted = KnockoffsSPR(q=Q, random_state=0, progress=False).fit(features(source, column), given)
    by_text, wrong = fitted.selection_, given != truth
    kept, doubt = by_text.clean_mask, by_text.doubt
    seen = {"explained": explained(doubt), "fsr": float(wrong[kept].mean()) if kept.any() else 0.0}
    SEEN.add({"name": name, "n": len(given), "noise": float(wrong.mean()), **seen}, ["name"])
    doubts = {"its confidence": sure, "the texts": doubt, "both": np.column_stack([sure, doubt])}
    for words, scores in doubts.items():
        selection = DoubtSelector().fit(scores, given).selection_
        for max_wrong in MAX_WRONG:
            for checks in CHECKS:
                found = finished(selection, truth, max_wrong, checks)
                trial = {"name": name, "doubt": words, "max_wrong": max_wrong, "checks": checks}
                TRIALS.add({**trial, **found}, list(trial))
        print(name, words, "done", flush=True)


def features(source: Path, column: str) -> np.ndarray:
    """Return the embedded texts of a set; they are kept between runs."""
    items = open_source(source, ReadOptions(text=column)).items
    assert items is not None
    return np.asarray(embed(items, EmbedSettings(), WORK / "plans" / source.stem).features)


def finished(
    selection: Selection, truth: np.ndarray, max_wrong: float, checks: int
) -> dict[str, float]:
    """Return the share of rows that people label, and how often too many labels are wrong."""
    wrong, n = selection.label != truth, len(truth)
    by_hand, left = [], []
    for seed in range(DRAWS):
        rows = np.random.default_rng([seed, checks]).permutation(n)[:checks]
        plan = selection.with_checks(rows, truth[rows], drawn="all").plan(max_wrong, CONFIDENCE)
        labelled = np.append(rows, plan.rows)
        by_hand.append(len(labelled) / n)
        left.append(np.delete(wrong, labelled).sum() / n)
    return {
        "by_hand": float(np.mean(by_hand)),
        "failed": float(np.mean(np.array(left) > max_wrong)),
        "left": float(np.mean(left)),
        "at_random": at_random(n, int(wrong.sum()), max_wrong),
    }


def at_random(n: int, n_wrong: int, max_wrong: float) -> float:
    """Return the share of rows to label at random, told how many are wrong."""
    found = hypergeom.cdf(n_wrong - int(max_wrong * n) - 1, n, n_wrong, np.arange(n + 1))
    return float(np.argmax(found <= 1 - CONFIDENCE) / n)


def plans() -> str:
    """Return the table of plans."""
    order, rows = ("name", "max_wrong", "checks", "doubt"), []
    for t in sorted(TRIALS.trials(), key=lambda trial: [trial[key] for key in order]):
        first = [t["name"], f"{t['max_wrong']:.0%}", t["doubt"], f"{t['checks']}"]
        shares = [f"{t[key]:.1%}" for key in ("by_hand", "at_random", "left", "failed")]
        rows.append([*first, *shares])
    head = ["texts", "at most wrong", "doubt by", "checks", "labelled by people", "at random"]
    return markdown_table([*head, "wrong in the end", "sets with more"], rows)


def unseen() -> str:
    """Return the table of what texts show about wrong labels."""
    rows = [
        [t["name"], f"{t['n']:,}", f"{t['noise']:.1%}", f"{t['explained']:.2f}", f"{t['fsr']:.3f}"]
        for t in SEEN.trials()
    ]
    return markdown_table(["texts", "rows", "wrong", "share explained", f"FSR at q = {Q:g}"], rows)


def measure() -> None:
    for name, column in SETS.items():
        measured(name, column)


PLANS = Bench(COMMAND, "how-to/any-label.md", (TRIALS,), plans, lambda _: measure())
UNSEEN = Bench(COMMAND, "theory.md", (SEEN,), unseen)

if __name__ == "__main__":
    for bench in (PLANS, UNSEEN):
        bench.run(__doc__)
