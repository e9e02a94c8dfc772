"""Rows drawn at random for a person to check, in a file or on a page."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr._files import staged
from kspr._text import write_csv
from kspr.errors import InputError, UnreadableItemError
from kspr.noise import check_seed
from kspr.runs.answers import Checks, read_checks, write_checks
from kspr.runs.run import Run, load_run
from kspr.runs.storage import load_selection
from kspr.selectors import Selection
from kspr.selectors.checked import Drawn, Guarantee
from kspr.selectors.options import DOUBTING
from kspr.selectors.validation import check_rate
from kspr.sources.records import Items

__all__ = [
    "COLUMNS",
    "DEFAULT_CHECKS",
    "Draw",
    "check_same",
    "draw_checks",
    "drawable",
    "forecast_of",
    "set_draw",
]

COLUMNS = ("row", "id", "label", "suggested_label", "true_label", "drawn_from")
"""Columns of a file of answers; a person fills in `true_label`."""
DEFAULT_CHECKS = 100
"""Rows that are drawn where nobody says how many: enough for most data (docs/error-rate.md)."""

_TEXT = 500
"""Characters of a text that are shown."""
_FORECASTS = (1, 2, 5)
"""Multiples of the number of checks that a forecast is made for."""
_STREAM = 0x616C6C
"""Keeps a draw from all rows apart from a user's own `default_rng(seed)`."""


@dataclass(frozen=True)
class Draw:
    """Rows that were drawn to be checked."""

    path: Path
    n_drawn: int
    """Rows in the file."""
    n_before: int
    """Rows of the same draw that were drawn before."""
    drawn: Drawn
    q: float
    seed: int
    guarantee: Guarantee
    forecast: tuple[tuple[int, float], ...]
    """Numbers of checks, and the share of the right labels that they can be expected to keep."""
    n_needed: int | None
    """About how many checks keep nine tenths of what the best cut would; None if unknown."""


def draw_checks(
    folder: Path,
    out: Path,
    *,
    n: int,
    q: float | None = None,
    seed: int = 0,
    drawn: Literal["pool", "all"] = "pool",
    guarantee: Guarantee = "mean",
    confidence: float = 0.95,
    source: Path | None = None,
) -> Draw:
    """Draw the next `n` rows of the run in `folder`, write them to `out` for a person to fill in.

    The draw is saved in the run. A later call with the same settings goes on with it. Other
    settings begin another draw; earlier answers count where a row is drawn again.
    """
    if out.exists():
        raise InputError(f"{out} already exists, and may hold answers. Choose another --out.")
    run = load_run(folder, source)
    fitted = run.fitted
    about = _new_draw(folder, fitted, drawn, guarantee, confidence, q, seed)
    before = run.checks
    if before is not None:
        same = replace(before, positions=(), answers=None, log=()) == about
        about = replace(before if same else about, answers=before.answers, log=before.log)
    done = len(about.positions)
    order = _first(fitted, about, done + n)
    rows = order[done:]
    if not rows:
        raise InputError(f"All {len(order):,} rows that could be drawn have been drawn.")
    shown = _shown(run, rows)
    lines = _lines(run, rows, about, list(shown.values()))
    with staged(out) as staging, staging.open("w", newline="", encoding="utf-8") as file:
        write_csv(file, [*COLUMNS, *shown], lines)
    write_checks(folder, replace(about, positions=tuple(order)))
    return Draw(
        out,
        len(rows),
        done,
        drawn,
        about.q,
        seed,
        guarantee,
        forecast_of(run.selection, about, done + n),
        _needed(run.selection, about),
    )


def set_draw(
    folder: Path,
    *,
    n: int | None = None,
    q: float | None = None,
    guarantee: Guarantee | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    fitted: Selection | None = None,
) -> Checks:
    """Return the draw of the run in `folder`, with `n` rows in all, and save it there.

    Arguments that are None keep the values of the saved draw; without a draw they are 100 rows, for
    the mean, at the q of the run. A draw without answers is replaced where something else is asked
    for; one with answers can only become longer. `fitted` is the run's selection without answers,
    if it is loaded already.
    """
    if n is not None and n < 1:
        raise InputError(f"--checks must be at least 1, got {n}.")
    fitted = load_selection(folder, answers=False) if fitted is None else fitted
    before = read_checks(folder, fitted)
    given = {"q": q, "guarantee": guarantee, "confidence": confidence, "seed": seed}
    given = {name: value for name, value in given.items() if value is not None}
    if before is not None and before.reached:
        check_same(folder, before, given)
        draw = before
    else:
        level = 0.95 if confidence is None else confidence
        draw = _new_draw(folder, fitted, "pool", guarantee or "mean", level, q, seed or 0)
        if before is not None:
            same = bool(before.positions) and all(
                getattr(before, name) == value for name, value in given.items()
            )
            draw = before if same else replace(draw, answers=before.answers, log=before.log)
    count = n or len(draw.positions) or DEFAULT_CHECKS
    if count < len(draw.positions):
        raise InputError(
            f"{len(draw.positions):,} rows were drawn from {folder} before any was checked, so "
            f"that --checks cannot be less, got {count:,}."
        )
    draw = replace(draw, positions=tuple(_first(fitted, draw, count)))
    if draw != before:
        write_checks(folder, draw)
    return draw


def _new_draw(
    folder: Path,
    fitted: Selection,
    drawn: Drawn,
    guarantee: Guarantee,
    confidence: float,
    q: float | None,
    seed: int,
) -> Checks:
    """Return a draw of which no row is drawn yet."""
    check_seed(seed, "--seed")
    asked = fitted.manifest.parameters.get("q") if q is None else q
    if asked is None:
        raise InputError(
            f"{folder} was made without an error rate. Give one with --q: kspr verify {folder} "
            "--checks 100 --q 0.05."
        )
    check_rate("q", asked)
    check_rate("confidence", confidence)
    fingerprint = fitted.manifest.fingerprint
    return Checks(drawn, guarantee, float(confidence), float(asked), seed, fingerprint)


def check_same(folder: Path, draw: Checks, given: dict[str, Any]) -> None:
    """Raise if a setting differs from the one that the rows of `draw` were drawn for."""
    for name, value in given.items():
        if getattr(draw, name) != value:
            raise InputError(
                f"--{name} {value} differs from the draw in {folder}, which was made for "
                f"{getattr(draw, name)}. What a draw is for must be set before rows are checked."
            )


def _first(fitted: Selection, checks: Checks, n: int) -> list[int]:
    """Return the first `n` rows that can be drawn; those that were drawn already come first."""
    # Enough of them, even if each row that was drawn is among them once more.
    more = drawable(fitted, checks)[: n + len(checks.positions)]
    # Rows that a user declared to be a random draw are in no order of ours.
    return list(dict.fromkeys([*checks.positions, *more.tolist()]))[:n]


def drawable(fitted: Selection, checks: Checks) -> np.ndarray:
    """Return the rows that can be drawn, in the order in which we draw them."""
    if checks.drawn == "pool":
        return fitted.draw_checks(len(fitted), q=checks.q, seed=checks.seed)
    return np.random.default_rng([checks.seed, _STREAM]).permutation(len(fitted))


def _needed(selection: Selection, checks: Checks) -> int | None:
    if selection.control not in DOUBTING:
        return None
    return selection.checks_needed(
        q=checks.q, guarantee=checks.guarantee, confidence=checks.confidence
    )


def forecast_of(selection: Selection, checks: Checks, n: int) -> tuple[tuple[int, float], ...]:
    """Return `n` checks and multiples of that, with the share of right labels to expect of each."""
    if selection.control not in DOUBTING:
        return ()
    how: dict[str, Any] = {"q": checks.q, "guarantee": checks.guarantee}
    how["confidence"] = checks.confidence
    return tuple(
        (times * n, selection.forecast(times * n, **how))
        for times in _FORECASTS
        if times * n <= len(selection)
    )


def _lines(
    run: Run, drawn: list[int], checks: Checks, shown: list[list[str]]
) -> Iterator[list[object]]:
    """Yield the lines of rows in a file of answers, for `COLUMNS` and the columns `shown`."""
    label, suggested = run.selection.label, run.selection.suggested_label
    for k, *extra in zip(drawn, *shown, strict=True):
        # An answer that is known already need not be given again.
        truth = checks.known.get(k, "")
        yield [run.row[k], run.row_id[k], label[k], suggested[k], truth, checks.drawn, *extra]


def _shown(run: Run, drawn: list[int]) -> dict[str, list[str]]:
    """Return the column that shows rows to a person: texts, or the paths of images."""
    items = run.items()
    if items is None:
        return {}  # nothing to show, or the source is gone: row and id must do
    if items.kind == "text":
        return {"text": [_text(items, position) for position in drawn]}
    files = [items.file(position) for position in drawn]
    return {"image": [str(file or "") for file in files]} if any(files) else {}


def _text(items: Items, position: int) -> str:
    try:
        # A text may have megabytes: only its beginning is split.
        return " ".join(str(items[position])[: 4 * _TEXT].split())[:_TEXT]
    except (UnreadableItemError, OSError):
        return ""
