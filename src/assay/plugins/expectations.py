"""For the group `assay.expectations`: peaks of accelerators, and results that hardware is compared with."""

from __future__ import annotations

from assay.analyse.expectations.references import Accelerator, Expectations, PublishedFigure

__all__ = ["Accelerator", "Expectations", "PublishedFigure"]
