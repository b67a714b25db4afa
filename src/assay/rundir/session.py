"""The run directory: its layout, the states of an attempt, and everything that is written there.

docs/architecture.md shows the layout. Nothing else writes to it, except the local launcher's
`jobs/`.
An attempt's state changes by one atomic rename of its `run.json`, so that killing Assay at any moment leaves
a directory that the next process understands.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from assay import redact
from assay.durable import (
    append,
    locked,
    make_directory,
    position,
    sync,
    write_atomic,
    write_lasting,
    writing,
)
from assay.errors import HostError, InputError, Problem, UnreadableError
from assay.inputs import open_plain, read_whole
from assay.records import (
    LATEST_TIME,
    Output,
    Plan,
    Provenance,
    Reading,
    RenderedJob,
    Run,
    RunState,
    SecretPlace,
    Trial,
    from_json,
    to_json,
)
from assay.rundir.files import (
    SCHEMA,
    AttemptPlan,
    CachedReading,
    Header,
    read_record,
    record_json,
    safe_name,
    set_name,
)
from assay.version import __version__

_OWN_FILES = ("session.json", "plan.json")
_ATTEMPT = re.compile(r"attempt-([1-9]\d*)")
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d{6}Z(\.\d+)?")  # as `create` generates it


class Attempt:
    """One try at a trial: its record, its logs, and what was made from them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Attempt({str(self.path)!r})"

    @property
    def number(self) -> int:
        """Counted from 1."""
        return int(self.path.name.removeprefix("attempt-"))

    def run(self) -> Run:
        """The attempt's record. Raises InputError if the file is damaged or from a newer version of Assay.

        Its id follows from its current path, even if its directory was renamed.
        """
        run = read_record(self.path / "run.json", Run)
        redact.learn_values(self._at(place) for place in run.secrets)
        if run.id == self.run_id:
            return run
        suite, session, _ = self.path.parts[-4:-1]
        return replace(run, id=self.run_id, suite=suite, session=session)

    @property
    def run_id(self) -> str:
        """`suite/session/trial`."""
        return "/".join(self.path.parts[-4:-1])

    def sent(self) -> AttemptPlan:
        """What was submitted for it. Raises InputError; an imported log has none."""
        return read_record(self.path / "plan.json", AttemptPlan)

    def logs(self) -> dict[str, Path]:
        """Log files by their name in `formats/`: `rank-0.log`, `probe-0.log`, an imported file's own name."""
        directory = self.path / "logs"
        if not directory.is_dir():
            return {}
        return {path.name: path for path in sorted(directory.iterdir(), key=_natural) if path.is_file()}

    def kept(self) -> dict[str, int]:
        """Bytes stored of each stream: the position from which to follow the job."""
        return {path.stem: path.stat().st_size for path in self.logs().values()}

    def provenance(self) -> Provenance | None:
        """What the probe found on each node; None if there was no probe."""
        path = self.path / "provenance.json"
        return read_record(path, Provenance) if path.is_file() else None

    def stamp(self) -> str:
        """Changes when the attempt does: size and time of its record, which is always written last."""
        return _stamp(str(self.path), self.number)

    def renew_stamp(self) -> None:
        """Say that something next to the record has changed, so that the index takes it in again."""
        os.utime(self.path / "run.json")

    def secret_places(self) -> tuple[SecretPlace, ...]:
        """Where its logs first contain each secret that this process knows."""
        places = (
            SecretPlace(name, offset, len(value))
            for value in sorted(known.encode() for known in redact.known_values())
            for name, path in self.logs().items()
            if (offset := position(path, value)) is not None
        )
        return tuple(places)

    def _at(self, place: SecretPlace) -> str:
        """What the log contains there; "" if the log is missing."""
        path = self.path / "logs" / safe_name(place.log)
        if not path.is_file():
            return ""
        with open_plain(path) as log:
            log.seek(place.offset)
            return log.read(place.bytes).decode(errors="replace")

    # Writing: only the process that holds the session's lock writes, except for the cache.

    def append(self, stream: str, data: bytes) -> None:
        """Store a stream's output. Raises HostError if the disk is full; what was written is kept."""
        append(self.path / "logs" / f"{safe_name(stream)}.log", data)

    def write_run(self, run: Run, *, lasting: bool = True) -> None:
        """Change the attempt's state."""
        write_atomic(self.path / "run.json", record_json(run), lasting=lasting)

    def write_provenance(self, provenance: Provenance) -> None:
        """Store what the probes reported."""
        write_atomic(self.path / "provenance.json", record_json(provenance), lasting=False)

    def settle(self, run: Run) -> None:
        """Change to a final state; the complete log is on disk before the state is."""
        write_atomic(self.path / "run.json", record_json(run), after=[*self.logs().values()])

    def keep_outputs(self, parts: Iterable[Output]) -> frozenset[str]:
        """Store the files that a task requested below `outputs/`, overwriting old ones; returns their names.

        parts  each file in order, its name relative to the job's working directory as `stream`
        """
        directory, names = self.path / "outputs", set()
        with writing(directory):
            shutil.rmtree(directory, ignore_errors=True)
            for part in parts:
                target = directory.joinpath(*_relative(part.stream))
                target.parent.mkdir(parents=True, exist_ok=True)
                append(target, part.data)
                names.add(part.stream)
        return frozenset(names)

    def cached_reading(self, key: str) -> Reading | None:
        """The reading made under the same key; None if there is none, it is older or it is damaged."""
        try:
            cached = from_json(CachedReading, read_whole(self.path / "reading.json"))
        except (
            InputError,
            UnreadableError,
            ValueError,
        ):  # a cache: whatever is wrong with it, the log is read again
            return None
        return cached.reading if cached.key == key else None

    def cache_reading(self, key: str, reading: Reading) -> None:
        """Store a reading. If the directory can't be written, the log is simply read again next time."""
        try:
            (self.path / "reading.json").touch()
        except OSError:
            return
        write_atomic(self.path / "reading.json", to_json(CachedReading(key, reading)).encode(), lasting=False)

    def sweep(self) -> None:
        """Remove files that a killed Assay process had only partly written."""
        for path in self.path.glob(".*.tmp"):
            path.unlink(missing_ok=True)


class Session:
    """One `assay run`, resumed until it is complete, or one imported set."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Session({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The session's own name: its start, UTC."""
        return self.path.name

    @property
    def id(self) -> str:
        """`suite/session`, as a person types it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def spool(self) -> Path:
        """Where the local launcher stores its jobs."""
        return self.path / "jobs"

    @property
    def systems(self) -> Path:
        """The systems file at the time, without secrets; an import has none."""
        return self.path / "systems.yaml"

    @property
    def lost_files(self) -> tuple[str, ...]:
        """Its missing files."""
        return tuple(name for name in _OWN_FILES if not _is_there(self.path / name))

    @property
    def loss(self) -> Problem | None:
        """What a missing right or file, or a damaged header, means and what to do; None if all is there.

        Raises UnreadableError if the machine can't read the header now: nothing is to be restored or removed.
        """
        if not _may_be_read(self.path):
            return Problem(
                str(self.path),
                "this user may not read it, so its runs are left out; ask its owner for the right to read it",
            )
        lost = self.lost_files
        if not lost:
            try:
                self.header  # noqa: B018 - read once, and kept
            except InputError as error:
                means = (
                    "its runs count, but it can't be resumed or reported; restore it, or remove the directory"
                )
                return Problem(error.problems[0].where, f"{error.problems[0].what}: {means}")
            return None
        what = " and ".join(lost) + (" are missing" if len(lost) > 1 else " is missing")
        if not any(self.path.glob("*/attempt-*")):
            return Problem(
                str(self.path), f"{what}, and there is no run: restore them, or remove the directory"
            )
        if lost == ("plan.json",):
            means = "its runs count, without the suite's settings; `assay run` of the same plan writes it"
            return Problem(str(self.path), f"{what}: {means}")
        means = "its runs count, but it can't be resumed or reported"
        return Problem(str(self.path), f"{what}: {means}; restore it, or remove the directory")

    @cached_property
    def header(self) -> Header:
        """Who requested what. Raises InputError if the file is damaged or from a newer version of Assay."""
        return read_record(self.path / "session.json", Header)

    def plan(self) -> Plan:
        """What was requested. Raises InputError if the file is damaged."""
        return read_record(self.path / "plan.json", Plan)

    def attempts(self) -> Iterator[Attempt]:
        """Every attempt at every trial, trials by name, attempts in their order."""
        for trial in self._trials():
            yield from self.attempts_at(trial)

    def _trials(self) -> list[str]:
        if not _may_be_read(self.path):
            return []
        return [name for name in _directories(self.path) if name != "jobs"]

    def attempts_at(self, trial_id: str) -> list[Attempt]:
        """The attempts at one trial in their order."""
        directory = self.path / trial_id
        return [Attempt(directory / f"attempt-{number}") for number in self._attempt_numbers(trial_id)]

    def _attempt_numbers(self, trial_id: str) -> list[int]:
        try:
            names = os.listdir(f"{self.path}/{trial_id}")  # noqa: PTH208 - of 100,000 trials
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name)))

    def counting(self, trial_id: str) -> list[Attempt]:
        """The attempts at one trial, without those whose failure is to be repeated."""
        before = self.header.repeated.get(trial_id, 0)
        return [attempt for attempt in self.attempts_at(trial_id) if attempt.number > before]

    def last_attempts(self) -> dict[str, Attempt]:
        """The newest attempt at each trial that has one: the one that counts."""
        newest = self._newest_numbers().items()
        return {trial: Attempt(self.path / trial / f"attempt-{number}") for trial, number in newest}

    def stamps(self) -> dict[str, str]:
        """The stamp of the newest attempt at each trial that has one."""
        path, newest = str(self.path), self._newest_numbers().items()
        return {trial: _stamp(f"{path}/{trial}/attempt-{number}", number) for trial, number in newest}

    def _newest_numbers(self) -> dict[str, int]:
        return {trial: numbers[-1] for trial in self._trials() if (numbers := self._attempt_numbers(trial))}

    def lock(self) -> AbstractContextManager[None]:
        """Hold the session, so that only one Assay process works on it. Raises BusyError."""
        return locked(self.path / "lock", self.id)

    def begin(
        self, trial: Trial, token: str, rendered: RenderedJob, inputs: Mapping[str, bytes] | None = None
    ) -> tuple[Attempt, Run]:
        """A new attempt in state SUBMITTING: intent and token are on disk when this returns.

        inputs  files that are sent and can't be made again from the trial, name → content
        """
        plan, before = self.header, self.attempts_at(trial.id)
        run = Run(
            schema=SCHEMA,
            assay_version=__version__,
            id=f"{self.id}/{trial.id}",
            suite=plan.suite,
            suite_digest=plan.suite_digest,
            plan_digest=plan.plan_digest,
            session=self.name,
            interleaved=self.design.interleaved,
            looks=self.design.looks,
            trial=trial,
            attempt=before[-1].number + 1 if before else 1,
            token=token,
            state=RunState.SUBMITTING,
            created_at=time.time(),
            declared_env=self.design.declared_env.get(trial.system, ()),
            outside_block=trial.id in plan.repeated or self._later_block_began(trial),
        )
        return self.add(run, AttemptPlan(SCHEMA, trial, rendered), inputs=inputs or {}), run

    def _later_block_began(self, trial: Trial) -> bool:
        begun = {path.name for path in self.path.iterdir()}
        after = False
        for other in self.design.trials:
            if after and other.block > trial.block and other.id in begun:
                return True
            after = after or other.id == trial.id
        return False

    def damaged(self, attempt: Attempt, why: str) -> Run:
        """An attempt with an unreadable file, as a failed run; the plans show which trial it was.

        Raises InputError if no plan does.
        """
        try:
            return replace(attempt.run(), state=RunState.FAILED, cause=why)
        except InputError:
            trial = self._planned(attempt)
        return Run(
            schema=SCHEMA,
            assay_version=__version__,
            id=attempt.run_id,
            suite=self.path.parent.name,
            suite_digest=self.design.suite_digest,
            plan_digest=self.design.digest,
            session=self.name,
            interleaved=self.design.interleaved,
            looks=self.design.looks,
            trial=trial,
            attempt=attempt.number,
            token="",
            state=RunState.FAILED,
            created_at=self.header.created_at,
            cause=why,
        )

    def _planned(self, attempt: Attempt) -> Trial:
        name = attempt.path.parent.name
        planned_trial = next((trial for trial in self.design.trials if trial.id == name), None)
        if planned_trial is None:
            raise InputError([Problem(str(self.path / "plan.json"), f"has no trial {name}")])
        return planned_trial

    @cached_property
    def design(self) -> Plan:
        """The plan, read once, for what each run inherits from it."""
        return self.plan()

    def add(
        self,
        run: Run,
        sent: AttemptPlan | None = None,
        logs: Sequence[Path] = (),
        provenance: Provenance | None = None,
        inputs: Mapping[str, bytes] | None = None,
    ) -> Attempt:
        """A new attempt with its record, what was submitted, and existing logs, all or nothing."""
        trial = self.path / safe_name(run.trial.id)
        unfinished, final = trial / f".attempt-{run.attempt}.new", trial / f"attempt-{run.attempt}"
        with writing(trial):
            trial.mkdir(exist_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)  # left by an Assay process that was killed here
            (unfinished / "logs").mkdir(parents=True)
            for source in logs:
                kept = unfinished / "logs" / safe_name(source.name)
                shutil.copyfile(source, kept)
                sync(kept)
            for name, data in (inputs or {}).items():
                (unfinished / "inputs").mkdir(exist_ok=True)
                write_lasting(unfinished / "inputs" / safe_name(name), data)
            if provenance is not None:
                write_atomic(unfinished / "provenance.json", record_json(provenance), lasting=False)
            if sent is not None:
                write_atomic(unfinished / "plan.json", record_json(sent), lasting=False)
            write_lasting(unfinished / "run.json", record_json(run))
            unfinished.rename(final)
            sync(trial, self.path)
        return Attempt(final)


def create(
    root: Path, header: Header, plan: Plan, inputs: Mapping[str, str], *, name: str | None = None
) -> Session:
    """A new session below `root`, complete when it appears.

    inputs  the user's files as text by name (`suite.yaml`, `systems.yaml`), already without secrets
    name    the session's own; None: its start, UTC
    """
    suite = root / set_name(plan.suite)
    make_directory(suite)
    with writing(root):
        started = datetime.fromtimestamp(header.created_at, UTC).strftime("%Y-%m-%dT%H%M%SZ")
        path = _free_name(suite, started if name is None else safe_name(name))
        unfinished = suite / f".{path.name}.new"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        write_lasting(unfinished / "session.json", record_json(header))
        write_lasting(unfinished / "plan.json", record_json(plan))
        for name, text in inputs.items():
            write_lasting(unfinished / safe_name(name), text.encode())
        unfinished.rename(path)
        sync(suite)
    return Session(path)


def choosing(root: Path, suite: str) -> AbstractContextManager[None]:
    """Hold the choice between resuming and starting anew, so that two Assay processes don't both start."""
    directory = root / set_name(suite)
    _check_clock()
    make_directory(directory)
    return locked(directory / ".lock", f"{directory}", wait_s=30)


def _check_clock() -> None:
    """Raises HostError if the time is one that no record may have, before a run is recorded with it."""
    now = time.time()
    if not 0 <= now < LATEST_TIME:
        raise HostError(
            f"this machine's clock is {now:.0f} s from the beginning of 1970, but a run is of 1970 to 9998; "
            "set the clock (`date`, `timedatectl`)"
        )


def mark_finished(session: Session, finished_at: float) -> None:
    """Mark the session as complete: from now on, `assay run` starts a new one."""
    header = replace(session.header, finished_at=finished_at)
    write_atomic(session.path / "session.json", record_json(header))
    session.__dict__.pop("header", None)


def replan(session: Session, plan: Plan, inputs: Mapping[str, str]) -> None:
    """Continue under another plan. Its digest is written last: if killed before, the old one is still there.

    inputs  the user's files as text by name, already without secrets
    """
    write_atomic(session.path / "plan.json", record_json(plan))
    for name, text in inputs.items():
        write_atomic(session.path / safe_name(name), text.encode())
    write_atomic(session.path / "session.json", record_json(replace(session.header, plan_digest=plan.digest)))
    for known in ("header", "design"):
        session.__dict__.pop(known, None)


def reopen(session: Session, repeated: Mapping[str, int]) -> None:
    """Mark these trials for repetition: attempts up to the given numbers no longer count.

    In one atomic move, so that a kill afterwards leaves an ordinary unfinished session.
    """
    header = session.header
    header = replace(header, repeated={**header.repeated, **repeated}, finished_at=None)
    write_atomic(session.path / "session.json", record_json(header))
    session.__dict__.pop("header", None)


def _stamp(attempt: str, number: int) -> str:
    """The stamp of the attempt in this directory; a text, as paths take longer for 100,000 of them."""
    try:
        about = os.stat(f"{attempt}/run.json")  # noqa: PTH116
    except OSError:  # the problem is reported when the record is read
        return f"{number}-gone"
    return f"{number}-{about.st_size}-{about.st_mtime_ns}"


FIRST_RUNS = ".try"
"""Directory below that of the runs, for runs of `assay try` that only look for the figure."""


def sessions(root: Path, concerned: Callable[[str], bool] = lambda _session: True) -> Iterator[Session]:
    """Every session below the runs directory, by suite, oldest first; including those with missing files.

    concerned  whether a session is wanted, by `suite/session`; the others are not looked at

    One that this user may not read has no trials, and `loss` says why. The sessions of a suite that this user
    may not list are one, `suite/*`.
    """
    for suite in _directories(root):
        yield from _sessions_at(root / suite, concerned)


def all_of(root: Path, suite: str) -> list[Session]:
    """One suite's sessions, oldest first; including those with missing files."""
    return list(_sessions_at(root / suite, lambda _session: True))


def _sessions_at(suite: Path, concerned: Callable[[str], bool]) -> Iterator[Session]:
    if suite.is_dir() and not _may_be_read(suite):
        if concerned(f"{suite.name}/*"):
            yield Session(suite / "*")
        return
    for name in _directories(suite):
        if concerned(f"{suite.name}/{name}") and _is_session(suite / name):
            yield Session(suite / name)


def _directories(path: Path) -> list[str]:
    """The sorted names of the directories in it, without hidden ones; empty if it does not exist."""
    try:
        with os.scandir(path) as entries:  # says what is a directory without a look at each
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except FileNotFoundError:
        return []


def sessions_of(root: Path, suite: str) -> list[Session]:
    """One suite's sessions that have their header, oldest first."""
    return [
        Session(p.parent) for p in sorted((root / suite).glob("*/session.json")) if p.parent.name[0] != "."
    ]


def _is_session(path: Path) -> bool:
    files = (path / name for name in _OWN_FILES)
    named = _NAME.fullmatch(path.name) is not None
    kept = named or any(map(_is_there, files)) or any(path.glob("*/attempt-*"))
    return kept or not _may_be_read(path)


def _is_there(path: Path) -> bool:
    """Whether the name exists. Raises OSError if the machine can't tell."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True


def _may_be_read(directory: Path) -> bool:
    """Whether this user has the right. Raises OSError if the machine can't tell."""
    if os.access(directory, os.R_OK | os.X_OK, effective_ids=True):
        return True
    with suppress(FileNotFoundError, PermissionError):
        os.scandir(directory).close()  # `access` says no for whatever reason
    return False


def _free_name(suite: Path, stem: str) -> Path:
    path, again = suite / stem, 2
    while path.exists():
        path, again = suite / f"{stem}.{again}", again + 1
    return path


def _relative(name: str) -> tuple[str, ...]:
    """The parts of a path that stays below the directory it is relative to."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise InputError(f"{name!r}: an output must be below the working directory of its job")
    return parts


def _natural(path: Path) -> list[int | str]:
    """Sort key: rank-2 before rank-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]
