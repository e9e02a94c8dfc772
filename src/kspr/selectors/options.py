"""The choices that a selector offers. Imports nothing heavy: the command line's help shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

__all__ = [
    "AS_PRESET",
    "COMPARING",
    "DEFAULT_Q",
    "DOUBTING",
    "PAPER",
    "ControlName",
    "CutName",
    "DuplicatesName",
    "EngineName",
    "KnockoffName",
    "LevelName",
    "PenaltyName",
    "PresetName",
    "SelectorOptions",
    "StatisticName",
]

PresetName = Literal["default", "paper", "spr"]
ControlName = Literal["transition", "exchangeable", "paper", "theorem"]
LevelName = Literal["fixed", "smallest", "f1"]
CutName = Literal["per_class", "pooled"]
DuplicatesName = Literal["together", "ignore"]
PenaltyName = Literal["group", "lasso"]
KnockoffName = Literal["most_confident", "random", "given"]
StatisticName = Literal["asymmetric", "symmetric_max", "symmetric_min"]
EngineName = Literal["serial", "threads", "processes", "dask"]

DEFAULT_Q = 0.05
"""The error rate where none is given."""
DOUBTING = ("transition", "annotators")
"""Controls that estimate the chance that each label is wrong; it is the statistic then."""
COMPARING = ("paper", "theorem")
"""Controls under which each label is compared with one knockoff, as in the paper."""

PAPER: Mapping[str, Any] = {
    # The first of the paper's levels, from which "smallest" goes up.
    "q": 0.02,
    "control": "paper",
    "level": "smallest",
    "penalty": "group",
    "reduction": "classes",
    "fit_intercept": False,
    # Both sizes are from the paper's section "Scalable to Large Dataset".
    "classes_per_group": 10,
    "samples_per_class": 75,
    "first_step": "spr",
    "clean_ratio": 0.5,
    "knockoff": "most_confident",
    "statistic": "asymmetric",
    "cut": "per_class",
    "duplicates": "ignore",
}
"""The paper's own choices."""

_RENAMED = {"dimensions": "reduction", "seed": "random_state"}
"""Options whose estimator parameter has scikit-learn's name, or takes more than a number."""


@dataclass(frozen=True)
class SelectorOptions:
    """The choices of `kspr select`; None leaves a choice to the preset."""

    q: float | None = None
    """Error rate that is asked for: the largest share of wrong labels among the kept ones. It
    rests on the assumption of --control, or on checked rows (`kspr select --checked`), which
    assume nothing about the noise. [default: 0.05]"""
    control: ControlName | None = None
    """How the error rate is estimated, and what it assumes. `transition`: how a label goes wrong
    depends on the true class only. `exchangeable`: a wrong label is any wrong class with equal
    chance; keeps less. `paper`: how well a wrong label fits does not affect whether it beats its
    knockoff, which is not so on real features under heavy noise. `theorem`: the same, at the
    smaller level of the paper's Theorem 2. [default: transition]"""
    cut: CutName | None = None
    """Hold q over all classes together (`pooled`), or in every class (`per_class`), which keeps
    less. [default: pooled]"""
    confidence: float | None = None
    """With `kspr select --checked`: probability that the error rate is kept. [default: 0.95]"""
    fit_rows: int | None = None
    """Fit this many rows, drawn at random, and judge all of them. [default: as many as 512 MB of
    components hold, such as 262,144 rows with 512 components]"""
    n_splits: int | None = None
    """Fit this many random splits and average what they say: more right labels are kept, and the
    answer depends less on the seed. [default: 1]"""
    neighbours: int | None = None
    """Also ask this many nearest rows, such as 50, which label they have: more right labels are
    kept where noise is moderate; takes several times as long. [default: none]"""
    remove_floor: bool | None = None
    """With `exchangeable`: subtract what wrong labels add to the estimate when they are compared
    with their true class. Assumes that the clearest rows of a class are of that class."""
    preset: PresetName = "default"
    """`default`; `paper`, the paper's own choices; or `spr`, a fixed share without error rate."""
    level: LevelName | None = None
    """`fixed` keeps nothing where q cannot be reached. `smallest` takes the smallest level from q
    on that can be reached (with `paper` and `theorem`). `f1` takes the level of the greatest
    estimated F1, whatever q is (with `transition`)."""
    dimensions: int | None = None
    """Principal components to keep. [default: up to 512; 128 for split or sparse data]"""
    clean_ratio: float | None = None
    """With the presets `paper` and `spr`: share that SPR keeps. [default: 0.5]"""
    classes_per_group: int | None = None
    """Solve this many similar classes together."""
    samples_per_class: int | None = None
    """Split the data into pieces with this many samples of each class."""
    duplicates: DuplicatesName | None = None
    """Find rows that are copies of each other, exactly or nearly, and judge them by a fit that has
    seen none of them (`together`); or `ignore` them. [default: together]"""
    min_class_size: int | None = None
    """Smallest class that is accepted. [default: 2]"""
    seed: int = 0
    """Seed of every random choice; the answer depends on it and on nothing else."""
    n_jobs: int | None = None
    """Workers for split data; -1 for all cores."""

    def changes(self) -> dict[str, Any]:
        """Return the chosen values as parameters of the estimator."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        # The preset chooses the estimator; it is no parameter of one.
        del chosen["preset"]
        return {_RENAMED.get(k, k): v for k, v in chosen.items() if v is not None}


AS_PRESET = SelectorOptions()
"""Nothing chosen: the default preset as it is."""
