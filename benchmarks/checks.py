"""What a hundred checks give: ways to draw them, people who err, intervals of the estimates.

    python benchmarks/checks.py                  # measure what is missing, then the pages
    python benchmarks/checks.py --only checkers

*draws*: what makes checks go further? Every way is told which rows are wrong and is played through
200 times. Only the first and the second are proved (docs/theory.md); the third is there to see
whether a proof would be worth having. *checkers*: FSR and recall where some answers are wrong. An
answer is wrong with a given chance, either any answer ("slips"), or only by letting a wrong label
pass as right. "Asked again" is what the review page does: a refused label is asked again, and where
the second answer differs, a third one settles it; here as careless as the others. *estimates*: how
often the intervals of `Selection.estimates` hold the truth, and how wide they are, over 1,000 draws
of 100 checks; beside them the exact interval of the checks alone (Clopper and Pearson).
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track

from _common import Bench, Store, arguments, either, markdown_table
from _data import Case, Sample, cifar10, confused_texts, human_labels
from _fsr_cases import CASES
from kspr import KnockoffsSPR, Selection
from kspr.core.conformal import conformal_steps
from kspr.core.shares import Estimate, plain_share
from kspr.noise import symmetric

DRAWS, CHECKERS, ESTIMATES = (Store(name) for name in ("draws", "checkers", "estimates"))
CHECKS, PLAYED, LEAST_POOL = (50, 100, 200), either(200, 3), 1_000


class Ranked(NamedTuple):
    """Rows as the default ranks them, and the truth."""

    doubt: np.ndarray
    level: np.ndarray
    wrong: np.ndarray


def ranked(sample: Sample, q: float) -> Ranked:
    """Return the rows in the default's order of doubt."""
    model = KnockoffsSPR(q=q, random_state=0, progress=False)
    selection = model.fit(sample.X, sample.y).selection_
    return Ranked(selection.doubt, selection.q_value, sample.y != sample.y_true)


def cases() -> Iterator[tuple[str, Sample]]:
    """Return the cases of the issue that asked for checks."""
    X, y, _, _ = cifar10()
    yield "random1", Sample(X, *human_labels("random1"))
    yield "aggre", Sample(X, *human_labels("aggre"))
    for rate in (0.4, 0.8):
        yield f"Sym. {rate:.0%}", Sample(X[:, :128].copy(), symmetric(y, rate, 0), y)
    for name in ("banking77", "clinc150"):
        yield name, Sample(*confused_texts(name, 0.2, 0))


# Ways to draw -------------------------------------------------------------------------------------

Way = Callable[[Ranked, float, int, np.random.Generator], np.ndarray]
"""Rows, q, number of checks, and random numbers; returns what is kept."""


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


def measure_draws() -> None:
    """Store mean FSR and recall of every way, and the recall of the best cut."""
    for name, sample in cases():
        rows = ranked(sample, 0.1)
        for q in (0.05, 0.1):
            ways: dict[str, Any] = {"best": _best(rows, q)}
            for way, run in WAYS.items():
                for n in CHECKS:
                    rngs = (np.random.default_rng([draw, n]) for draw in range(PLAYED))
                    ways[f"{way}, {n}"] = _means(rows.wrong, [run(rows, q, n, r) for r in rngs])
            DRAWS.add({"name": f"{name}, {q:.2f}", "ways": ways}, ["name"])
            print(name, q, "done", flush=True)


def _means(wrong: np.ndarray, kept: list[np.ndarray]) -> list[float]:
    """Return mean FSR and recall of what is kept."""
    fsr = [float(wrong[keep].mean()) if keep.any() else 0.0 for keep in kept]
    return [float(np.mean(fsr)), float(np.mean([keep[~wrong].mean() for keep in kept]))]


def _best(rows: Ranked, q: float) -> float:
    """Return the recall of the loosest cut with an FSR of at most q, told the truth."""
    wrong = rows.wrong[np.argsort(rows.doubt, kind="stable")]
    loose = np.flatnonzero(np.cumsum(wrong) <= q * np.arange(1, len(wrong) + 1))
    return float(np.sum(~wrong[: loose[-1] + 1]) / np.sum(~wrong)) if loose.size else 0.0


def shown_draws(n: int = 100) -> str:
    """Return FSR / recall of every way with `n` checks."""
    trials = DRAWS.named()
    found = [trial["ways"] for trial in trials.values()]
    rows = [[way, *(_cell(ways[f"{way}, {n}"]) for ways in found)] for way in WAYS]
    best = ["best cut, told the truth", *(f"{ways['best']:.3f}" for ways in found)]
    return markdown_table(["pool", *trials], [*rows, best])


def _cell(found: list[float]) -> str:
    return f"{found[0]:.3f} / {found[1]:.3f}"


# People who err -----------------------------------------------------------------------------------

Q = 0.05
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


PEOPLE: dict[str, Checker] = {
    "none": slips(0.0),
    "5 %, any answer": slips(0.05),
    "10 %, any answer": slips(0.1),
    "5 %, any answer; asked again": slips_asked_again(0.05),
    "10 %, any answer; asked again": slips_asked_again(0.1),
    "5 %, all let a wrong label pass": lets_pass(0.05),
    "10 %, all let a wrong label pass": lets_pass(0.1),
}


def measure_checkers() -> None:
    """Store mean FSR and recall for every way to err, with 100 checks from the default's pool."""
    draw = pool_at(2.0)
    for name, sample in cases():
        if name not in ("random1", "aggre", "Sym. 40%"):
            continue
        rows, found = ranked(sample, Q), {}
        for words, checker in PEOPLE.items():
            kept = []
            for played in range(PLAYED):
                said = rows._replace(wrong=checker(rows, np.random.default_rng([played, 1])))
                kept.append(draw(said, Q, 100, np.random.default_rng([played, 100])))
            found[words] = _means(rows.wrong, kept)
        CHECKERS.add({"name": name, "checkers": found}, ["name"])
        print(name, "done", flush=True)


def shown_checkers() -> str:
    """Return FSR / recall for every way to err."""
    found = {name: trial["checkers"] for name, trial in CHECKERS.named().items()}
    rows = [[words, *(_cell(case[words]) for case in found.values())] for words in PEOPLE]
    return markdown_table(["wrong answers", *found], rows)


# Intervals ----------------------------------------------------------------------------------------

NAMES = ("CIFAR-10N, random1", "CIFAR-10N, aggre", "banking77, confused 20%", "CIFAR-10, Sym. 40%")
N_INTERVALS = either(1000, 3)


def _width(found: Estimate) -> float:
    return found.high - found.low


def _holds(found: Estimate, true: float) -> bool:
    return bool(found.low <= true <= found.high)


def _one(told: Selection, right: np.ndarray, frame: np.ndarray) -> dict[str, Any]:
    """Return for every estimate whether it holds, its width, and that of the checks alone."""
    found, keep, checked = told.estimates(), told.clean_mask, told.checked
    assert checked is not None
    unchecked = keep.copy()
    unchecked[checked.rows] = False
    cut = np.max(told.doubt[unchecked], initial=-np.inf)
    # Of the checked right labels, those on the side of the cut that is kept.
    kept_right = int(np.sum(told.doubt[checked.rows[checked.right]] <= cut))
    n, n_right = len(checked.rows), int(checked.right.sum())
    recall = np.sum(right & keep & frame) / np.sum(right & frame)
    classes = [
        (_holds(row.fsr, np.mean(~right[mask])), _width(row.fsr))
        for row in found.per_class
        if (mask := keep & (told.label == row.label)).any()
    ]
    return {
        "noise rate": (
            _holds(found.noise_rate, np.mean(~right[frame])),
            _width(found.noise_rate),
            _width(plain_share(n - n_right, n)),
        ),
        "recall": (
            _holds(found.recall, recall),
            _width(found.recall),
            _width(plain_share(kept_right, n_right)),
        ),
        # From the checks alone: there is nothing to compare these with.
        "FSR": (_holds(found.fsr, np.mean(~right[keep])), _width(found.fsr)),
        "FSR per class": tuple(np.mean(classes, axis=0)),
    }


def _intervals(case: Case, drawn: str, checks: int = 100) -> dict[str, Any]:
    """Return the coverage and the mean widths over all draws."""
    sample = case.make(0)
    right = sample.y == sample.y_true
    fitted = KnockoffsSPR(q=Q, progress=False).fit(sample.X, sample.y).selection_
    frame = np.ones(len(right), dtype=bool)
    if drawn == "pool":
        # The first n rows of a draw of everything are the pool.
        frame = np.isin(np.arange(len(right)), fitted.draw_checks(len(right)))
    found = []
    for seed in track(range(N_INTERVALS), description=f"{case.name}, {drawn}"):
        if drawn == "pool":
            rows = fitted.draw_checks(checks, seed=seed)
        else:
            rows = np.random.default_rng([seed, 1]).choice(len(right), checks, replace=False)
        told = fitted.with_checks(rows, sample.y_true[rows], drawn=drawn, seed=seed)
        found.append(_one(told, right, frame))
    means = {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}
    about = {"case": case.name, "drawn": drawn, "draws": N_INTERVALS, "checks": checks, "q": Q}
    # Held, width, width of the checks alone.
    return {**about, "estimates": {name: m.round(4).tolist() for name, m in means.items()}}


def measure_estimates() -> None:
    """Store the missing cases."""
    for case in [case for case in CASES if case.name in NAMES]:
        for drawn in ("pool", "all"):
            if (case.name, drawn) not in ESTIMATES.done("case", "drawn"):
                ESTIMATES.add(_intervals(case, drawn))


def shown_estimates() -> str:
    """Return the coverage and the width of each estimate, and the width by the checks alone."""
    trials, rows = ESTIMATES.trials(), []
    for trial in trials:
        row = [trial["case"], trial["drawn"]]
        for held, width, *plain in trial["estimates"].values():
            beside = f" ({_short(plain[0])})" if plain else ""
            row.append(f"{_short(held)}, {_short(width)}{beside}")
        rows.append(row)
    return markdown_table(["labels", "drawn from", *trials[0]["estimates"]], rows)


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


COMMAND = "python benchmarks/checks.py"
PARTS = {
    "draws": Bench(COMMAND, "theory.md", (DRAWS,), shown_draws, lambda _: measure_draws()),
    "checkers": Bench(
        COMMAND, "review.md", (CHECKERS,), shown_checkers, lambda _: measure_checkers()
    ),
    "estimates": Bench(
        COMMAND,
        "error-rate.md",
        (ESTIMATES,),
        shown_estimates,
        lambda _: measure_estimates(),
    ),
}


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--only", choices=list(PARTS))
    for name, bench in PARTS.items():
        if parser.parse_args().only in (None, name):
            bench.run(parser)
