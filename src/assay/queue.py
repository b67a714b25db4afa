"""The queue's directory: one directory a request, states by renames, locks that end with their process.

```
.queue/
  worker.lock                  held by the process that takes requests in their order
  worker.log                   what that process printed
  audit.jsonl                  who did what, when, from where; only appended to
  signed-out.json              digests of cookies whose holders signed out, and when they end
  <id>/request.json            what is to run
       lock                    held by the process that runs it
       starts                  a line per start of that process: seconds since the epoch
       session                 `suite/session`, once it is chosen
       output.log              its progress
       stop                    who asked it to stop
       outcome.json            how it ended
```
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from assay.durable import append, is_locked, locked, make_directory, sync, write_atomic, writing
from assay.errors import BusyError, InputError
from assay.inputs import read_whole
from assay.records import from_json, to_json

NAME = ".queue"
MOST_WAITING = 100
MOST_ENDED = 500  # kept, the newest; the runs themselves and the record of actions stay
LOCK_WAIT_S = 5.0  # a look at a lock holds it for an instant
_REMOVED = ".removed"
_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}")
State = Literal["waiting", "running", "interrupted", "stopped", "ended"]
SCHEMA = 1


class QueueDirectory:
    """The queue of one runs directory."""

    def __init__(self, runs: Path) -> None:
        self.runs, self.path = runs, runs / NAME

    def add(self, request: QueueRequest) -> str:
        """Put a request at the end; returns its id. Raises BusyError if too many wait."""
        known = self.all()
        waiting = sum(queued.state in ("waiting", "interrupted") for queued in known)
        if waiting >= MOST_WAITING:
            raise BusyError(f"{waiting} runs wait already; stop one of them, or wait")
        created = datetime.fromtimestamp(request.created_at, UTC)
        name = f"{created:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        unfinished = self.path / f".{name}.new"
        make_directory(unfinished)
        write_atomic(unfinished / "request.json", to_json(request).encode())
        with writing(self.path):
            unfinished.rename(self.path / name)
            sync(self.path)
        self._remove([queued.id for queued in known if queued.outcome is not None][:-MOST_ENDED])
        return name

    def all(self) -> list[QueuedRun]:
        """Every request, oldest first."""
        if not self.path.is_dir():
            return []
        names = sorted(path.name for path in self.path.iterdir() if _ID.fullmatch(path.name))
        return [queued for name in names if (queued := self._unless_removed(name)) is not None]

    def _unless_removed(self, name: str) -> QueuedRun | None:
        try:
            return self.one(name)
        except (InputError, FileNotFoundError):
            if (self.path / name).is_dir():
                raise
            return None

    def _remove(self, names: Iterable[str]) -> None:
        """Remove requests, each out of the others' sight before its files go."""
        for name in names:
            with suppress(FileNotFoundError), writing(self.path):  # another process did
                (self.path / name).rename(self.path / f".{name}{_REMOVED}")
        for left in self.path.glob(f".*{_REMOVED}"):  # also of a process that was killed here
            shutil.rmtree(left, ignore_errors=True)

    def one(self, name: str) -> QueuedRun:
        """A request by its id. Raises InputError if there is none, or its record is damaged."""
        place = self.place(name)
        try:
            request = from_json(QueueRequest, read_whole(place / "request.json"))
            outcome = _outcome(place)
        except ValueError as error:
            raise InputError(f"{place}: is damaged ({error}); remove it") from error
        starts = tuple(float(line) for line in _text(place / "starts").split())
        stopping = (place / "stop").exists()
        state = _state(place, outcome, starts)
        return QueuedRun(name, request, state, _text(place / "session").strip(), starts, stopping, outcome)

    def place(self, name: str) -> Path:
        """The directory of a request. Raises InputError if there is none."""
        if not _ID.fullmatch(name) or not (self.path / name).is_dir():
            raise InputError(f"the queue has no run {name!r}; `assay queue list` shows its runs")
        return self.path / name

    def next(self) -> QueuedRun | None:
        """The oldest request that has not ended; it may be running."""
        return next((queued for queued in self.all() if queued.outcome is None), None)

    def worker(self) -> AbstractContextManager[None]:
        """Hold the right to take requests. Raises BusyError if another process does."""
        make_directory(self.path)
        return locked(self.path / "worker.lock", f"the queue of {self.runs}", wait_s=LOCK_WAIT_S)

    @property
    def has_worker(self) -> bool:
        """Whether a process takes requests now."""
        return is_locked(self.path / "worker.lock")

    def running(self, name: str) -> AbstractContextManager[None]:
        """Hold a request while it runs. Raises BusyError if another process does."""
        return locked(self.place(name) / "lock", f"run {name} of the queue", wait_s=LOCK_WAIT_S)

    def note_start(self, name: str, time_s: float) -> None:
        """Record that its process starts."""
        append(self.place(name) / "starts", f"{time_s:.3f}\n".encode())

    def note_session(self, name: str, session: str) -> None:
        """Record which session it works on."""
        write_atomic(self.place(name) / "session", f"{session}\n".encode())

    def ask_to_stop(self, name: str, by: str) -> None:
        """Ask its process to stop, or keep it from starting."""
        write_atomic(self.place(name) / "stop", f"{by}\n".encode())

    def end(self, name: str, outcome: QueueOutcome) -> None:
        """Record how it ended."""
        write_atomic(self.place(name) / "outcome.json", to_json(outcome).encode())


def last_output(directory: QueueDirectory, name: str, most_bytes: int = 16 << 10) -> Iterator[str]:
    """The last lines that its process printed."""
    path = directory.place(name) / "output.log"
    if not path.is_file():
        return
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - most_bytes))
        lines = file.read().decode(errors="replace").splitlines()
    yield from lines[1 if size > most_bytes else 0 :]


def _state(place: Path, outcome: QueueOutcome | None, starts: tuple[float, ...]) -> State:
    if outcome is not None:
        return "stopped" if outcome.answer == "stopped" else "ended"
    if is_locked(place / "lock"):
        return "running"
    return "interrupted" if starts else "waiting"


def _outcome(place: Path) -> QueueOutcome | None:
    path = place / "outcome.json"
    return from_json(QueueOutcome, read_whole(path)) if path.is_file() else None


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


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
