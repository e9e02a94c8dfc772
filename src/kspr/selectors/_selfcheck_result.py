"""What a self-check found: one entry per kind of flips, a verdict, and what to do now."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from kspr.selectors._flips import KINDS

__all__ = ["KindCheck", "SelfCheck"]

Answer = Literal["held", "not held", "cannot tell"]


@dataclass(frozen=True)
class KindCheck:
    """One kind of flips, over all repeats."""

    kind: str
    n_flipped: int
    n_flipped_kept: int
    n_kept: int
    promised: float
    """The largest share of wrong labels among the kept that the selection allowed itself."""
    found: float
    """That share as it was found: flips that were kept, and what was wrong before."""
    error: float
    """Standard error of `found`."""

    def shown(self, rate: float) -> str:
        """Return a rate in percent; a dash where nothing was kept."""
        return f"{100 * rate:.1f} %" if self.n_kept else "-"

    @property
    def verdict(self) -> Answer:
        """``not held`` beyond two standard errors; ``held`` within one, if they are small."""
        if not self.n_kept or not self.n_flipped:
            return "cannot tell"
        above = self.found - self.promised
        if above > 2 * self.error:
            return "not held"
        if above > self.error or 2 * self.error > self.promised:
            return "cannot tell"
        return "held"


@dataclass(frozen=True)
class SelfCheck:
    """Whether a selection keeps its promise on labels of which some are known to be wrong."""

    control: str
    q: float
    share: float
    repeats: int
    noise_rate: float
    """Share of wrong labels before any were flipped, as estimated."""
    kinds: tuple[KindCheck, ...]

    @property
    def verdict(self) -> Answer:
        """The worst verdict of any kind."""
        found = {kind.verdict for kind in self.kinds}
        worst: tuple[Answer, ...] = ("not held", "cannot tell", "held")
        return next(answer for answer in worst if answer in found)

    @property
    def advice(self) -> str:
        """What to do now, in a sentence or two."""
        checked = (
            "let a person check rows drawn at random: they hold the error rate whatever the noise "
            "is (trusted=; kspr verify RUN --from all, then kspr select --trusted)"
        )
        if self.verdict == "held":
            return (
                "The promise holds for labels that go wrong in these ways. Whether yours do, only "
                "rows that a person has checked can tell (kspr verify)."
            )
        if self.verdict == "cannot tell":
            return (
                "Flip more labels (share=0.15), repeat more often, or raise q, to see more; or "
                f"{checked}."
            )
        worst = max(self.kinds, key=lambda kind: kind.found / max(kind.promised, 1e-12))
        if self.control != "transition":
            return f"Use control='transition', or {checked}."
        smaller = self.q * worst.promised / worst.found
        return f"Ask for a smaller q, such as {smaller:.2g}, or {checked}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, verdicts included."""
        kinds = [{**asdict(kind), "verdict": kind.verdict} for kind in self.kinds]
        return {**asdict(self), "kinds": kinds, "verdict": self.verdict, "advice": self.advice}

    def __str__(self) -> str:
        head = (
            f"Self-check of control={self.control!r} at q = {self.q:g}: {self.verdict}\n"
            f"{self.share:.0%} of the labels flipped, {_times(self.repeats)} for each kind.\n\n"
            f"{'kind':<10}  {'flipped':>8}  {'kept':>6}  {'promised':>8}  "
            f"{'found':>7}  {'error':>6}  verdict\n"
        )
        lines = [
            f"{row.kind:<10}  {row.n_flipped:>8,}  {row.n_flipped_kept:>6,}  "
            f"{row.shown(row.promised):>8}  {row.shown(row.found):>7}  {row.shown(row.error):>6}  "
            f"{row.verdict}"
            for row in self.kinds
        ]
        notes = [f"{row.kind}: {KINDS[row.kind]}." for row in self.kinds]
        return head + "\n".join([*lines, "", *notes, "", self.advice])


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
