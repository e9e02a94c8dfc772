"""What users import: the estimators and the Selection that they return."""

from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.manifest import Manifest
from kspr.selectors.selection import Cells, Selection
from kspr.selectors.spr import SPR
from kspr.selectors.summary import ClassSummary, Summary

__all__ = ["SPR", "Cells", "ClassSummary", "KnockoffsSPR", "Manifest", "Selection", "Summary"]
