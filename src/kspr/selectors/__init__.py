"""What users import: the estimators and the Selection that they return."""

from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.manifest import Manifest
from kspr.selectors.selection import CutGroups, Selection
from kspr.selectors.spr import SPR
from kspr.selectors.summary import ClassSummary, Summary

__all__ = ["SPR", "ClassSummary", "CutGroups", "KnockoffsSPR", "Manifest", "Selection", "Summary"]
