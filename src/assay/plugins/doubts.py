"""For the group `assay.doubts`: what may speak against a result, with its evidence and remedy."""

from __future__ import annotations

from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.points.case import Case, Side
from assay.records import Doubt, DoubtKind

__all__ = ["Case", "CaseDoubtKind", "Doubt", "DoubtKind", "Side"]
