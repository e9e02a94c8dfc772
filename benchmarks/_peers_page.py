"""The part of docs/results.md that holds this method against its peers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["render_peers", "stored_peers"]

OURS = ("kspr", "kspr-pooled", "kspr-f1", "kspr-paper", "spr-half")
REFERENCES = ("no cleaning", "oracle")
CLOSE = 0.95
"""Share of the best F1 that a method must reach to be counted among the fast ones."""

HEAD = """## Beside the methods people use today

`kspr compare` on {n} scenes, made by `make peers` ({when}; {cpu}, one thread); the JSON is in
`benchmarks/results/peers/`. All methods see the same features, at most 128 principal components.
Seconds include what a method needs, cross-validation and neighbours too. `kspr` is the default
(`control="transition"`, a cut per class), `kspr-pooled` cuts over all classes, both at q = {q:g};
`kspr-f1` chooses its level itself (`level="f1"`). Methods with a star are told the true share of
wrong labels, which nobody knows: they are no part of the contest, and the best of the others is
bold. The settings of `margins` and `topofilter` were chosen with the truth in view, in their
favour."""

WHY = """The goal is the best F1 of all in every column, the least time of all that come close, and
an FSR within q. Where a peer is ahead, this is why:

- **A level is not an F1.** `kspr` keeps what meets q and no more; under heavy noise that is little,
  and F1 counts every right label that is lost. `kspr-f1` gives the promise up for the F1.
- **A cut per class leaves classes empty** that cannot reach q, and a classifier that is trained on
  the rest never predicts them: it can end below no cleaning. `cut="pooled"` is the choice where
  something is trained on what is kept.
- **Handwritten digits** are few and well separated, in groups that are not convex. Their neighbours
  know more of them than any linear fit does.
- **The ranking under symmetric noise**: cross-validated logistic regression and the margins of a
  network rank a little better than one linear regression on half of the rows. Under asymmetric
  noise it is the other way round, because only the transition matrix tells which labels are
  likely to be wrong."""

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
    """Return the scenes that were measured, in the order of data and noise."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return sorted(
        found, key=lambda scene: (scene["data"], scene["noise"][:1] != "S", scene["noise"])
    )


def render_peers(scenes: list[dict[str, Any]]) -> str:
    """Return the section, nothing where nothing was measured."""
    if not scenes:
        return ""
    first = scenes[0]
    head = HEAD.format(
        n=len(scenes),
        when=max(scene["when"] for scene in scenes)[:10],
        cpu=first["machine"]["cpu"],
        q=first["q"],
    )
    parts = [head]
    for title, name, form, better in TABLES:
        parts.append(f"### {title}\n\n{_table(scenes, name, form, better)}")
    parts.append(f"### The goal\n\n{_goal(scenes)}\n\n{WHY}")
    return "\n\n".join(parts)


def _table(
    scenes: list[dict[str, Any]], name: str, form: str, better: Callable[..., float] | None
) -> str:
    columns = [f"{scene['data']}, {scene['noise']}" for scene in scenes]
    lines = ["| method | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    best = [_best(scene, name, form, better) for scene in scenes]
    for method in [cell["method"] for cell in scenes[0]["cells"]]:
        cells = [_cell(scene, method) for scene in scenes]
        texts = [_text(cell, name, form) for cell in cells]
        if all(text == "-" for text in texts):
            continue
        shown = [
            f"**{text}**" if text == top and _competes(cell) else text
            for text, top, cell in zip(texts, best, cells, strict=True)
        ]
        lines.append(f"| {method}{'*' * cells[0]['told']} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _best(
    scene: dict[str, Any], name: str, form: str, better: Callable[..., float] | None
) -> str | None:
    values = [cell[name] for cell in scene["cells"] if _competes(cell) and cell[name] is not None]
    return None if better is None or not values else format(better(values), form)


def _competes(cell: dict[str, Any]) -> bool:
    return not cell["told"] and cell["method"] not in REFERENCES


def _cell(scene: dict[str, Any], method: str) -> dict[str, Any]:
    return next(cell for cell in scene["cells"] if cell["method"] == method)


def _text(cell: dict[str, Any], name: str, form: str) -> str:
    value = cell[name]
    if value is None or (name == "seconds" and cell["method"] in REFERENCES):
        return "-"
    return format(value / 2**20 if name == "memory" else value, form)


def _goal(scenes: list[dict[str, Any]]) -> str:
    """Return, scene by scene, who is ahead and who is fast."""
    lines = [
        "| scene | kspr | kspr-f1 | best of the others | fastest with 0.95 of the best F1 | "
        "FSR of kspr |",
        "|---|---|---|---|---|---|",
    ]
    for scene in scenes:
        rivals = [cell for cell in scene["cells"] if _competes(cell)]
        top = max(cell["f1"] for cell in rivals)
        other = max((c for c in rivals if c["method"] not in OURS), key=lambda c: c["f1"])
        fast = min((c for c in rivals if c["f1"] >= CLOSE * top), key=lambda c: c["seconds"])
        own = _cell(scene, "kspr")
        lines.append(
            f"| {scene['data']}, {scene['noise']} | {own['f1']:.3f} | "
            f"{_cell(scene, 'kspr-f1')['f1']:.3f} | {other['method']} {other['f1']:.3f} | "
            f"{fast['method']} ({fast['seconds']:.2f} s) | {own['fsr']:.3f} |"
        )
    return "\n".join(lines)
