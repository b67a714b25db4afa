"""The parameters that addresses have in common, checked by their types."""

from __future__ import annotations

from typing import Annotated

from litestar.params import Parameter

from assay.api.browsing import MOST_ROWS
from assay.errors import InputError
from assay.store import Filter, SortOrder
from assay.units import moment

LONGEST = 300  # characters of a value

Name = Annotated[str | None, Parameter(max_length=LONGEST)]
StateName = Annotated[str | None, Parameter(query="state", max_length=LONGEST)]  # Litestar reserves `state`
Required = Annotated[str, Parameter(min_length=1, max_length=LONGEST)]
Names = Annotated[list[str] | None, Parameter(max_items=20)]
Line = Annotated[int, Parameter(ge=1, le=1 << 53)]
Attempt = Annotated[int | None, Parameter(ge=1, le=1 << 31)]
PageNumber = Annotated[int, Parameter(ge=1, le=1 << 31)]
Limit = Annotated[int, Parameter(ge=1, le=MOST_ROWS)]


def some(value: str | None) -> str | None:
    """None for a field of a form that was left empty."""
    return (value or "").strip() or None


def chosen(
    suite: str | None,
    system: str | None,
    workload: str | None,
    benchmark: str | None,
    state: str | None,
    since: str | None,
    q: str | None,
) -> Filter:
    """The filter. Raises InputError for what is no time."""
    try:
        begin = None if some(since) is None else moment(since or "")
    except ValueError as error:
        raise InputError(f"since: {error}") from error
    return Filter(some(suite), some(system), some(workload), some(benchmark), some(state), begin, some(q))


def ordered(sort: str | None) -> SortOrder:
    """By a column, `-` before it for the largest first; by default, the newest first."""
    wanted = some(sort) or "-created_at"
    return SortOrder(wanted.removeprefix("-"), wanted.startswith("-"))
