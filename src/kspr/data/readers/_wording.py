"""Parts of sentences that every reader's errors share."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import numpy as np

from kspr.errors import InputError

__all__ = ["listed", "no_such", "rows", "shown"]


def rows(numbers: Sequence[int] | np.ndarray) -> str:
    """Name a few row numbers: ``row 7``, ``rows 3, 17 and 5 more``."""
    few = ", ".join(str(int(number)) for number in numbers[:5])
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return f"row{'s' * (len(numbers) > 1)} {few}{more}"


def listed(names: Iterable[str], most: int = 12) -> str:
    """Name a few things: ``'a', 'b' and 7 more``."""
    all_names = list(names)
    more = f" and {len(all_names) - most} more" if len(all_names) > most else ""
    return ", ".join(map(repr, all_names[:most])) + more


def shown(value: object, most: int = 40) -> str:
    """Quote a value, cut short if it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 4]}...{text[-1]}"


def no_such(name: str, known: Iterable[str], where: str, what: str = "column") -> InputError:
    """Say that `name` is not there, and what the user may have meant."""
    names = list(known)
    # Slips of case are the commonest, and difflib counts them as different letters.
    folded = {other.casefold(): other for other in names}
    near = [folded[key] for key in get_close_matches(name.casefold(), folded, n=3, cutoff=0.6)]
    if near:
        hint = f"Did you mean {' or '.join(map(repr, near))}?"
    else:
        hint = f"It has {listed(names)}." if names else f"It has no {what}s."
    return InputError(f"{where} has no {what} {name!r}. {hint}")
