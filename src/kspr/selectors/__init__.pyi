# The public names of the room, and the modules that they come from.

from .annotators import Annotators as Annotators
from .annotators import AnnotatorSelector as AnnotatorSelector
from .cleaned import CleanedClassifier as CleanedClassifier
from .cut_groups import CutGroups as CutGroups
from .doubt import DoubtSelector as DoubtSelector
from .held_out import held_out_probabilities as held_out_probabilities
from .knockoffs_spr import KnockoffsSPR as KnockoffsSPR
from .multilabel import MultiLabelSelector as MultiLabelSelector
from .options import SelectorOptions as SelectorOptions
from .paper import SPR as SPR
from .paper import PaperKnockoffsSPR as PaperKnockoffsSPR
from .presets import from_options as from_options
from .presets import from_preset as from_preset
from .presets import of_kind as of_kind
from .probability import ProbabilitySelector as ProbabilitySelector
from .provenance import Manifest as Manifest
from .selection import Selection as Selection
from .summary import ClassSummary as ClassSummary
from .summary import Summary as Summary
