"""Which parameters of `KnockoffsSPR` go together."""

from typing import TYPE_CHECKING

from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.selectors.knockoffs_spr import KnockoffsSPR

__all__ = ["COMPARING", "check_together"]

COMPARING = ("paper", "theorem")
"""Controls under which each label meets one knockoff, as in the paper."""
_NEUTRAL = {
    "level": ("fixed", "f1"),
    "knockoff": ("most_confident",),
    "statistic": ("asymmetric",),
}
"""Values that say nothing of a comparison with one knockoff, which is the paper's alone."""


def check_together(selector: "KnockoffsSPR") -> None:
    """Refuse choices that the control would not look at."""
    compares = selector.control in COMPARING
    for name, neutral in _NEUTRAL.items():
        value = getattr(selector, name)
        if not compares and value not in neutral:
            raise InputError(
                f"{name}={value!r} goes with control='paper' or 'theorem', not with "
                f"{selector.control!r}. Change either."
            )
    if selector.level == "f1" and selector.control != "transition":
        raise InputError(
            "level='f1' goes with control='transition', which estimates how many labels are "
            f"right, not with {selector.control!r}. Change either."
        )
    if selector.remove_floor and selector.control != "exchangeable":
        raise InputError(
            f"remove_floor goes with control='exchangeable', got {selector.control!r}."
        )
    if selector.n_splits > 1 and selector.level == "f1":
        raise InputError(
            f"level='f1' goes with n_splits=1, got {selector.n_splits}: several splits are "
            "combined for the one level q."
        )
    if selector.n_splits > 1 and compares:
        raise InputError(
            f"n_splits={selector.n_splits} goes with control='transition' or 'exchangeable', whose "
            f"cells are the same in every split, not with {selector.control!r}."
        )
