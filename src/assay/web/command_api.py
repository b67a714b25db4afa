"""What a command prints, for `assay --server`: the same process with the same answer, only elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

from litestar import get
from litestar.concurrency import sync_to_thread
from litestar.exceptions import PermissionDeniedException
from litestar.params import Parameter

from assay.errors import BusyError, InputError
from assay.web.acting import AnyRequest
from assay.web.problems import ACTING_PROBLEMS
from assay.web.site import Site

MOST_AT_ONCE = 3
CLIENT = "assay-client"  # the header that a page of another site can't make a browser send


class AnsweredCommand(Protocol):
    """What a command printed, and its exit code."""

    @property
    def exit_code(self) -> int:
        """As the command line documents it."""

    @property
    def output(self) -> str:
        """Of standard output."""

    @property
    def error(self) -> str:
        """Of standard error."""


Commands = Callable[[Sequence[str], int, bool, Path], AnsweredCommand]
"""Answers words, columns, whether colored, and the runs directory; raises InputError for what it refuses."""
_ASKED = asyncio.Semaphore(MOST_AT_ONCE)


@get(
    "/api/v1/command",
    summary="What a command that reads prints, for `assay --server URL`",
    responses=ACTING_PROBLEMS,
)
async def command(
    request: AnyRequest,
    site: Site,
    commands: Any,
    word: Annotated[list[str], Parameter(min_items=1, max_items=100)],
    columns: Annotated[int, Parameter(ge=20, le=1000)] = 80,
    color: bool = False,
) -> dict[str, Any]:
    """The words as on the command line, without `assay`: output, error and exit code."""
    if CLIENT not in request.headers:
        raise PermissionDeniedException("Send the header Assay-Client, with any value.")
    if commands is None:
        raise InputError("this server answers no commands")
    if _ASKED.locked():
        raise BusyError("this server answers other commands now; ask again")
    async with _ASKED:
        answered: AnsweredCommand = await sync_to_thread(commands, word, columns, color, site.runs)
    return {
        "schema": "assay.command/1",
        "exit_code": answered.exit_code,
        "output": answered.output,
        "error": answered.error,
    }
