# The public names of the package, and the modules that they come from.

from . import noise as noise
from .core.metrics import SelectionQuality as SelectionQuality
from .core.metrics import selection_quality as selection_quality
from .errors import InputError as InputError
from .errors import KsprError as KsprError
from .errors import MissingExtraError as MissingExtraError
from .selectors import SPR as SPR
from .selectors import AnnotatorSelector as AnnotatorSelector
from .selectors import CleanedClassifier as CleanedClassifier
from .selectors import DoubtSelector as DoubtSelector
from .selectors import KnockoffsSPR as KnockoffsSPR
from .selectors import MultiLabelSelector as MultiLabelSelector
from .selectors import PaperKnockoffsSPR as PaperKnockoffsSPR
from .selectors import ProbabilitySelector as ProbabilitySelector
from .selectors import Selection as Selection
from .selectors import held_out_probabilities as held_out_probabilities
from .selectors.selfcheck import selfcheck as selfcheck

__version__: str
