"""The programs whose logs are recognized by their content, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from assay.by_name import ByName
from assay.inputs import Log
from assay.logs import TOOL_NAMES
from assay.logs.mllog import TOKEN
from assay.logs.patterns import searcher
from assay.logs.tool import Tool

LONGEST_MARKED: Final = 1 << 16  # bytes of a line that may contain a mark: a JSON report may be one line


TOOLS: Final[Mapping[str, Tool]] = ByName(
    {name: f"assay.logs.{name.replace('-', '_')}:TOOL" for name in TOOL_NAMES}, lambda tool: tool
)


def tools_of(path: Path) -> list[Tool]:
    """The programs whose marks occur in a file. Raises InputError if it can't be read."""
    unseen = {name: searcher(tool.mark) for name, tool in TOOLS.items()}
    for block in Log(path, LONGEST_MARKED).blocks():
        if TOKEN in block:  # MLPerf's, whatever else its program prints
            return []
        unseen = {name: stands_in for name, stands_in in unseen.items() if not stands_in(block)}
    return [tool for name, tool in TOOLS.items() if name not in unseen]
