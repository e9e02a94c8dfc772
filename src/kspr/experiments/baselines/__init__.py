"""Training methods of others on the network, data and optimiser of ours: Tables 1 to 3 and since.

`METHODS` lists them without importing torch; `make_method` returns the rule of one, and
`trainer.fit_method` trains by it. A new method is a subclass of `Method` and one line here.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.experiments.baselines.method import Method

__all__ = ["METHODS", "ListedMethod", "make_method"]


@dataclass(frozen=True)
class ListedMethod:
    """A training method, for lists."""

    title: str
    """Its name in papers."""
    module: str
    """Module of this package that has its rule."""
    rule: str
    """Name of the class."""
    idea: str
    """What it does, in a few words."""
    paper: str
    told: str = ""
    """What it must be told that ours is not; empty for nothing."""
    constants: tuple[tuple[str, Any], ...] = ()
    """Arguments of the class."""


METHODS: dict[str, ListedMethod] = {
    "standard": ListedMethod(
        "Standard", "losses", "Standard", "plain training on all given labels", "-"
    ),
    "forgetting": ListedMethod(
        "Forgetting", "losses", "Forgetting", "dropout on the features", "Arpit et al. 2017"
    ),
    "bootstrap": ListedMethod(
        "Bootstrap (hard)",
        "losses",
        "Bootstrap",
        "a fifth of the target is the predicted class",
        "Reed et al. 2015",
    ),
    "bootstrap-soft": ListedMethod(
        "Bootstrap (soft)",
        "losses",
        "Bootstrap",
        "a twentieth of the target is the predicted probabilities",
        "Reed et al. 2015",
        constants=(("hard", False),),
    ),
    "forward": ListedMethod(
        "Forward",
        "losses",
        "Forward",
        "trains again through an estimated transition matrix",
        "Patrini et al. 2017",
    ),
    "gce": ListedMethod(
        "GCE",
        "losses",
        "GCE",
        "a loss between cross-entropy and absolute error",
        "Zhang and Sabuncu 2018",
    ),
    "sl": ListedMethod("SL", "losses", "SL", "cross-entropy plus its reverse", "Wang et al. 2019"),
    "decoupling": ListedMethod(
        "Decoupling",
        "losses",
        "Decoupling",
        "two networks learn where they disagree",
        "Malach and Shalev-Shwartz 2017",
    ),
    "mentornet": ListedMethod(
        "MentorNet",
        "losses",
        "MentorNet",
        "self-paced: rows below a moving threshold of the loss",
        "Jiang et al. 2018",
    ),
    "co-teaching": ListedMethod(
        "Co-teaching",
        "losses",
        "CoTeaching",
        "two networks choose each other's rows, by small loss",
        "Han et al. 2018",
        told="the noise rate",
    ),
    "co-teaching-plus": ListedMethod(
        "Co-teaching+",
        "losses",
        "CoTeachingPlus",
        "the same among rows that the networks dispute",
        "Yu et al. 2019",
        told="the noise rate",
    ),
    "pencil": ListedMethod(
        "PENCIL", "soft_targets", "PENCIL", "labels are learned by gradient", "Yi and Wu 2019"
    ),
    "joint-optim": ListedMethod(
        "Joint-Optim",
        "soft_targets",
        "JointOptim",
        "labels become mean predictions; trains again on them",
        "Tanaka et al. 2018",
    ),
    "elr": ListedMethod(
        "ELR",
        "soft_targets",
        "ELR",
        "stays near its own early predictions",
        "Liu et al. 2020",
    ),
    "d2l": ListedMethod(
        "D2L",
        "soft_targets",
        "D2L",
        "labels give way to predictions as the features' dimension rises",
        "Ma et al. 2018",
    ),
    "m-correction": ListedMethod(
        "M-correction",
        "soft_targets",
        "MCorrection",
        "mixup; a Beta mixture of the losses weighs label and prediction",
        "Arazo et al. 2019",
    ),
    "dividemix": ListedMethod(
        "DivideMix",
        "soft_targets",
        "DivideMix",
        "two networks divide the rows for each other by a Gaussian mixture of the losses",
        "Li, Socher and Hoi 2020",
    ),
    "topofilter": ListedMethod(
        "TopoFilter",
        "filters",
        "TopoFilter",
        "rows in the largest component of their class among neighbours",
        "Wu et al. 2020",
    ),
    "iter-nld": ListedMethod(
        "IterNLD",
        "filters",
        "IterNLD",
        "outliers of each class count less and are pushed away",
        "Wang et al. 2018",
    ),
    "iterative-cv": ListedMethod(
        "Iterative-CV",
        "filters",
        "IterativeCV",
        "rows whose label the other half's network predicts; then Co-teaching",
        "Chen et al. 2019",
    ),
    "rog": ListedMethod(
        "RoG",
        "filters",
        "RoG",
        "robust Gaussians on the features replace the last layer",
        "Lee et al. 2019",
    ),
    "meta-learning": ListedMethod(
        "Meta-Learning",
        "meta",
        "MetaLearning",
        "steps that labels of neighbours would disturb little",
        "Li et al. 2019",
    ),
    "meta-cleaner": ListedMethod(
        "Meta-Cleaner",
        "meta",
        "MetaCleaner",
        "classifies learned means of few rows of a class, not rows",
        "Zhang, Wang and Qiao 2019",
    ),
    "graded": ListedMethod(
        "Graded supervision (FM-SRM)",
        "filters",
        "Graded",
        "cross-entropy, GCE or soft labels, by what prototypes say of a label",
        "FM-SRM",
    ),
}
"""Name, as in ``kspr train --method NAME``, and what is behind it."""


def make_method(name: str) -> "Method":
    """Return the rule of the method called `name`.

    >>> make_method("gce")
    GCE(q=0.7)
    """
    if name not in METHODS:
        raise InputError(f"There is no method {name!r}; there are {', '.join(METHODS)}.")
    listed = METHODS[name]
    rule = getattr(import_module(f"{__name__}.{listed.module}"), listed.rule)
    method: Method = rule(**dict(listed.constants))
    return method
