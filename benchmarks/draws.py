"""What makes a hundred checks go further? Ways to draw them, on the default's own ranking.

Every way is told which rows are wrong and played through 200 times. Only the first and the second
are proved (docs/theory.md); the third is there to see whether a proof would be worth having.
Run: ``python benchmarks/draws.py``; it writes benchmarks/results/draws.jsonl and the table of
docs/theory.md.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
from _data import Sample, check_shared, cifar10, confused_texts, human_labels
from kspr import KnockoffsSPR
from kspr.core.conformal import conformal_steps
from kspr.noise import symmetric

COMMAND = "python benchmarks/draws.py"
PAGE = DOCS / "theory.md"
TRIALS = RESULTS / "draws.jsonl"
MEASURES = ("src/kspr/core", "src/kspr/selectors")
CHECKS, PLAYED = (50, 100, 200), either(200, 3)
LEAST_POOL = 1_000


class Ranked(NamedTuple):
    """Rows as the default ranks them, and the truth."""

    doubt: np.ndarray
    level: np.ndarray
    wrong: np.ndarray


Way = Callable[[Ranked, float, int, np.random.Generator], np.ndarray]
"""Rows, q, number of checks, and random numbers; returns what is kept."""


def cases() -> Iterator[tuple[str, Sample]]:
    """Return the cases of the issue that asked for checks."""
    X, y, _, _ = cifar10()
    yield "random1", Sample(X, *human_labels("random1"))
    yield "aggre", Sample(X, *human_labels("aggre"))
    for rate in (0.4, 0.8):
        yield f"Sym. {rate:.0%}", Sample(X[:, :128].copy(), symmetric(y, rate, 0), y)
    for name in ("banking77", "clinc150"):
        yield name, Sample(*confused_texts(name, 0.2, 0))


def pool_at(looser: float | None) -> Way:
    """Draw from the rows that the default keeps at `looser` times q; None for all rows."""

    def run(rows: Ranked, q: float, n: int, rng: np.random.Generator) -> np.ndarray:
        return _cut(rows, _pool(rows, q, looser), q, n, rng)

    return run


def two_stages(share: float) -> Way:
    """Let a share of the checks place the pool, and the others move the cut.

    The second draw is a problem of its own, whose pool is fixed before it: the proof applies.
    """

    def run(rows: Ranked, q: float, n: int, rng: np.random.Generator) -> np.ndarray:
        wide, n_first = _pool(rows, q, 3.0), round(share * n)
        first = wide[rng.permutation(len(wide))[:n_first]]
        bad = np.sort(rows.doubt[first[rows.wrong[first]]])
        found = 0.5 + np.searchsorted(bad, rows.doubt[wide], side="right")
        estimate = len(wide) * found / ((n_first + 1) * np.arange(1, len(wide) + 1))
        loose = np.flatnonzero(estimate <= 2 * q)
        size = loose[-1] + 1 if loose.size else len(wide) // 2
        keep = _cut(rows, np.setdiff1d(wide[:size], first), q, n - n_first, rng)
        keep[first] = ~rows.wrong[first]
        return keep

    return run


def denser(power: float) -> Way:
    """Draw rows more often the larger their doubt, and weigh answers by one over that chance."""

    def run(rows: Ranked, q: float, n: int, rng: np.random.Generator) -> np.ndarray:
        pool = _pool(rows, q, 2.0)
        rate = (0.05 + rows.doubt[pool]) ** power
        chance = np.minimum(1.0, n * rate / rate.sum())
        drawn = rng.random(len(pool)) < chance
        rest, seen = pool[~drawn], pool[drawn]
        weight = np.where(rows.wrong[pool], 1 / chance, 0.0) * drawn
        # The row that is decided on may be one with the largest weight.
        estimate = (np.max(1 / chance) + np.cumsum(weight)[~drawn]) / np.arange(1, len(rest) + 1)
        loose = np.flatnonzero(estimate <= q)
        keep = np.zeros(len(rows.doubt), dtype=bool)
        keep[rest[: loose[-1] + 1 if loose.size else 0]] = True
        keep[seen] = ~rows.wrong[seen]
        return keep

    return run


WAYS: dict[str, Way] = {
    "kept at q": pool_at(1.0),
    "kept at 2 q (the default)": pool_at(2.0),
    "kept at 3 q": pool_at(3.0),
    "all rows": pool_at(None),
    "two stages, 20 % place the pool": two_stages(0.2),
    "denser where doubt is larger (not proved)": denser(0.25),
}


def _pool(rows: Ranked, q: float, looser: float | None) -> np.ndarray:
    """Return a pool, in the order of doubt."""
    size = len(rows.doubt)
    if looser is not None:
        size = max(int(np.sum(rows.level <= looser * q)), min(LEAST_POOL, size))
    return np.argsort(rows.doubt, kind="stable")[:size]


def _cut(rows: Ranked, pool: np.ndarray, q: float, n: int, rng: np.random.Generator) -> np.ndarray:
    drawn = rng.permutation(len(pool))[:n]
    doubt = rows.doubt[pool]
    levels = conformal_steps(doubt, drawn, rows.wrong[pool[drawn]]).of(doubt)
    keep = np.zeros(len(rows.doubt), dtype=bool)
    keep[pool[levels <= q]] = True
    keep[pool[drawn]] = ~rows.wrong[pool[drawn]]
    return keep


def measure() -> None:
    """Store mean FSR and recall of every way, and the recall of the best cut."""
    for name, sample in cases():
        selection = KnockoffsSPR(q=0.1, random_state=0, progress=False)
        selection = selection.fit(sample.X, sample.y).selection_
        rows = Ranked(selection.doubt, selection.q_value, sample.y != sample.y_true)
        for q in (0.05, 0.1):
            ways: dict[str, Any] = {"best": _best(rows, q)}
            for way, run in WAYS.items():
                for n in CHECKS:
                    kept = [
                        run(rows, q, n, np.random.default_rng([draw, n])) for draw in range(PLAYED)
                    ]
                    ways[f"{way}, {n}"] = [
                        float(np.mean([_share(rows.wrong[keep]) for keep in kept])),
                        float(np.mean([np.mean(keep[~rows.wrong]) for keep in kept])),
                    ]
            add_trial(TRIALS, {"name": f"{name}, {q:.2f}", "ways": ways}, ["name"])
            print(name, q, "done", flush=True)


def _share(wrong: np.ndarray) -> float:
    return float(wrong.mean()) if wrong.size else 0.0


def _best(rows: Ranked, q: float) -> float:
    """Return the recall of the loosest cut with an FSR of at most q, told the truth."""
    wrong = rows.wrong[np.argsort(rows.doubt, kind="stable")]
    loose = np.flatnonzero(np.cumsum(wrong) <= q * np.arange(1, len(wrong) + 1))
    return float(np.sum(~wrong[: loose[-1] + 1]) / np.sum(~wrong)) if loose.size else 0.0


def filled(text: str, n: int = 100) -> str:
    """Return the page's text with the table in its place: FSR / recall with `n` checks."""
    cases = named_trials(TRIALS)
    found = [case["ways"] for case in cases.values()]
    rows = [[way, *(_cell(ways[f"{way}, {n}"]) for ways in found)] for way in WAYS]
    best = ["best cut, told the truth", *(f"{ways['best']:.3f}" for ways in found)]
    shown = markdown_table(["pool", *cases], [*rows, best])
    return fill_page(text, COMMAND, shown, cases.values())


def _cell(found: list[float]) -> str:
    fsr, recall = found
    return f"{fsr:.3f} / {recall:.3f}"


def main() -> None:
    if not parsed(arguments(__doc__), TRIALS).page:
        check_shared()
        measure()
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
