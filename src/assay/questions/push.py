"""Sessions sent to another Assay's server, and received there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from assay.errors import AssayError, BusyError, HostError, InputError, Problem
from assay.questions.evidence import runs_directory, updated
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reference,
    argument,
    function_of_many,
    option,
    progress_line,
    question,
)
from assay.units import human
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.remote import AssayServer, ServerAnswer
    from assay.rundir.merging import MergeResult
    from assay.rundir.receiving import PushManifest, PushState
    from assay.rundir.session import Session
    from assay.view.blocks import Block

PATH = "/api/v1/push"
MOST_TRIES = 5  # of a part, if the connection breaks
PAUSE_S = 0.5  # before the second try; it doubles


@dataclass(frozen=True)
class PushedSession:
    """A session that the server has now.

    added  False if it had the session already
    bytes  sent by this call: less than its size if an earlier call was stopped
    """

    session: str
    added: bool
    bytes: int


@dataclass(frozen=True)
class PushedPart:
    """A server's answer to a part: where to continue."""

    offset: Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True)
class PushedWhole:
    """A server's answer to the end of an upload: whether the session is new there."""

    added: bool


def _sent_share(session: str, sent: int, total: int) -> str:
    """`nightly/2026-03-01T021500Z: 12 % of 3.4 GB`."""
    return f"{session}: {100 * sent // total if total else 100} % of {human(float(total), 'B')}"


@question
class Push(Question):
    """Send sessions to the server at URL, which takes them as `assay import` would.

    RUN is a suite or suite/session; by default, every session here that is not running. A session that the
    server has already is not sent. If it is stopped, the same command continues where it was. The server must
    allow it: `assay serve --allow push --tokens FILE`.

    \b
    Examples:
      assay push https://assay.example.com --token-file ~/.config/assay/token
      assay push http://127.0.0.1:8080 nightly

    \b
    Exit codes: 0 the server has them; 4 it refuses one, or a name matches nothing; 5 it does not answer.
    """

    url: str = argument()
    references: tuple[str, ...] = argument(default=(), metavar="[RUN]…")
    token_file: Reference | None = option(
        "File with your token, mode 0600. [default: $ASSAY_TOKEN]", default=None, file=True
    )
    ca_file: Reference | None = option(
        "Certificates that vouch for the server, in PEM. [default: the system's]", default=None, file=True
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    tell: Callable[[str, int, int], object] | None = progress_line(_sent_share, default=None)

    def answer(self) -> PushResult:
        """Sends one session after the other; the same question continues where it was stopped.

        Raises InputError for what the server refuses, HostError if it does not answer.
        """
        from assay.remote import AssayServer, token_of
        from assay.rundir.receiving import manifest_of

        token = token_of(None if self.token_file is None else Path(self.token_file))
        server = AssayServer(self.url, token, None if self.ca_file is None else Path(self.ca_file))
        sent, left_out = [], []
        for session in _sessions(runs_directory(self.runs), self.references):
            try:
                manifest = manifest_of(session)
            except InputError as error:
                left_out += [Problem(session.id, problem.what) for problem in error.problems]
                continue
            try:
                sent.append(_send(server, session, manifest, self.tell or _tell_nobody))
            except (HostError, BusyError, InputError) as error:
                if not sent:
                    raise
                there = ", ".join(pushed.session for pushed in sent)
                raise type(error)(f"{error}; the server has of this push: {there}") from error
        if self.references and left_out and not sent:
            raise InputError(left_out)
        return PushResult(tuple(sent), tuple(left_out))


push = function_of_many(Push, Push.answer)


@dataclass(frozen=True)
class PushResult(Answer):
    """The result of `push`: the sessions that the server has now, and those that can't be sent."""

    sessions: tuple[PushedSession, ...]
    left_out: tuple[Problem, ...]

    def document(self) -> dict[str, Any]:
        """Each session that the server has now, and those that can't be sent."""
        return {
            "schema": "assay.push/1",
            "sessions": [asdict(session) for session in self.sessions],
            "left_out": [asdict(session) for session in self.left_out],
        }

    def view(self) -> Iterator[Block]:
        """Each session that the server has now."""
        for session in self.sessions:
            sent = (
                f"sent, {human(float(session.bytes), 'B')}" if session.added else "the server has it already"
            )
            yield Paragraph(f"{session.session}: {sent}")

    @property
    def notes(self) -> Sequence[str]:
        """What can't be sent."""
        return [f"left out: {problem}" for problem in self.left_out]


def announce_push(manifest: bytes, *, runs: str | PathLike[str] | None = None) -> PushState:
    """Begin to receive a session, or continue: the server's side of `push`."""
    from assay.rundir.receiving import announce

    return announce(manifest, runs_directory(runs))


def receive_push(name: str, offset: int, part: bytes, *, runs: str | PathLike[str] | None = None) -> int:
    """Keep a part of a session; returns where to continue."""
    from assay.rundir.receiving import receive

    return receive(name, offset, part, runs_directory(runs))


def complete_push(name: str, *, runs: str | PathLike[str] | None = None) -> MergeResult:
    """Check a session that was received, and merge it as `assay import` does."""
    from assay.rundir.receiving import complete

    merged = complete(name, runs_directory(runs))
    updated(runs_directory(runs))
    return merged


def _sessions(directory: Path, references: tuple[str, ...]) -> Iterator[Session]:
    from assay.rundir import session as rundir
    from assay.rundir.files import safe_name
    from assay.rundir.session import Session

    if not references:
        yield from rundir.sessions(directory)
    for reference in references:
        suite, _, name = reference.partition("/")
        sessions = rundir.all_of(directory, safe_name(suite))
        chosen = [session for session in sessions if name in ("", session.name)]
        if not chosen:
            raise InputError(f"{directory} has no session {reference}; name a suite, or suite/session")
        yield from (Session(session.path.absolute()) for session in chosen)


def _tell_nobody(_session: str, _sent: int, _total: int) -> None:
    """Progress that nobody wants to see."""


def _send(
    server: AssayServer, session: Session, manifest: PushManifest, tell: Callable[[str, int, int], object]
) -> PushedSession:
    from assay.remote import NotAssayError
    from assay.rundir.receiving import PushState, text_of

    text = text_of(manifest)

    def announced() -> PushState:
        state = server.record(PushState, _again(lambda: server.ask("POST", PATH, body=text)))
        if state.id != sha256(text).hexdigest() or not 0 <= state.offset <= manifest.bytes:
            raise NotAssayError(server.url, "it names another upload")
        return state

    state = announced()
    if state.present:
        return PushedSession(session.id, added=False, bytes=0)
    try:
        return _send_content(server, session, manifest, state, tell)
    except InputError:
        if announced().present:  # somebody else sent the same session meanwhile
            return PushedSession(session.id, added=False, bytes=0)
        raise


def _send_content(
    server: AssayServer,
    session: Session,
    manifest: PushManifest,
    state: PushState,
    tell: Callable[[str, int, int], object],
) -> PushedSession:
    from assay.rundir.receiving import parts_of

    name, offset, sent, total = state.id, state.offset, 0, manifest.bytes
    stalls = 0
    while offset < total:
        for part in parts_of(session, manifest, offset):
            tell(session.id, offset, total)
            answer = _again(partial(server.ask, "PUT", f"{PATH}/{name}", {"at": offset}, part))
            begun, offset = offset, server.record(PushedPart, answer).offset
            stalls = stalls + 1 if offset <= begun else 0
            if offset > total or stalls > MOST_TRIES:
                raise HostError(f"{session.id}: the server keeps nothing of what it gets; push again later")
            if answer.status == 409 or offset != begun + len(part):  # it has other parts: continue from there
                break
            sent += len(part)
    tell(session.id, total, total)
    answer = _again(lambda: server.ask("POST", f"{PATH}/{name}/complete"))
    if answer.status == 409:
        raise HostError(f"{session.id}: the server lost a part; push again to continue")
    return PushedSession(session.id, added=server.record(PushedWhole, answer).added, bytes=sent)


def _again(ask: Callable[[], ServerAnswer]) -> ServerAnswer:
    """The answer, asked for again if the connection breaks. Raises AssayError after several tries."""
    for attempt in range(MOST_TRIES):
        try:
            return ask()
        except (HostError, BusyError) as error:
            last: AssayError = error
            time.sleep(PAUSE_S * 2**attempt)
    raise HostError(f"{last}. What arrived is kept: the same command continues")
