"""What users import: the estimators and the `Selection` that they return.

Names are loaded when they are first used, so that the command line can show the options of a
selector without NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspr.selectors.annotators import Annotators, AnnotatorSelector
    from kspr.selectors.cut_groups import CutGroups
    from kspr.selectors.knockoffs_spr import KnockoffsSPR
    from kspr.selectors.manifest import Manifest
    from kspr.selectors.options import SelectorOptions
    from kspr.selectors.presets import (
        by_annotators,
        by_probabilities,
        from_options,
        from_preset,
    )
    from kspr.selectors.probability import ProbabilitySelector
    from kspr.selectors.selection import Selection
    from kspr.selectors.spr import SPR
    from kspr.selectors.summary import ClassSummary, Summary

__all__ = [
    "SPR",
    "AnnotatorSelector",
    "Annotators",
    "ClassSummary",
    "CutGroups",
    "KnockoffsSPR",
    "Manifest",
    "ProbabilitySelector",
    "Selection",
    "SelectorOptions",
    "Summary",
    "by_annotators",
    "by_probabilities",
    "from_options",
    "from_preset",
]

_HOMES = {
    "SPR": "kspr.selectors.spr",
    "AnnotatorSelector": "kspr.selectors.annotators",
    "Annotators": "kspr.selectors.annotators",
    "ClassSummary": "kspr.selectors.summary",
    "CutGroups": "kspr.selectors.cut_groups",
    "KnockoffsSPR": "kspr.selectors.knockoffs_spr",
    "Manifest": "kspr.selectors.manifest",
    "ProbabilitySelector": "kspr.selectors.probability",
    "Selection": "kspr.selectors.selection",
    "SelectorOptions": "kspr.selectors.options",
    "Summary": "kspr.selectors.summary",
    "by_annotators": "kspr.selectors.presets",
    "by_probabilities": "kspr.selectors.presets",
    "from_options": "kspr.selectors.presets",
    "from_preset": "kspr.selectors.presets",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kspr.selectors' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    # Without this, dir() and tab completion show only the names that are loaded so far.
    return __all__
