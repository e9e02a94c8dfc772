"""How often people who looked at the same rows gave the same answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from kspr.selectors.review_log import Opinion

__all__ = ["Agreement", "agreements", "cohen_kappa"]


@dataclass(frozen=True)
class Agreement:
    """Two people, and how they agree on the rows that both have answered."""

    one: str
    other: str
    n: int
    """Rows that both have answered."""
    share: float
    """Share of these with the same answer."""
    kappa: float | None
    """Cohen's kappa: 1 for full agreement, 0 for what chance would give. None where both gave one
    and the same answer to all rows, as chance then explains everything."""


def agreements(opinions: Iterable[Opinion]) -> list[Agreement]:
    """Return the agreement of every pair of people who have rows in common."""
    pairs: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for opinion in opinions:
        for one, other in combinations(sorted(opinion.answers), 2):
            said = opinion.answers[one], opinion.answers[other]
            pairs.setdefault((one, other), []).append(said)
    return [
        Agreement(one, other, len(said), _share(said), cohen_kappa(said))
        for (one, other), said in sorted(pairs.items())
    ]


def cohen_kappa(said: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of pairs of answers; None where chance alone explains all of them.

    >>> cohen_kappa([("cat", "cat"), ("cat", "dog"), ("dog", "dog"), ("dog", "dog")])
    0.5
    """
    n = len(said)
    ones, others = (Counter(pair[k] for pair in said) for k in (0, 1))
    by_chance = sum(count * others[answer] for answer, count in ones.items()) / n**2
    return None if by_chance == 1 else (_share(said) - by_chance) / (1 - by_chance)


def _share(said: Sequence[tuple[str, str]]) -> float:
    return sum(one == other for one, other in said) / len(said)
