"""For the group `assay.formats`: how the logs of a program are recognized and read."""

from __future__ import annotations

from assay.formats.figures import LogFigure, LogFigures, document, lines, number, whole
from assay.formats.lines import Line, line_tool
from assay.formats.tools import Tool
from assay.records import Metric, Scalar

__all__ = [
    "Line",
    "LogFigure",
    "LogFigures",
    "Metric",
    "Scalar",
    "Tool",
    "document",
    "line_tool",
    "lines",
    "number",
    "whole",
]
