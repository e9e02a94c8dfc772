"""Find the labels that can be trusted, at an error rate you set.

>>> import kspr
>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> selection = kspr.KnockoffsSPR(q=0.05).fit(X, y).selection_
>>> len(selection.clean_indices) > 1000
True

Names are loaded when they are first used: importing the package is quick, and neither torch
nor pandas is imported by it.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

# Type checkers do not follow `__getattr__` below.
if TYPE_CHECKING:
    from kspr.core.metrics import SelectionQuality, selection_quality
    from kspr.errors import InputError, KsprError, MissingExtraError
    from kspr.selectors import (
        SPR,
        AnnotatorSelector,
        KnockoffsSPR,
        ProbabilitySelector,
        Selection,
    )
    from kspr.selectors.selfcheck import selfcheck

__all__ = [
    "SPR",
    "AnnotatorSelector",
    "InputError",
    "KnockoffsSPR",
    "KsprError",
    "MissingExtraError",
    "ProbabilitySelector",
    "Selection",
    "SelectionQuality",
    "__version__",
    "selection_quality",
    "selfcheck",
]

__version__ = version("knockoffs-spr")

_HOMES = {
    "SPR": "kspr.selectors",
    "AnnotatorSelector": "kspr.selectors",
    "InputError": "kspr.errors",
    "KnockoffsSPR": "kspr.selectors",
    "KsprError": "kspr.errors",
    "MissingExtraError": "kspr.errors",
    "ProbabilitySelector": "kspr.selectors",
    "Selection": "kspr.selectors",
    "SelectionQuality": "kspr.core.metrics",
    "selection_quality": "kspr.core.metrics",
    "selfcheck": "kspr.selectors.selfcheck",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kspr' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
