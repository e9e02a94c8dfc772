"""What the paper concludes from a table or figure, judged by the stored trials."""

from collections.abc import Iterator
from math import hypot
from typing import NamedTuple

from kspr.experiments.reproduce.recipes import Claim
from kspr.experiments.reproduce.reproduction import Estimate, Reproduction, shown

__all__ = ["Verdict", "verdicts"]

HOLDS, DOES_NOT, CANNOT = "holds", "does not", "cannot be told at this scale"
_ONE_SEED = 0.01
"""Standard error that is assumed of a single seed: a difference of two points counts."""


class Verdict(NamedTuple):
    """A claim, and what the stored trials say of it."""

    claim: str
    seen: str
    reason: str


class _Compared(NamedTuple):
    """The value that is claimed to be ahead, and one that is claimed to be behind it."""

    ahead: Estimate
    behind: Estimate
    names: tuple[str, str]
    where: str

    def lead(self, claim: Claim) -> float:
        """By how much the claim is met; negative where it is the other way round."""
        difference = self.ahead.mean - self.behind.mean
        return -difference if claim.lower else difference

    @property
    def error(self) -> float:
        return hypot(*(_ONE_SEED if e.spread is None else e.spread for e in self[:2]))


def verdicts(result: Reproduction) -> list[Verdict]:
    """Return a verdict on each claim of the recipe.

    A claim holds where all comparisons go its way, one of them by more than two standard errors. It
    does not where one goes against it by more. Otherwise, and on other data, it cannot be told.
    """
    return [Verdict(claim.says, *_judged(claim, result)) for claim in result.definition.claims]


def _judged(claim: Claim, result: Reproduction) -> tuple[str, str]:
    data = claim.data or next(iter(result.definition.scale(result.scale).data))
    if claim.open:
        return CANNOT, claim.open
    if not result.is_papers(data):
        return CANNOT, f"{result.data.get(data, 'other data')} in place of {data}"
    compared = list(_compared(claim, data, result))
    if not compared:
        return CANNOT, "not run"
    leads = [c.lead(claim) for c in compared]
    clear = [abs(lead) > 2 * c.error for lead, c in zip(leads, compared, strict=True)]
    n, seeds = len(compared), min(c.ahead.seeds for c in compared)
    by = "one seed" if seeds == 1 else f"{seeds} seeds"
    true = f"true in {sum(lead > 0 for lead in leads)} of {n} comparison{'s' * (n != 1)}, {by}"
    least = min(range(n), key=leads.__getitem__)
    if leads[least] > 0:
        return (HOLDS, true) if any(clear) else (CANNOT, f"{true}, by what may be chance")
    reason = f"{true}; most against it: {_said(compared[least], claim)}"
    if any(c and lead < 0 for c, lead in zip(clear, leads, strict=True)):
        return DOES_NOT, reason
    return CANNOT, f"{reason}, which may be chance"


def _said(compared: _Compared, claim: Claim) -> str:
    ahead, behind = (
        f"{name} {shown(value, claim.measure)}"
        for name, value in zip(compared.names, compared[:2], strict=True)
    )
    if claim.limit is not None:
        behind = f"the limit {shown(Estimate(claim.limit, None, 1), claim.measure)}"
    return f"{compared.where}{ahead}, {behind}"


def _compared(claim: Claim, data: str, result: Reproduction) -> Iterator[_Compared]:
    """Yield the comparisons that the claim is about, as far as both trials are stored."""
    recipe = result.definition
    if claim.row:
        # Between noises, of one row.
        pairs = [(claim.ahead, claim.row, other, claim.row) for other in claim.of]
    else:
        printed = next(iter(recipe.reported.values()), {})
        others = claim.of or tuple(row for row in printed if row != claim.ahead)
        noises = [noise for noise in result.noises if noise in (claim.noises or result.noises)]
        pairs = [
            (noise, claim.ahead, noise, row)
            for noise in noises
            for row in (("",) if claim.limit is not None else others)
            if f"{row}, {noise}" not in claim.but
        ]
    for noise, row, other_noise, other in pairs:
        ahead = result.estimate(data, noise, row, claim.measure)
        behind = result.estimate(data, other_noise, other, claim.measure)
        if claim.limit is not None and ahead is not None:
            # Exact: all that is uncertain is on the other side.
            behind = Estimate(claim.limit, 0.0, ahead.seeds)
        if ahead is not None and behind is not None:
            names = (noise, other_noise) if claim.row else (row, other)
            where = "" if claim.row or noise == "as found" else f"{noise}, "
            yield _Compared(ahead, behind, names, where)
