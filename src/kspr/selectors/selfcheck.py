"""The self-check: flip labels on purpose, select again, and count the flips that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from kspr._progress import Progress
from kspr._text import text_table
from kspr.core.labels import Labels
from kspr.core.transition import MANY_CLASSES
from kspr.errors import InputError, check_seed
from kspr.selectors.flips import ESTIMATED, HARD, KINDS, FlipData, flip
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.options import MODELLED
from kspr.selectors.paper import PaperKnockoffsSPR
from kspr.selectors.parts import HostFeatures
from kspr.selectors.provenance import NoiseEstimate
from kspr.selectors.selection import Selection
from kspr.selectors.validation import (
    check_choice,
    check_count,
    check_rate,
    read_features,
    read_labels,
)
from kspr.selectors.verdict import Ends

Answer = Literal["held", "not held", "cannot tell"]


@dataclass(frozen=True)
class KindCheck:
    """What happened with one kind of flips, over all repeats."""

    kind: str
    """Name of the kind."""
    n_flipped: int
    """Labels that were flipped."""
    n_flipped_kept: int
    """Flipped labels that were kept."""
    n_kept: int
    """Labels that were kept."""
    promised: float
    """Share of wrong labels among the kept ones that the levels of the selection allow."""
    found: float
    """That share as it was found: flips that were kept, and labels that were wrong before."""
    error: float
    """Standard error of `found`."""

    def shown(self, rate: float) -> str:
        """Return a rate as text in percent; a dash where nothing was kept."""
        return f"{100 * rate:.1f} %" if self.n_kept else "-"

    @property
    def verdict(self) -> Answer | None:
        """``"not held"`` if `found` is two standard errors above `promised`, ``"held"`` if it is at
        most one above and two are less than `promised`; else ``"cannot tell"``.

        None for ``"hard"`` flips: no control assumes them, so that they show how far the rate would
        be off, and are no test of it.
        """
        if self.kind == HARD:
            return None
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
    """Whether the error rate of a selector holds on labels of which some are known to be wrong."""

    control: str
    """The control that was tested."""
    q: float
    """The error rate that was asked for."""
    share: float
    """Share of the labels that was flipped each time."""
    repeats: int
    """How often each kind was tried."""
    noise_rate: float
    """Share of wrong labels before any were flipped, as estimated."""
    kinds: tuple[KindCheck, ...]
    """One entry per kind of flips; the estimated noise first."""
    ends: Ends | None = None
    """Share of wrong labels among the kept ones, under either kind of mistake; None for controls
    without a model of the noise."""

    @property
    def verdict(self) -> Answer:
        """The worst verdict of all kinds that have one."""
        found = {kind.verdict for kind in self.kinds}
        worst: tuple[Answer, ...] = ("not held", "cannot tell", "held")
        return next(answer for answer in worst if answer in found)

    @property
    def advice(self) -> str:
        """What to do next, in a sentence or two."""
        checked = (
            "let a person check rows drawn at random: they hold the error rate whatever the noise "
            "is (Selection.draw_checks and with_checks; kspr verify RUN --checks 100)"
        )
        if self.verdict == "held":
            return (
                "The error rate holds for labels that go wrong in these ways. Whether yours do, "
                "only rows that a person has checked can show (kspr verify)."
            )
        if self.verdict == "cannot tell":
            return f"Flip more labels (share=0.15), repeat more often, or raise q; or {checked}."
        judged = [kind for kind in self.kinds if kind.verdict is not None]
        worst = max(judged, key=lambda kind: kind.found / max(kind.promised, 1e-12))
        if self.control not in MODELLED:
            return f"Use control='people', or {checked}."
        # As if the rate that was found were proportional to q.
        smaller = self.q * worst.promised / worst.found
        return f"Ask for a smaller q, such as {smaller:.2g}, or {checked}."

    def _if_hard(self) -> list[str]:
        """Return what flips of hard rows showed, in a sentence; empty without any."""
        return [
            f"If labels go wrong near the class borders, as with {HARD!r} flips, "
            f"{row.shown(row.found)} of the kept ones are wrong where {row.shown(row.promised)} "
            "are promised: a sensitivity, not a verdict."
            for row in self.kinds
            if row.kind == HARD and row.n_kept
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, verdicts included."""
        kinds = [{**asdict(kind), "verdict": kind.verdict} for kind in self.kinds]
        return {**asdict(self), "kinds": kinds, "verdict": self.verdict, "advice": self.advice}

    def __str__(self) -> str:
        head = (
            f"Self-check of control={self.control!r} at q = {self.q:g}: {self.verdict}\n"
            f"{self.share:.0%} of the labels flipped, {_times(self.repeats)} for each kind."
        )
        width = len("cannot tell")
        columns = ("kind", "flipped", "kept", "promised", "found", "error", "verdict".ljust(width))
        rows = [
            [
                row.kind,
                f"{row.n_flipped:,}",
                f"{row.n_flipped_kept:,}",
                *map(row.shown, (row.promised, row.found, row.error)),
                (row.verdict or "-").ljust(width),
            ]
            for row in self.kinds
        ]
        notes = [f"{row.kind}: {KINDS[row.kind]}." for row in self.kinds]
        words = [] if self.ends is None else [f"Wrong among the kept: {self.ends}"]
        advice = [self.advice, *self._if_hard(), *words]
        return "\n".join([head, "", text_table(columns, rows), "", *notes, "", *advice])


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


Tested = KnockoffsSPR | PaperKnockoffsSPR
"""Selectors that have an error rate to test."""
_STREAM = 0x666C6970
"""Makes these random numbers differ from those of the selection and of the caller."""


def selfcheck(
    X: Any,
    y: Any,
    selector: Tested | None = None,
    *,
    groups: Any = None,
    share: float = 0.05,
    kinds: Sequence[str] = ("symmetric", "pair", "similar", "hard"),
    repeats: int = 3,
    seed: int = 0,
) -> SelfCheck:
    """Flip a known share of the labels, select again, and test whether the error rate holds.

    The flipped labels are known to be wrong, so those that are kept can be counted. Labels that
    were wrong before are estimated: flips like the estimated noise, which are always tried too,
    show which share of them is kept.

    Parameters
    ----------
    X, y
        Features and labels, as for `KnockoffsSPR.fit`.
    selector
        The selector to test, `KnockoffsSPR()` if left out. It is fitted
        ``1 + repeats * (1 + len(kinds))`` times, as a copy: the selector itself does not change.
    groups
        Which rows belong together, as for `KnockoffsSPR.fit`.
    share
        Share of the labels to flip each time, at most 0.5.
    kinds
        Kinds of flips: ``"symmetric"`` (to any other class), ``"pair"`` (each class to one other),
        ``"similar"`` (to the class with the nearest mean), ``"hard"`` (rows near a class border,
        across it; no control assumes such noise, so that these have no verdict, and show how far
        the rate would be off).
    repeats
        How often each kind is tried.
    seed
        Seed of the flips.

    Returns
    -------
    SelfCheck
        A verdict, an advice, and one entry per kind in ``kinds``. Print it to read it.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> selfcheck(X, y, kinds=["symmetric"], repeats=2).verdict
    'held'
    """
    selector = KnockoffsSPR() if selector is None else selector
    chosen = _check(selector, share, kinds, repeats, seed)
    # On a copy: the check sets n_features_in_ on its estimator.
    features = HostFeatures(read_features(clone(selector), X))
    labels = read_labels(y, features.shape[0], selector.min_class_size)
    with Progress(selector.progress, "Self-check", 1 + len(chosen) * repeats) as progress:
        plain = _plain(selector, X, labels, groups)
        noise = plain.noise
        assert noise is not None  # noqa: S101 - these controls estimate it
        if not noise.transition.size:
            raise InputError(
                f"selfcheck covers up to {MANY_CLASSES:,} classes, got {len(labels.classes):,}: "
                "for more, the chance of each flip is not estimated. Check the rows of some of "
                "the classes."
            )
        progress.advance()
        scene = _Scene(X, labels, selector, noise, features, groups)
        tallies = []
        for kind in chosen:
            # Its place among all kinds, so that its flips do not depend on which others are tried.
            number = list(KINDS).index(kind)
            rngs = [np.random.default_rng([_STREAM, seed, number, k]) for k in range(repeats)]
            runs = []
            for rng in rngs:
                runs.append(scene.tally(kind, share, rng))
                progress.advance()
            tallies.append(_Tally(*map(sum, zip(*map(_values, runs), strict=True))))
    # `_check` puts the estimated kind first.
    like_noise = tallies[0]
    results = [
        _judge(kind, tally, like_noise, noise, repeats * len(labels.codes))
        for kind, tally in zip(chosen, tallies, strict=True)
    ]
    return SelfCheck(
        control=selector.control,
        q=float(selector.q),
        share=share,
        repeats=repeats,
        noise_rate=noise.rate,
        kinds=tuple(results),
        ends=plain.ends() if selector.control in MODELLED else None,
    )


def _check(
    selector: Any, share: float, kinds: Sequence[str], repeats: int, seed: int
) -> tuple[str, ...]:
    """Return the kinds to try, the estimated one first."""
    if not isinstance(selector, KnockoffsSPR | PaperKnockoffsSPR):
        raise InputError(
            f"selfcheck needs a KnockoffsSPR, got {type(selector).__name__}, which has no error "
            "rate to test."
        )
    # `FlipData.spared` leaves every class half of its labels.
    if check_rate("share", share) > 0.5:
        raise InputError(f"share must be at most 0.5, got {share}.")
    check_count("repeats", repeats, 1)
    check_seed(seed)
    if isinstance(kinds, str):
        kinds = (kinds,)
    for kind in kinds:
        check_choice("kinds", kind, KINDS)
    # A dict drops what is named twice and, unlike a set, keeps the order.
    return tuple(dict.fromkeys((ESTIMATED, *kinds)))


def _plain(selector: Tested, X: Any, labels: Labels, groups: Any) -> Selection:
    """Return a selection from the labels as they are that estimates how they go wrong."""
    if isinstance(selector, PaperKnockoffsSPR):
        # The paper's controls do not estimate how labels go wrong.
        selector = KnockoffsSPR(
            reduction=selector.reduction,
            random_state=selector.random_state,
            min_class_size=selector.min_class_size,
        )
    return _fitted(selector, X, labels.values, groups)


def _fitted(selector: Tested, X: Any, y: np.ndarray, groups: Any) -> Selection:
    # The self-check shows a bar of its own.
    fresh = clone(selector).set_params(progress=False)
    more = {"groups": groups} if isinstance(selector, KnockoffsSPR) else {}
    return fresh.fit(X, y, **more).selection_  # type: ignore[no-any-return]  # scikit-learn is not typed


@dataclass(frozen=True)
class _Tally:
    """Counts of one run, or of several together."""

    n_flipped: int
    n_flipped_kept: int
    n_kept: int
    allowed: float
    """Wrong labels that the levels allow."""
    repaired: float
    """Expected number of flips that made a label right."""
    repaired_kept: float


def _values(tally: _Tally) -> tuple[Any, ...]:
    return tuple(vars(tally).values())


class _Scene:
    """Data, a selector, and the noise that was estimated before any flip."""

    def __init__(
        self,
        X: Any,
        labels: Labels,
        selector: Tested,
        noise: NoiseEstimate,
        features: HostFeatures,
        groups: Any,
    ) -> None:
        self._groups = groups
        self._X, self._labels, self._selector, self._noise = X, labels, selector, noise
        self._flip_data = FlipData(
            features, labels.codes, noise.transition, selector.min_class_size
        )
        self._truth = _chance_of_truth(noise.transition, labels.codes)

    def tally(self, kind: str, share: float, rng: np.random.Generator) -> _Tally:
        """Flip labels, select from them, and count."""
        rows, codes = flip(kind, self._flip_data, share, rng)
        selection = _fitted(self._selector, self._X, self._labels.classes[codes], self._groups)
        level = selection.cut_groups.q_reached[selection.cut_group]
        # Rows that were kept without a level have no error rate to test.
        kept = selection.clean_mask & ~np.isnan(level)
        # A label that was wrong before may have been flipped to its true class.
        made_right = self._truth[self._labels.codes[rows], codes[rows]]
        return _Tally(
            n_flipped=len(rows),
            n_flipped_kept=int(kept[rows].sum()),
            n_kept=int(kept.sum()),
            # A kept row may be wrong with the level of its cut group.
            allowed=float(level[kept].sum()),
            repaired=float(made_right.sum()),
            repaired_kept=float(made_right @ self._kept_if_right(codes, kept, level)[codes[rows]]),
        )

    def _kept_if_right(self, codes: np.ndarray, kept: np.ndarray, level: np.ndarray) -> np.ndarray:
        """Return the share of right labels that is kept, per label."""
        n = len(self._noise.classes)
        # Of the labels kept at a level, that share is expected to be wrong.
        right_kept = np.bincount(codes[kept], weights=1.0 - level[kept], minlength=n)
        right = np.bincount(codes, minlength=n) * (1.0 - self._noise.rate)
        return np.asarray(np.clip(right_kept / np.maximum(right, 1.0), 0.0, 1.0))


def _chance_of_truth(transition: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the chance of each true class (column) for each given label (row)."""
    sizes = np.bincount(codes, minlength=len(transition)).astype(float)
    true = np.clip(np.linalg.pinv(transition).T @ sizes, 0.0, None)
    # Bayes, with the class sizes that the labels imply.
    joint = (true[:, None] * transition).T
    return np.asarray(joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-12))


def _judge(
    kind: str, tally: _Tally, like_noise: _Tally, noise: NoiseEstimate, n_rows: int
) -> KindCheck:
    """Return the share of wrong labels among the kept ones: flips, and those wrong before."""
    # A flip that made a label right is no probe for a wrong one.
    probes = max(like_noise.n_flipped - like_noise.repaired, 1.0)
    kept_share = max(0.0, like_noise.n_flipped_kept - like_noise.repaired_kept) / probes
    # A count's Poisson error; with the 1 it stays above 0 where no flip was kept.
    kept_error = np.sqrt(like_noise.n_flipped_kept + 1.0) / probes
    low, high = noise.rate_interval
    untouched = n_rows - tally.n_flipped
    before = kept_share * noise.rate * untouched
    flips = max(0.0, tally.n_flipped_kept - tally.repaired_kept)
    flips_error = np.sqrt(tally.n_flipped_kept + 1.0)
    by_share = kept_error * noise.rate * untouched
    # Which of the ends is true is not known: as if they were two standard errors from the middle.
    by_rate = kept_share * (high - low) / 4 * untouched
    if tally is like_noise:
        # Both terms come from the same flips, so their errors are not independent.
        error = np.hypot(by_share + flips_error, by_rate)
    else:
        error = np.sqrt(by_share**2 + flips_error**2 + by_rate**2)
    kept = max(tally.n_kept, 1)
    return KindCheck(
        kind=kind,
        n_flipped=tally.n_flipped,
        n_flipped_kept=tally.n_flipped_kept,
        n_kept=tally.n_kept,
        promised=tally.allowed / kept,
        found=float(min(1.0, (before + flips) / kept)) if tally.n_kept else 0.0,
        error=float(min(1.0, error / kept)),
    )
