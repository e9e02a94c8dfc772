"""This package's own selectors, behind the seam that the others use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kspr.experiments.compare.peers.shared import Judged, Shared
from kspr.selectors import ProbabilitySelector, Selection, from_preset

__all__ = ["ByProbabilities", "HalfSPR", "Ours", "Paper"]


@dataclass(frozen=True)
class Ours:
    """`KnockoffsSPR` at the level asked for, with any parameters changed."""

    parameters: Mapping[str, Any] = field(default_factory=dict)

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the control keeps."""
        chosen = {"q": shared.q, "random_state": seed, "progress": False, **self.parameters}
        model = from_preset("default", **chosen)
        return _judged(model.fit(shared.X, shared.y).selection_)


@dataclass(frozen=True)
class Paper:
    """The method with exactly the paper's choices, its search for a level from 0.02 included."""

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the paper's rule keeps; the level asked for is not looked at."""
        model = from_preset("paper", random_state=seed, progress=False)
        return _judged(model.fit(shared.X, shared.y).selection_)


@dataclass(frozen=True)
class HalfSPR:
    """SPR: a fixed share of every class."""

    share: float = 0.5

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep the share that needs its mean shift last."""
        model = from_preset("spr", clean_ratio=self.share, random_state=seed, progress=False)
        return _judged(model.fit(shared.X, shared.y).selection_)


@dataclass(frozen=True)
class ByProbabilities:
    """`ProbabilitySelector` on the probabilities that cleanlab's filters get."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    by_probabilities = True

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Keep what the control keeps; nothing is drawn at random."""
        del seed
        model = ProbabilitySelector(**{"q": shared.q, **self.parameters})
        return _judged(model.fit(shared.probabilities(), shared.y).selection_)


def _judged(selection: Selection) -> Judged:
    rate = None if selection.noise is None else selection.noise.rate
    return Judged(selection.clean_mask, selection.suspicion, rate)
