"""From a preset's name, or the options of a command, to a selector."""

import inspect
from typing import Any, TypeVar, get_args

from kspr.errors import InputError
from kspr.selectors.annotators import AnnotatorSelector
from kspr.selectors.base import BaseSelector
from kspr.selectors.doubt import DoubtSelector
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.options import PresetName, SelectorOptions
from kspr.selectors.paper import SPR, PaperKnockoffsSPR
from kspr.selectors.probability import ProbabilitySelector
from kspr.selectors.validation import check_choice

_Other = TypeVar("_Other", ProbabilitySelector, AnnotatorSelector, DoubtSelector)
AnySelector = SPR | KnockoffsSPR | PaperKnockoffsSPR
_KINDS: dict[str, type[AnySelector]] = {
    "default": KnockoffsSPR,
    "paper": PaperKnockoffsSPR,
    "spr": SPR,
}

_INSTEAD: dict[type, tuple[str, str]] = {
    ProbabilitySelector: ("features", "probabilities"),
    DoubtSelector: ("features", "a doubt"),
    AnnotatorSelector: ("one label a row", "annotators"),
}
"""What the presets take, and what each other kind of selector takes in its place."""


def from_preset(name: str, **changes: Any) -> AnySelector:
    """Return the selector of a preset, with any of its parameters changed.

    Parameters
    ----------
    name
        ``"default"`` for `KnockoffsSPR`, ``"paper"`` for `PaperKnockoffsSPR`, ``"spr"`` for `SPR`.
    **changes
        Parameters of that selector.

    Examples
    --------
    >>> from_preset("paper", q=0.1).samples_per_class
    75
    """
    check_choice("preset", name, get_args(PresetName))
    known = _parameters(_KINDS[name])
    for parameter in changes:
        if parameter in known:
            continue
        # A parameter of another preset is told apart from a typing error.
        others = [other for other in _KINDS if parameter in _parameters(_KINDS[other])]
        if others:
            raise InputError(
                f"{parameter} goes with the preset {' or '.join(map(repr, others))}, got {name!r}."
            )
        raise InputError(
            f"{_KINDS[name].__name__} has no parameter {parameter!r}; it has {', '.join(known)}."
        )
    return _KINDS[name](**changes)


def from_options(options: SelectorOptions) -> AnySelector:
    """Return the selector that the options of a command choose.

    >>> from_options(SelectorOptions(q=0.1, dimensions=64)).reduction
    64
    """
    return from_preset(options.preset, **options.changes())


def of_kind(kind: type[_Other], options: SelectorOptions, **more: Any) -> _Other:
    """Return a selector of another kind than the presets, as the options of a command choose it.

    >>> of_kind(DoubtSelector, SelectorOptions(q=0.1), doubtful="low").q
    0.1
    """
    usual, here = _INSTEAD[kind]
    changes = options.changes()
    known = _parameters(kind)
    if "random_state" not in known:
        # Nothing is drawn at random there, and every command has a seed.
        del changes["random_state"]
    unknown = [name for name in changes if name not in known]
    if unknown or options.preset != "default":
        raise InputError(
            f"{unknown[0] if unknown else 'preset'} goes with {usual}. With {here}, these can be "
            f"chosen: {', '.join(known)}."
        )
    return kind(**changes, **more)


def _parameters(kind: type[BaseSelector]) -> list[str]:
    return [name for name in inspect.signature(kind).parameters if name != "self"]
