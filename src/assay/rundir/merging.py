"""Imports sessions that another Assay made, whole, below their own suite. Their contents are not trusted.

Only files of the run directory's layout are imported: plain ones, within bounds. Readings are not imported
but made again here from the logs, since a cache can claim what no log says.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from assay.durable import sync, write_atomic, writing
from assay.errors import InputError, Problem
from assay.inputs import sha256
from assay.records import digest_of, to_plain
from assay.rundir import session as rundir
from assay.rundir.files import public_name, record_json, safe_name, set_name
from assay.rundir.session import Session

MOST_FILES = 1_000_000
LARGEST_FILE_BYTES = 8 << 30
LARGEST_RECORD_BYTES = 256 << 20  # records are read whole; a plan of 100,000 trials is 100 MB
LARGEST_SESSION_BYTES = 64 << 30

_NAME = r"[A-Za-z0-9][A-Za-z0-9._+=@-]*"
_LAYOUT = re.compile(
    rf"(session|plan)\.json|(suite|systems)\.yaml"
    rf"|{_NAME}/attempt-[1-9]\d*/((run|plan|provenance)\.json|logs/{_NAME}|outputs/.+"
    r"|telemetry(-prometheus)?/((about|source)\.json|(node|gpu)\.parquet))"
)
_PRINTED = re.compile(r"/attempt-[1-9]\d*/(logs|outputs|telemetry(-prometheus)?)/")  # by jobs: of any length
_LEFT_OUT = re.compile(r"lock|jobs(/.*)?|.*/reading\.json|(.*/)?\..*")  # Assay's own, useless elsewhere


@dataclass(frozen=True)
class MergeResult:
    """The outcome of importing a session.

    added    False if it already existed here
    ignored  files that don't belong to a run directory
    """

    session: Session
    added: bool
    ignored: tuple[str, ...]


def is_run_directory(path: Path) -> bool:
    """Whether this directory contains sessions: a session, a suite's directory, or a whole runs directory."""
    return bool(_sessions(path))


def merge(path: Path, root: Path) -> list[MergeResult]:
    """Import every session below `path`.

    Raises InputError with every problem, before anything is written, if a session is damaged, still running,
    not plain files within the bounds, or already here with other content; HostError if there is no space.
    """
    checked: list[_Source] = []
    problems: list[Problem] = []
    for session in _sessions(path):
        try:
            checked.append(_check(session, root))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems + _how_to_leave_out(path, checked))
    return [_take(source, root) for source in checked]


def _how_to_leave_out(path: Path, checked: Sequence[_Source]) -> list[Problem]:
    if not checked:
        return []
    what = (
        f"nothing was imported; to leave out what is named above, import the other sessions by their "
        f"directories ({len(checked)} of them), such as {checked[0].session.path}"
    )
    return [Problem(str(path), what)]


@dataclass(frozen=True)
class SessionContent:
    """What a session consists of.

    files   names of the layout's files, sorted
    digest  of their content, the same wherever the session is
    """

    files: tuple[str, ...]
    digest: str


def content_of(session: Session) -> SessionContent:
    """What would be imported of a session. Raises InputError if it can't be: it is damaged, or still runs."""
    files, _ = _files(session.path)
    _check_records(session)
    return SessionContent(files, _content(session, files))


def is_layout_name(name: str) -> bool:
    """Whether a file of this name belongs to a session."""
    return ".." not in name.split("/") and _LAYOUT.fullmatch(name) is not None


def is_present(name: str, digest: str, root: Path) -> bool:
    """Whether `suite/session` is here already. Raises InputError if it is, with other content."""
    here = Session(root / name)
    if not here.path.exists():
        return False
    if _content(here, _files(here.path)[0]) != digest:
        raise InputError(f"{name} already exists here with other content; rename one of the two directories")
    return True


def _sessions(path: Path) -> list[Session]:
    patterns = ("session.json", "*/session.json", "*/*/session.json")
    files = next((sorted(path.glob(p)) for p in patterns if any(path.glob(p))), [])
    return [Session(file.parent.absolute()) for file in files if file.parent.name[:1] != "."]


@dataclass(frozen=True)
class _Source:
    """A session that may be imported: its files and the digest of their content."""

    session: Session
    files: tuple[str, ...]
    ignored: tuple[str, ...]
    content: str


def _check(session: Session, root: Path) -> _Source:
    header = session.header
    set_name(header.suite)
    safe_name(session.name)
    files, ignored = _files(session.path)
    _check_records(session)
    source = _Source(session, files, ignored, _content(session, files))
    here = Session(root / header.suite / session.name)
    if here.path.exists() and _content(here, _files(here.path)[0]) != source.content:
        raise InputError(
            [
                Problem(
                    str(session.path),
                    f"{here.id} already exists here with other content; rename one of the two directories",
                )
            ]
        )
    return source


def _check_records(session: Session) -> None:
    """Read every record. Raises InputError if one is damaged, or says that its run has not ended."""
    for attempt in session.attempts():
        run = attempt.run()
        if not run.state.final:
            what = (
                f"is {run.state.value} according to its directory; import it when `assay run` has "
                "finished there"
            )
            raise InputError([Problem(str(attempt.path), what)])
        attempt.provenance()
        if (attempt.path / "plan.json").is_file():
            attempt.sent()
    plan = session.plan()
    trial_names = {name for trial in plan.trials for name in (trial.system, trial.benchmark)}
    for name in (session.header.suite, session.name, *plan.systems, *sorted(trial_names)):
        public_name(name, str(session.path))


def _files(directory: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the layout's files, sorted, and of files that don't belong to it. Raises InputError."""
    taken: list[str] = []
    ignored: list[str] = []
    total = 0
    for name, about in _walk(directory):
        if _LEFT_OUT.fullmatch(name):
            continue
        if not _LAYOUT.fullmatch(name):
            ignored.append(name)
            continue
        where, total = str(directory / name), total + about.st_size
        if not stat.S_ISREG(about.st_mode):
            raise InputError(
                [Problem(where, "a link or special file; a run directory may contain only plain files")]
            )
        largest = LARGEST_FILE_BYTES if _PRINTED.search(name) else LARGEST_RECORD_BYTES
        if about.st_size > largest or total > LARGEST_SESSION_BYTES or len(taken) >= MOST_FILES:
            raise InputError([Problem(where, "larger than an imported run directory may be")])
        taken.append(name)
    return tuple(sorted(taken)), tuple(sorted(ignored))


def _walk(directory: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below except directories, by relative name; links are not followed."""
    waiting = [PurePosixPath()]
    while waiting:
        relative = waiting.pop()
        with os.scandir(directory / relative) as entries:
            for entry in entries:
                name = relative / entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                else:
                    yield str(name), entry.stat(follow_symlinks=False)


def _content(session: Session, files: Sequence[str]) -> str:
    """Digest of a session's content, the same here and where it was made."""
    header = to_plain(replace(session.header, content="", finished_at=None))
    digests = [[name, sha256(session.path / name)] for name in files if name != "session.json"]
    return digest_of([header, digests])


def _take(source: _Source, root: Path) -> MergeResult:
    header = source.session.header
    suite = root / header.suite
    path, unfinished = suite / source.session.name, suite / f".{source.session.name}.new"
    with rundir.choosing(root, header.suite), writing(path):
        if path.exists():
            return MergeResult(Session(path), added=False, ignored=source.ignored)
        shutil.rmtree(unfinished, ignore_errors=True)
        for name in source.files:
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.session.path / name, target, follow_symlinks=False)
            sync(target)
        # Marked as imported: this machine does not resume what another left unfinished.
        marked = replace(header, content=header.content or source.content)
        write_atomic(unfinished / "session.json", record_json(marked))
        unfinished.rename(path)
        sync(suite)
    return MergeResult(Session(path), added=True, ignored=source.ignored)
