"""The section of docs/results.md that compares this method with those of others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _common import markdown_table
from kspr.experiments.compare.comparison import REFERENCES

__all__ = ["render_peers", "stored_peers"]

OURS = ("kspr", "kspr-per-class", "kspr-f1", "kspr-paper", "spr-half", "kspr-probabilities")
CLOSE = 0.95
"""Share of the best F1 that a method must reach to count as fast."""

HEAD = """## Compared with the methods of others

`kspr compare` on {n} cases (a data set with one kind of noise), made by `make peers` ({when};
{cpu}, one thread); the JSON is in `benchmarks/results/peers/`. All methods get the same features,
at most 128 principal components. Seconds include cross-validation and neighbours; the machine had
other work too, so that they can only be compared roughly. `kspr` is the default
(`control="transition"`, one cut over all classes), `kspr-per-class` cuts each class by itself, both
at q = {q:g}; `kspr-f1` chooses its level itself (`level="f1"`). Methods with a star are told the
true share of wrong labels, which nobody knows in practice: they are not ranked, and the best of the
others is bold. The settings of `margins` and `topofilter` were chosen with the help of the true
labels, in their favour."""

WHY = """The goal is the best F1 in every column, the shortest time among methods with nearly that
F1, and an FSR within q. Where another method is ahead, the reasons are:

- **A level is not an F1.** `kspr` keeps what meets q and no more. Under heavy noise that is little,
  and every right label that is lost lowers F1. `kspr-f1` does not hold q, and maximises F1 instead.
- **A cut per class keeps nothing of classes** that cannot reach q, and a classifier trained on the
  rest never predicts them. Train on what the default keeps.
- **Handwritten digits** are few and well separated, in groups that are not convex. Nearest
  neighbours fit them better than any linear model.
- **The ranking under symmetric noise**: cross-validated logistic regression and the margins of a
  network rank a little better than one linear regression on half of the rows. Under asymmetric
  noise our ranking is better, because only the transition matrix shows which labels are likely to
  be wrong."""

TABLES: tuple[tuple[str, str, str, Callable[..., float] | None], ...] = (
    ("F1", "f1", ".3f", max),
    ("FSR: share of wrong labels among the kept ones", "fsr", ".3f", None),
    ("AUROC of the ranking", "auroc", ".3f", max),
    ("Test accuracy of a logistic regression on what is kept", "accuracy", ".3f", max),
    ("Error of the estimated share of wrong labels", "noise_rate_error", "+.3f", None),
    ("Seconds", "seconds", ".2f", None),
    ("Memory, MB", "memory", ".0f", None),
)


def stored_peers(folder: Path) -> list[dict[str, Any]]:
    """Return the results of all measured cases, ordered by data and noise."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda case: (case["data"], case["noise"][:1] != "S", case["noise"]))


def render_peers(cases: list[dict[str, Any]]) -> str:
    """Return the section; an empty text if nothing was measured."""
    if not cases:
        return ""
    first = cases[0]
    head = HEAD.format(
        n=len(cases),
        when=max(case["when"] for case in cases)[:10],
        cpu=first["machine"]["cpu"],
        q=first["q"],
    )
    parts = [head]
    for title, name, form, better in TABLES:
        parts.append(f"### {title}\n\n{_table(cases, name, form, better)}")
    parts.append(f"### The goal\n\n{_goal(cases)}\n\n{WHY}")
    return "\n\n".join(parts)


def _table(
    cases: list[dict[str, Any]], name: str, form: str, better: Callable[..., float] | None
) -> str:
    columns = [f"{case['data']}, {case['noise']}" for case in cases]
    rows = []
    best = [_best(case, name, form, better) for case in cases]
    for method in [trial["method"] for trial in cases[0]["trials"]]:
        trials = [_trial(case, method) for case in cases]
        texts = [_text(trial, name, form) for trial in trials]
        if all(text == "-" for text in texts):
            continue
        shown = [
            f"**{text}**" if text == top and _competes(trial) else text
            for text, top, trial in zip(texts, best, trials, strict=True)
        ]
        rows.append([f"{method}{'*' * trials[0]['told']}", *shown])
    return markdown_table(["method", *columns], rows)


def _best(
    case: dict[str, Any], name: str, form: str, better: Callable[..., float] | None
) -> str | None:
    values = [
        trial[name] for trial in case["trials"] if _competes(trial) and trial[name] is not None
    ]
    return None if better is None or not values else format(better(values), form)


def _competes(trial: dict[str, Any]) -> bool:
    return not trial["told"] and trial["method"] not in REFERENCES


def _trial(case: dict[str, Any], method: str) -> dict[str, Any]:
    return next(trial for trial in case["trials"] if trial["method"] == method)


def _text(trial: dict[str, Any], name: str, form: str) -> str:
    value = trial[name]
    if value is None or (name == "seconds" and trial["method"] in REFERENCES):
        return "-"
    return format(value / 2**20 if name == "memory" else value, form)


def _goal(cases: list[dict[str, Any]]) -> str:
    """Return, for every case, the best and the fastest methods."""
    head = ["case", "kspr", "kspr-f1", "best of the others", "fastest with 0.95 of the best F1"]
    rows = []
    for case in cases:
        rivals = [trial for trial in case["trials"] if _competes(trial)]
        top = max(trial["f1"] for trial in rivals)
        other = max((c for c in rivals if c["method"] not in OURS), key=lambda c: c["f1"])
        fast = min((c for c in rivals if c["f1"] >= CLOSE * top), key=lambda c: c["seconds"])
        own = _trial(case, "kspr")
        rows.append(
            [
                f"{case['data']}, {case['noise']}",
                f"{own['f1']:.3f}",
                f"{_trial(case, 'kspr-f1')['f1']:.3f}",
                f"{other['method']} {other['f1']:.3f}",
                f"{fast['method']} ({fast['seconds']:.2f} s)",
                f"{own['fsr']:.3f}",
            ]
        )
    return markdown_table([*head, "FSR of kspr"], rows)
