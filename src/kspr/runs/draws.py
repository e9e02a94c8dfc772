"""Rows drawn at random for a person to check, in a file or on a page."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow.types import is_nested

from kspr._files import staged
from kspr._text import write_csv
from kspr.errors import InputError, UnreadableItemError, check_seed
from kspr.runs.answers import BESIDE
from kspr.runs.checks import Checks, begin_checks, read_checks, write_checks
from kspr.runs.run import Run, load_run
from kspr.selectors import Selection
from kspr.selectors.checked import Drawn, Guarantee
from kspr.selectors.estimates import checks_needed
from kspr.selectors.plan import Plan
from kspr.selectors.validation import check_rate
from kspr.sources.records import Items

COLUMNS = ("row", "id", "label", "suggested_label", "true_label", "drawn_from")
"""Columns of a file of answers; a person fills in `true_label`."""
DEFAULT_CHECKS = 100
"""Rows that are drawn where nobody says how many: enough for most data (docs/error-rate.md)."""

_MOST_CELLS = 40
"""Columns of a table that are shown."""
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
    """Rows in the file that were drawn."""
    n_beside: int
    """Rows in the file that are of their groups."""
    n_before: int
    """Rows of the same draw that were drawn before."""
    n_open: int
    """Those of them that have no answer yet."""
    drawn: Drawn
    q: float
    seed: int
    guarantee: Guarantee
    forecast: tuple[tuple[int, float], ...]
    """Numbers of checks, and the share of the right labels that they can be expected to keep."""
    n_needed: int | None
    """About how many checks keep nine tenths of what the best threshold would; None if unknown."""


def draw_checks(
    folder: Path,
    out: Path,
    *,
    n: int,
    new_draw: bool = False,
    whole_groups: bool = False,
    source: Path | None = None,
    **asked: Any,
) -> Draw:
    """Draw `n` rows of the run in `folder` in all, and write the new ones to the CSV file `out`.

    The draw is saved in the run, and a later call goes on with it. `whole_groups` and `asked` are
    as for `set_draw`.
    """
    _check_new(out)
    run = load_run(folder, source)
    begun = _begun(folder, run.fitted, run.checks, asked, new=new_draw)
    done = len(begun.positions)
    draw = _longer(folder, run.fitted, begun, n)
    draw = _with_groups(draw, run, asked=whole_groups)
    # A row of a group may be drawn later.
    shown = set(begun.asked).difference(draw.positions[done:])
    rows = [position for position in draw.asked if position not in shown]
    if len(draw.positions) == done:
        raise InputError(
            f"{done:,} rows were drawn from {folder} already, and no more with --checks {n}, which "
            f"counts all of them. {len(begun.unanswered):,} have no answer yet; `kspr review "
            f"{folder}` shows these. More are drawn with a larger number, as far as there are any."
        )
    _write(run, rows, draw, out)
    write_checks(folder, draw)
    return Draw(
        path=out,
        n_drawn=len(draw.positions) - done,
        n_beside=len(rows) - len(draw.positions) + done,
        n_before=done,
        n_open=len(begun.unanswered),
        drawn=draw.drawn,
        q=draw.q,
        seed=draw.seed,
        guarantee=draw.guarantee,
        forecast=forecast_of(run.selection, draw, len(draw.positions)),
        n_needed=n_needed(run.selection, draw),
    )


def write_plan(
    folder: Path, out: Path, *, max_wrong: float, confidence: float, source: Path | None = None
) -> Plan:
    """Write the rows of the run's plan to `out`, for a person to fill in, and return the plan.

    The plan is saved in the run: the review page asks for its rows after those of the draw.
    """
    run = load_run(folder, source)
    if run.checks is not None and run.checks.unanswered:
        raise InputError(
            f"{len(run.checks.unanswered):,} of the {len(run.checks.positions):,} rows that were "
            "drawn have no answer. Answer them first, with a question mark where nobody can tell: "
            f"`kspr review {folder}` shows them."
        )
    plan = run.selection.plan(max_wrong, confidence)
    if len(plan.rows):
        _check_new(out)
        _write(run, plan.rows.tolist(), None, out)
    if run.checks is not None:
        write_checks(folder, replace(run.checks, plan=(plan.max_wrong, plan.confidence)))
    return plan


def _check_new(out: Path) -> None:
    if out.exists():
        raise InputError(f"{out} already exists, and may hold answers. Choose another --out.")


def set_draw(
    folder: Path,
    *,
    n: int | None = None,
    new_draw: bool = False,
    whole_groups: bool = False,
    run: Run | None = None,
    **asked: Any,
) -> Checks:
    """Return the draw of the run in `folder`, with `n` rows in all, and save it there.

    `asked` are `q`, `guarantee`, `confidence`, `seed` and `drawn`. Those that are None or left out
    are as in the saved draw; without one, the q of the run, the mean, 0.95, 0 and the pool. Others
    than those of the saved draw are refused, unless a `new_draw` is asked for: earlier answers
    count where a row is drawn again. With `whole_groups`, the other rows of the groups of the drawn
    ones are shown with them. `run` is the run, if it is loaded already.
    """
    run = load_run(folder, answers=False) if run is None else run
    fitted = run.fitted
    before = read_checks(folder, fitted)
    draw = _begun(folder, fitted, before, asked, new=new_draw)
    draw = _longer(folder, fitted, draw, n or len(draw.positions) or DEFAULT_CHECKS)
    draw = _with_groups(draw, run, asked=whole_groups)
    if draw != before:
        write_checks(folder, draw)
    return draw


def _begun(
    folder: Path, fitted: Selection, before: Checks | None, asked: dict[str, Any], *, new: bool
) -> Checks:
    """Return the draw to go on with: the saved one, or one of which no row is drawn yet."""
    given = {name: value for name, value in asked.items() if value is not None}
    if before is not None and before.positions and not new:
        check_same(folder, before, given)
        return before
    check_q(folder, fitted, given)
    draw = begin_checks(fitted, **{"drawn": "pool", **given}).with_answers_of(before)
    check_seed(draw.seed, "--seed")
    check_rate("q", draw.q)
    check_rate("confidence", draw.confidence)
    return draw


def check_q(folder: Path, fitted: Selection, given: Mapping[str, Any]) -> None:
    """Raise if neither the selection nor the user says for which error rate rows are drawn."""
    if given.get("q", fitted.manifest.parameters.get("q")) is None:
        raise InputError(
            f"{folder} was made without an error rate. Give one with --q: kspr verify {folder} "
            "--checks 100 --q 0.05."
        )


def check_same(folder: Path, draw: Checks, given: dict[str, Any]) -> None:
    """Raise if a setting differs from the one that the rows of `draw` were drawn for."""
    for name, value in given.items():
        if getattr(draw, name) != value:
            raise InputError(
                f"--{name} {value} differs from the draw in {folder}, which was made for "
                f"{getattr(draw, name)}. Leave it out to go on with that draw; --new-draw begins "
                "another."
            )


def _longer(folder: Path, fitted: Selection, checks: Checks, n: int) -> Checks:
    """Return the draw with `n` rows, as far as there are so many; earlier ones come first."""
    done = len(checks.positions)
    if n < max(done, 1):
        why = f" It counts the {done:,} rows that were drawn from {folder} already." if done else ""
        raise InputError(f"--checks must be at least {max(done, 1):,}, got {n:,}.{why}")
    if n == done:
        return checks
    # Enough of them, even if each row that was drawn is among them once more.
    more = drawable(fitted, checks)[: n + len(checks.positions)]
    # Rows that a user declared to be a random draw are in no order of ours.
    positions = tuple(dict.fromkeys([*checks.positions, *more.tolist()]))[:n]
    settled = checks.settled if checks.unanswered else len(checks.positions)
    return replace(checks, positions=positions, settled=settled)


def _with_groups(checks: Checks, run: Run, *, asked: bool) -> Checks:
    """Return the draw with the groups of its rows, if that is `asked` or was before."""
    if not asked and checks.whole is None:
        return checks
    _, group = np.unique(run.groups_of_checks(), return_inverse=True)
    members = np.argsort(group, kind="stable")
    start = np.searchsorted(group[members], np.arange(group.max(initial=-1) + 2))
    whole: dict[int, None] = {}
    drawn = set(checks.positions)
    for position in checks.positions:
        of_group = members[start[group[position]] : start[group[position] + 1]].tolist()
        # A row that was drawn, too, keeps its own place: the draw has an order.
        whole |= dict.fromkeys([position, *(p for p in of_group if p not in drawn)])
    return replace(checks, whole=tuple(whole))


def drawable(fitted: Selection, checks: Checks) -> np.ndarray:
    """Return the rows that can be drawn, in the order in which we draw them."""
    if checks.drawn == "pool":
        return fitted.draw_checks(len(fitted), q=checks.q, seed=checks.seed)
    return np.random.default_rng([checks.seed, _STREAM]).permutation(len(fitted))


def n_needed(selection: Selection, checks: Checks, done: int = 0) -> int | None:
    """Return about how many checks reach q, more than those `done`; None if unknown."""
    if not selection.doubt_is_chance:
        return None
    return checks_needed(selection, checks.q, checks.guarantee, checks.confidence, done)


def forecast_of(selection: Selection, checks: Checks, n: int) -> tuple[tuple[int, float], ...]:
    """Return `n` checks and multiples of that, with the share of right labels to expect of each."""
    if not selection.doubt_is_chance:
        return ()
    how: Any = {name: getattr(checks, name) for name in ("q", "guarantee", "confidence")}
    sizes = [times * n for times in _FORECASTS if times * n <= len(selection)]
    return tuple((size, selection.forecast(size, **how)) for size in sizes)


def _write(run: Run, rows: list[int], draw: Checks | None, out: Path) -> None:
    """Write a file of answers about rows of a `draw`; None for rows that are in none."""
    # An answer that is known already need not be given again.
    known = {} if draw is None else draw.known
    origin = {} if draw is None else dict.fromkeys(draw.asked, BESIDE)
    origin |= {} if draw is None else dict.fromkeys(draw.positions, draw.drawn)
    label, suggested, shown = run.selection.label, run.selection.suggested_label, _shown(run, rows)
    lines = (
        [
            run.row[k],
            run.row_id[k],
            label[k],
            suggested[k],
            known.get(k, ""),
            origin.get(k, ""),
            *cells,
        ]
        for k, *cells in zip(rows, *shown.values(), strict=True)
    )
    with staged(out) as staging, staging.open("w", newline="", encoding="utf-8") as file:
        write_csv(file, [*COLUMNS, *shown], lines)


def _shown(run: Run, drawn: list[int]) -> dict[str, list[str]]:
    """Return the columns that show rows to a person: texts, paths of images, cells of a table."""
    items = run.items()
    if items is None:
        try:
            return _cells(run, drawn)
        except InputError:
            return {}  # the source is gone: row and id must do
    if items.kind == "text":
        return {"text": [_text(items, position) for position in drawn]}
    files = [items.file(position) for position in drawn]
    return {items.kind: [str(file or "") for file in files]} if any(files) else {}


def _cells(run: Run, drawn: list[int]) -> dict[str, list[str]]:
    table, places = run.table(), run.table_rows()[drawn].tolist()
    fields = [f for f in run.shown_fields() if f.name not in COLUMNS and not is_nested(f.type)]
    if len(fields) > _MOST_CELLS:
        # Hundreds of numbers say nothing to a person.
        features = run.records().columns.get("features", ())
        fields = [f for f in fields if f.name not in features]
    columns = {} if table is None else {f.name: table.cells(f) for f in fields[:_MOST_CELLS]}
    return {
        name: ["" if place < 0 else str(cells[place])[:_TEXT] for place in places]
        for name, cells in columns.items()
    }


def _text(items: Items, position: int) -> str:
    try:
        # A text may have megabytes: only its beginning is split.
        return " ".join(str(items[position])[: 4 * _TEXT].split())[:_TEXT]
    except (UnreadableItemError, OSError):
        return ""
