"""What users import: the estimators and the Selection that they return."""

from kspr.selectors._manifest import Manifest
from kspr.selectors._summary import ClassSummary, Summary
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.selection import Cells, Selection
from kspr.selectors.spr import SPR

__all__ = ["SPR", "Cells", "ClassSummary", "KnockoffsSPR", "Manifest", "Selection", "Summary"]
