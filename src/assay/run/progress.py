"""The receiver of a session's progress: a terminal, a notebook, a web page, or nobody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from assay.records import Output, Plan, Result, Run, Trial
from assay.rundir.session import Attempt, Session


class Progress(Protocol):
    """The events of a session, in order.

    Concurrent trials call it one at a time. It should return soon: the session waits for it.
    """

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """A trial is run; `adopted`: it resumes the job of an interrupted Assay."""
        ...

    def printed(self, output: Output) -> None:
        """The running job printed something."""
        ...

    def waited(self, why: str) -> None:
        """It printed nothing for a moment; why: what it waits for, "" if it runs or this is unknown."""
        ...

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """An attempt has ended; `settled`: this call does not attempt the trial again."""
        ...

    def noted(self, message: str) -> None:
        """Something about the session as a whole: a look at what is decided."""
        ...

    def close(self) -> None:
        """There are no further events."""
        ...


Tell = Callable[[Session, Plan, Sequence[Run]], Progress]
"""Makes the receiver, once the session is chosen; the runs are those settled before."""


class Silence:
    """Reports nothing."""

    def __init__(self, session: Session, plan: Plan, done: Sequence[Run]) -> None:
        """The session doesn't matter here."""

    def trial_began(self, trial: Trial, attempt: int, *, adopted: bool) -> None:
        """Nothing."""

    def printed(self, output: Output) -> None:
        """Nothing."""

    def waited(self, why: str) -> None:
        """Nothing."""

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """Nothing."""

    def noted(self, message: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
