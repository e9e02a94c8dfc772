"""The controls by name."""

from kspr.selectors.controls.control import Control
from kspr.selectors.controls.exchangeable import exchangeable
from kspr.selectors.controls.paper import paper
from kspr.selectors.controls.transition import transition

__all__ = ["CONTROLS"]

CONTROLS: dict[str, Control] = {
    "transition": transition,
    "exchangeable": exchangeable,
    "paper": paper,
    "theorem": paper,
}
