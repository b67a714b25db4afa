"""A row of `assay export` → the same figure as a row of a spreadsheet (`numbers`).

The two use different names: what a spreadsheet calls workload is the benchmark here; labels are one cell
of JSON; and `suite`, `file`, and `line` say where a figure came from, not what it measures.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from assay.records import NodeCounts, Scalar, from_json

T = TypeVar("T")
_OWN: Final = ("benchmark", "suite", "block", "labels", "file", "line")
_ALL: Final = (
    *("system", "benchmark", "workload", "shape", "metric", "unit", "run", "suite", "session", "block"),
    *("value", "labels", "file", "line", "better", "started_at", "conditions"),
)

_KEPT_AS_TEXT = re.compile(r"\A'(?='*[-=+@\t\r\n])")  # so that no spreadsheet takes it for a formula


@dataclass(frozen=True)
class Conditions:
    """What an interval and doubts need of how a run was made; fields as in `Run`."""

    interleaved: bool = False
    outside_block: bool = False
    looks: tuple[int, ...] = ()
    nodes: tuple[NodeCounts, ...] = ()


@dataclass(frozen=True)
class ExportedRun:
    """Of which run a row is: its block, and how it was made."""

    block: int
    conditions: Conditions


def is_export(header: Collection[str]) -> bool:
    """Whether a table's columns are those that `assay export` writes; it may have others, too."""
    return set(_OWN) <= set(header)


def as_sheet(cells: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Scalar], ExportedRun]:
    """The row's cells by spreadsheet column, its labels, and the facts of its run.

    Raises ValueError, with the column's name, if a cell is not one that `assay export` writes.
    """
    cells = {name: _KEPT_AS_TEXT.sub("", text) for name, text in cells.items()}
    sheet_cells = {name: text for name, text in cells.items() if name not in _ALL}
    sheet_cells |= {name: cells[name] for name in ("system", "shape", "metric", "unit", "session", "value")}
    sheet_cells |= {name: cells.get(name, "") for name in ("better", "started_at")}
    sheet_cells["workload"] = cells["benchmark"]
    sheet_cells["run"] = _number(cells)
    if not cells["block"].isdecimal():
        raise ValueError(f"block: {cells['block']!r} is no number")
    labels = _record(dict[str, Scalar], cells["labels"], "labels")
    conditions = _record(Conditions, cells.get("conditions", ""), "conditions")
    return sheet_cells, labels, ExportedRun(int(cells["block"]), conditions)


def _number(cells: Mapping[str, str]) -> str:
    """A run's number among those of its point; of a swept point, its trial's whole name."""
    trial = cells["run"].rpartition("/")[2]
    stems = (f"{cells['benchmark']}-{cells['shape']}{system}-r" for system in (f"-{cells['system']}", ""))
    return next(
        (trial[len(s) :] for s in stems if trial.startswith(s) and trial[len(s) :].isdecimal()), trial
    )


def _record(kind: type[T], text: str, column: str) -> T:
    try:
        return from_json(kind, text or "{}")
    except ValueError:
        raise ValueError(f"{column}: {text!r} is none that `assay export` writes") from None
