"""What rows are ordered by, in the words of the page: one scale a control."""

from dataclasses import dataclass

from kspr.selectors.selection import Selection

__all__ = ["Scale", "scale_of"]


@dataclass(frozen=True)
class Scale:
    """A statistic as a reader meets it."""

    name: str
    heading: str
    axis: str
    caption: str
    ranking: str
    """What puts suspects in their order."""
    direction: int = 1
    """-1 where kept rows lie left of zero, down to minus the cut-off."""


_DOUBT = Scale(
    name="doubt",
    heading="How doubtful each label is",
    axis="← surely right\u2003doubt\u2003surely wrong →",
    caption="The doubt is the chance that the label is wrong, as far as the fit can tell. Rows up "
    "to the cut-off are kept.",
    ranking="The larger the doubt, the worse the label fits.",
)
_KNOCKOFF = Scale(
    name="W",
    heading="How each label compares with its knockoff",
    axis="← label fits better\u2003W\u2003knockoff fits better →",
    caption="Left of zero, the given label fits better than its knockoff; right of zero, the "
    "knockoff does. Rows between the cut-off and zero are kept.",
    ranking="The larger the selection time, the worse the label fits.",
    direction=-1,
)
_OTHERS = Scale(
    name="W",
    heading="How each label compares with the others",
    axis="← beats most others\u2003W\u2003loses to most →",
    caption="Left of zero, the given label fits better than at least half of the other classes; "
    "right of zero, it does not. Rows between the cut-off and zero are kept.",
    ranking="The larger the selection time, the worse the label fits.",
    direction=-1,
)
_TIME = Scale(
    name="selection time",
    heading="How early each row stands out",
    axis="selection time",
    caption="Rows that stand out late (left) fit their label well and are kept.",
    ranking="The larger the selection time, the worse the label fits.",
)
_SCALES = {
    "transition": _DOUBT,
    "exchangeable": _OTHERS,
    "paper": _KNOCKOFF,
    "theorem": _KNOCKOFF,
    None: _TIME,
}


def scale_of(selection: Selection) -> Scale:
    """Return the scale of the selection's control; selection time where there is none."""
    return _SCALES[selection.control]
