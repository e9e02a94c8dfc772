"""People's answers about a saved selection: which rows were drawn, and what was found.

They stand beside it, and are applied when the selection is loaded: what was fitted is never
changed. `checks.json` holds the draw and the answers of CSV files; it is replaced as a whole.
`review.sqlite` holds the answers of the review page, and only grows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from kspr._files import read_json, write_json
from kspr.errors import InputError
from kspr.selectors.controls.checked import Drawn, Guarantee
from kspr.selectors.options import DEFAULT_Q
from kspr.selectors.review_log import (
    CANNOT_TELL,
    NO_CLASS,
    Entry,
    Opinion,
    opinions,
    read_log,
)

if TYPE_CHECKING:
    from kspr.selectors.selection import Selection

__all__ = [
    "CANNOT_TELL",
    "NO_CLASS",
    "Checks",
    "apply_checks",
    "read_checks",
    "write_checks",
]

_FILE = "checks.json"


@dataclass(frozen=True)
class Checks:
    """The rows that were drawn from a selection, in their order, and the answers so far."""

    drawn: Drawn
    guarantee: Guarantee
    confidence: float
    q: float
    seed: int
    fingerprint: str
    """Of the data that the selection was made from."""
    positions: tuple[int, ...] = ()
    """Rows that were drawn at random, as numbers in the selection, in the order of the draw."""
    answers: dict[str, str] | None = None
    """True labels of CSV files by position, as text; also of rows that were not drawn: these were
    chosen."""
    log: tuple[Entry, ...] = ()
    """The answers of the review page, which have a file of their own."""

    @property
    def filed(self) -> dict[int, str]:
        """True labels of CSV files by position."""
        return {int(position): truth for position, truth in (self.answers or {}).items()}

    @cached_property
    def opinions(self) -> dict[int, Opinion]:
        """What reviewers said, by position."""
        return opinions(self.log, self.positions, self.filed)

    @cached_property
    def known(self) -> dict[int, str]:
        """True labels by position, of files and of the review page."""
        return {**self.filed, **{p: opinion.resolved for p, opinion in self.opinions.items()}}

    def with_answers(self, answers: dict[int, str]) -> Checks:
        """Return the checks with more answers of a file; a later one replaces an earlier one."""
        filed = {**self.filed, **answers}
        return replace(self, answers={str(position): truth for position, truth in filed.items()})

    @property
    def reached(self) -> tuple[int, ...]:
        """The drawn rows up to the last one that has an answer."""
        known = self.known
        last = max((k for k, p in enumerate(self.positions) if p in known), default=-1)
        return self.positions[: last + 1]

    @property
    def unanswered(self) -> tuple[int, ...]:
        """The drawn rows without an answer, in the order of the draw."""
        known = self.known
        return tuple(position for position in self.positions if position not in known)

    @property
    def n_left_empty(self) -> int:
        """Drawn rows without an answer that stand before the last answer."""
        return len(set(self.unanswered).intersection(self.reached))


def apply_checks(selection: Selection, checks: Checks | None) -> Selection:
    """Return the selection with the answers."""
    if checks is None or not checks.known:
        return selection
    known, names = checks.known, [str(name) for name in selection.classes.tolist()]

    def truth(position: int) -> Any:
        # A row that was passed over may have been passed over because it is hard.
        answer = known.get(position, CANNOT_TELL)
        return answer if answer in names or answer != CANNOT_TELL else None

    how: dict[str, Any] = {"q": checks.q, "seed": checks.seed, "confidence": checks.confidence}
    drawn = checks.reached
    if drawn:
        answers = list(map(truth, drawn))
        how["guarantee"] = checks.guarantee
        selection = selection.with_checks(drawn, answers, **how, drawn=checks.drawn)
    chosen = [position for position in known if position not in set(drawn)]
    if chosen:
        selection = selection.with_checks(chosen, list(map(truth, chosen)), **how, drawn="chosen")
    return selection


def read_checks(folder: Path, selection: Selection) -> Checks | None:
    """Return the checks beside a selection; None without any, or if they are about other data."""
    fingerprint = selection.manifest.fingerprint
    log = read_log(folder, fingerprint)
    if any(entry.position is not None and entry.position >= len(selection) for entry in log):
        raise InputError(f"{folder} has answers about rows that it does not have. Copy it again.")
    file = folder / _FILE
    if not file.is_file():
        if not log:
            return None
        # The draw is lost, so that it is not known which of the rows were drawn at random.
        asked = selection.manifest.parameters.get("q")
        q = asked if isinstance(asked, float) else DEFAULT_Q
        return Checks("chosen", "mean", 0.95, q, 0, fingerprint, log=log)
    about = read_json(file)
    try:
        checks = Checks(**{**about, "positions": tuple(about["positions"]), "log": ()})
        known = checks.filed
        sound = (
            checks.drawn in get_args(Drawn)
            and checks.guarantee in get_args(Guarantee)
            and all(type(p) is int and 0 <= p < len(selection) for p in (*checks.positions, *known))
            and all(isinstance(answer, str) for answer in known.values())
            and all(
                type(value) is float and 0 < value < 1 for value in (checks.q, checks.confidence)
            )
            and type(checks.seed) is int
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise InputError(f"{file} cannot be read: it is cut short or damaged. Remove it.")
    return replace(checks, log=log) if checks.fingerprint == fingerprint else None


def write_checks(folder: Path, checks: Checks) -> None:
    """Write the draw, and the answers of CSV files, beside a selection."""
    # Answers of the review page are in their own file already.
    about = asdict(replace(checks, log=()))
    del about["log"]
    write_json(folder / _FILE, about)
