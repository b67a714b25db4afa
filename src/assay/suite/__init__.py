"""The user's two files: what to measure (suite.yaml) and where (systems.yaml)."""

from __future__ import annotations

from assay.suite.load import load, parse
from assay.suite.load import systems as systems_of
from assay.suite.model import Benchmark, Suite, SweepPoint, System, Systems

__all__ = [
    "Benchmark",
    "Suite",
    "SweepPoint",
    "System",
    "Systems",
    "load",
    "parse",
    "systems_of",
]
