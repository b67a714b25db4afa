"""The nouns of the queue: what is to run, what became of it."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["waiting", "running", "interrupted", "stopped", "ended"]
SCHEMA = 1


def own_user_name() -> str:
    """Who runs this process; the user ID, as text, where it has no name, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())


@dataclass(frozen=True)
class QueueRequest:
    """What is to run, as kept in `request.json`.

    file         absolute path of a suite, or of a template of jobs on labelled data
    by           who asked for it
    created_at   seconds since the epoch
    failed       repeat the failed trials of the newest session of an equal plan
    new          start a new session even if one is unfinished
    max_repeats  with `decided`: maximum number of blocks
    template     whether the file is a template; then the rest are the choices
    labels       label → range or values
    params       parameter that the template lets people set → its value
    """

    file: str
    by: str
    created_at: float
    systems: tuple[str, ...] = ()
    failed: bool = False
    new: bool = False
    decided: bool = False
    max_repeats: int | None = None
    template: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    system: str | None = None
    shape: str | None = None
    limit: int | None = None
    seed: int | None = None
    schema: int = SCHEMA


@dataclass(frozen=True)
class QueueOutcome:
    """How a request ended, as kept in `outcome.json`.

    answer  as `assay run` answers: good, worse, undecided, left; stopped; or error, with the reason in words
    """

    answer: Literal["good", "worse", "undecided", "left", "done", "stopped", "error"]
    words: str
    ended_at: float


@dataclass(frozen=True)
class QueuedRun:
    """A request and what became of it.

    id       its name in the queue; names sort by age
    state    waiting; running; interrupted: its process was killed and it will be resumed; stopped; ended
    session  `suite/session` once it is known; "" before
    starts   seconds since the epoch of each start of its process: more than one if it was killed
    stopping whether somebody asked it to stop
    """

    id: str
    request: QueueRequest
    state: State
    session: str = ""
    starts: tuple[float, ...] = ()
    stopping: bool = False
    outcome: QueueOutcome | None = None
