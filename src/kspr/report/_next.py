"""What to do next: check rows, export, another level, each with a command to copy."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from kspr._text import visible
from kspr.core.coded import stored_of
from kspr.report._dial import LEVELS
from kspr.report._words import count, level
from kspr.runs.draws import DEFAULT_CHECKS
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.selection import Selection

__all__ = ["Step", "next_steps"]

_WITH_VALUE = ("--q", "--out", "--clean-ratio")
_ALONE = ("--overwrite", "--json")
"""Flags of the first command that the next one sets itself, or leaves out."""


@dataclass(frozen=True)
class Step:
    """One thing to do: its name, what it gives, and the command."""

    title: str
    gain: str
    commands: tuple[str, ...]
    """One, or ways to do the same."""


def next_steps(
    selection: Selection,
    run: Path | None,
    command: str | None,
    kind: str | None,
    n_drawn: int = 0,
) -> list[Step]:
    """Return what to do with the selection, the most useful first.

    `run` is the folder of the run; without one, the commands are Python. `command` is the one that
    made the run, `kind` says whether its rows are images, and `n_drawn` how many of its rows have
    been drawn for a person to check.
    """
    again = _another_level(selection, run, command)
    # Where nothing is kept, there is nothing to export, and another level comes first.
    kept = selection.clean_mask.any()
    check = _check(selection, run, n_drawn)
    steps = [check, _export(run, kind), again] if kept else [again, check]
    return [step for step in steps if step is not None]


def _check(selection: Selection, run: Path | None, n_drawn: int) -> Step | None:
    if stored_of(selection, "q_value") is None:
        return None
    checked = selection.checked is not None and selection.checked.calibrate
    title = "Check more rows" if checked else f"Check {DEFAULT_CHECKS} rows"
    gain = (
        "With more checked rows, more labels can be kept at the same error rate."
        if checked
        else "Then the error rate holds for any noise, not only under an assumption."
    )
    if run is None:
        return Step(title, gain, ("selector.fit(X, y, checked=(rows, true_labels))",))
    # The page goes on with the draw; its number of checks is that of all of them.
    more = f" --checks {n_drawn + DEFAULT_CHECKS}" if checked else ""
    # The first draw has written a file under the default name, which holds answers.
    out = f" --out {_quoted(Path(f'{run}-more-checks.csv'))}" if checked else ""
    return Step(
        title,
        f"{gain} On a page in your browser, or in a CSV file to fill in:",
        (
            f"kspr review {_quoted(run)}{more}",
            f"kspr verify {_quoted(run)} --checks {DEFAULT_CHECKS}{out}",
        ),
    )


def _export(run: Path | None, kind: str | None) -> Step:
    gain = "Writes the kept rows to a new place; the source is not changed."
    if run is None:
        gain = "The kept rows; the arrays are not changed."
        return Step("Take the cleaned data", gain, ("X[selection.clean_mask]",))
    out = "--to imagefolder --out clean" if kind == "image" else "--out clean.parquet"
    return Step("Export the cleaned data", gain, (f"kspr export {_quoted(run)} {out}",))


def _another_level(selection: Selection, run: Path | None, command: str | None) -> Step | None:
    words = shlex.split(command or "")
    if run is not None and selection.checked is not None and selection.checked.calibrate:
        # Selecting again would leave the answers out, and keep other rows than counted here.
        return None
    if stored_of(selection, "q_value") is None:
        if run is None or words[:2] != ["kspr", "select"]:
            return None
        gain = "SPR keeps a fixed share, and cannot say how many of the kept labels are wrong."
        again = _select_again(words, DEFAULT_Q, run)
        return Step("Ask for an error rate", gain, (again,))
    q = _level_to_try(selection)
    now, then = int(selection.clean_mask.sum()), int(selection.at(q).clean_mask.sum())
    gain = f"q = {level(q)} would keep {count(then)} labels; now {count(now)} are kept."
    if run is None:
        again = f"selection.at({q:g})"
    elif words[:2] == ["kspr", "select"]:
        again = _select_again(words, q, run)
    else:
        again = f"kspr.Selection.load({str(run)!r}).at({q:g})"
    return Step("Try another error rate", gain, (again,))


def _level_to_try(selection: Selection) -> float:
    """Return the next larger level that keeps clearly more, or else the next smaller one."""
    asked = float(selection.cut_groups.q_asked[0])
    kept = selection.clean_mask.sum()
    for q in LEVELS:
        if q > asked and selection.at(q).clean_mask.sum() > 1.02 * kept:
            return q
    return max((q for q in LEVELS if q < asked), default=LEVELS[0])


def _select_again(words: list[str], q: float, run: Path) -> str:
    """Return the command that made the run, at another level and to another folder."""
    again, skip = [], False
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if skip:
            skip = False
        elif word in _WITH_VALUE or (word, following) == ("--preset", "spr"):
            skip = True
        elif not (word in _ALONE or word.startswith(tuple(f"{flag}=" for flag in _WITH_VALUE))):
            again.append(word)
    again += ["--q", f"{q:g}", "--out", f"{run}-q{q:g}"]
    return visible(shlex.join(again))


def _quoted(path: Path) -> str:
    return visible(shlex.quote(str(path)))
