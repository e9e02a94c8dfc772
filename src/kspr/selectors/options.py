"""The choices that a selector offers. Imports nothing heavy: the command line's help shows them."""

from dataclasses import dataclass, fields
from typing import Any, Literal

PresetName = Literal["default", "paper", "spr"]
ControlName = Literal["people", "transition", "exchangeable"]
AnyControlName = Literal["people", "transition", "exchangeable", "paper", "theorem"]
LevelName = Literal["fixed", "smallest", "f1"]
CutName = Literal["per_class", "pooled"]
DuplicatesName = Literal["together", "ignore"]
PenaltyName = Literal["group", "lasso"]
KnockoffName = Literal["most_confident", "random", "given"]
StatisticName = Literal["asymmetric", "symmetric_max", "symmetric_min"]

DEFAULT_Q = 0.05
"""The error rate where none is given."""
MODELLED = ("people", "transition")
"""Controls with a model of the noise, and so two ends for every rate."""
DOUBTING = (*MODELLED, "annotators")
"""Controls that estimate the chance that each label is wrong; it is the doubt then."""
RIGHT = "right"
"""The only class of rows whose labels are no classes; any other answer says that it is wrong."""
NOT_HELD = "not held"
"""Status of a cut group of which the model of the noise contradicts itself."""
UNSEEN = "unseen"
"""Status of a cut group for which no rate is stated: features hardly see which labels are wrong."""
_RENAMED = {"dimensions": "reduction", "seed": "random_state"}
"""Options whose estimator parameter has scikit-learn's name, or takes more than a number."""


@dataclass(frozen=True)
class SelectorOptions:
    """The choices of `kspr select`; None leaves a choice to the preset."""

    q: float | None = None
    """Error rate that is asked for: the largest share of wrong labels among the kept ones. It
    rests on the assumption of --control, or on checked rows (`kspr select --checked`), which
    assume nothing about the noise. [default: 0.05]"""
    control: AnyControlName | None = None
    """How the error rate is estimated, and what it assumes. `people`: a label goes wrong by its
    true class, and unless the labels refute it more often on unclear rows, towards what they look
    like. `transition`: by the true class only. `exchangeable`: a wrong label is any wrong class
    with equal chance; keeps less. With the preset `paper`, `paper`: how well a wrong label fits
    does not affect whether it beats its knockoff, which is not so on real features under heavy
    noise; or `theorem`: the same, at the smaller level of the paper's Theorem 2.
    [default: people]"""
    cut: CutName | None = None
    """Hold q over all classes together (`pooled`), or in every class (`per_class`), which keeps
    less. A class of which far more labels would be wrong is cut by itself in either case.
    [default: pooled]"""
    fit_rows: int | None = None
    """Fit this many rows, drawn at random, and judge all of them. [default: as many as 512 MB of
    components hold, such as 262,144 rows with 512 components]"""
    n_splits: int | None = None
    """Fit this many random splits and average what they say: more right labels are kept, and the
    answer depends less on the seed. [default: 1]"""
    neighbours: int | None = None
    """Also ask this many nearest rows, such as 50, which label they have: more right labels are
    kept where noise is moderate; takes several times as long. [default: none]"""
    preset: PresetName = "default"
    """`default`; `paper`, the paper's own choices; or `spr`, a fixed share without error rate."""
    level: LevelName | None = None
    """`fixed` keeps nothing where q cannot be reached. `smallest` takes the smallest level from q
    on that can be reached (with the preset `paper`). `f1` takes the level of the greatest
    estimated F1, whatever q is (with `people` or `transition`)."""
    dimensions: int | None = None
    """Principal components to keep. [default: up to 512; 128 for sparse or very wide data]"""
    clean_ratio: float | None = None
    """With the presets `paper` and `spr`: share that SPR keeps. [default: 0.5]"""
    classes_per_group: int | None = None
    """With the presets `paper` and `spr`: solve this many similar classes together."""
    samples_per_class: int | None = None
    """With the presets `paper` and `spr`: split the data into pieces with this many samples of
    each class."""
    duplicates: DuplicatesName | None = None
    """Find rows that are copies of each other, exactly or nearly, and judge them by a fit that has
    seen none of them (`together`); or `ignore` them. [default: together]"""
    min_class_size: int | None = None
    """Smallest class that is accepted. [default: 2]"""
    seed: int = 0
    """Seed of every random choice; the answer depends on it and on nothing else."""
    n_jobs: int | None = None
    """Threads; -1 for all cores. [default: as many as linear algebra would take]"""

    def changes(self) -> dict[str, Any]:
        """Return the chosen values as parameters of the estimator."""
        chosen = {field.name: getattr(self, field.name) for field in fields(self)}
        # The preset chooses the estimator; it is no parameter of one.
        del chosen["preset"]
        return {_RENAMED.get(k, k): v for k, v in chosen.items() if v is not None}


AS_PRESET = SelectorOptions()
"""Nothing chosen: the default preset as it is."""
