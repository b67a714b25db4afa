"""OpenSSH itself, with the user's config, and one connection per host that all calls share."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from assay import payload_files, shell
from assay.errors import LaunchError, PlatformError
from assay.launch.frames import Frame, FrameReader, Joiner
from assay.launch.launcher import JobRefusedError
from assay.launch.ssh import SshSystem
from assay.records import NODE_STREAMS, Extent, Output, Scalar
from assay.shell import CompletedCommand
from assay_payloads.keeping.ssh_host import MARK

CONNECT_S = 10
CALL_S = 120.0
UNREACHABLE_EXIT = 255  # ssh's own failures, for any reason
_OPTIONS = {
    "BatchMode": "yes",  # nobody is there to type a password
    "ConnectTimeout": str(CONNECT_S),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
}
_PERSIST_S = 60
_PROGRAM = "assay_payloads.keeping.ssh_host"
# Makes modules from the sources in its first argument; the last one handles the call
_LOADER = """\
import json, sys, types
for name, source in json.loads(sys.argv.pop(1)):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main(*sys.argv[1:])
"""
# ssh's message → what to do
REMEDIES: Final[tuple[tuple[str, str], ...]] = (
    (
        r"host key verification failed|remote host identification has changed",
        "its host key is unknown or has changed: check it, and connect once manually: ssh {host}",
    ),
    (
        r"permission denied",
        "it accepts none of your keys: ssh-copy-id {host}, or name the key in `identity`; a key with a "
        "passphrase must be in ssh-agent",
    ),
    (r"could not resolve hostname", "correct `hosts`, or give the name a HostName in ~/.ssh/config"),
    (
        r"connection refused",
        "no ssh server is listening there: start it (systemctl start sshd), or correct `port`",
    ),
    (r"timed out|no route to host|network is unreachable", "check that it is up: ping {host}"),
    (
        r"identity file .* not accessible|bad configuration option|can't open user config",
        "correct it in the system",
    ),
)
_CLOCK_ROUNDS = 7  # the fastest response is the most accurate


class HostUnreachableError(PlatformError):
    """A host does not respond or denies the login."""


@dataclass(frozen=True)
class Connection:
    """A connection to one host."""

    host: str
    system: SshSystem

    def ask(
        self, what: str, directory: str, *arguments: str, stdin: bytes = b"", timeout_s: float = CALL_S
    ) -> Any:
        """The response of assay_payloads/keeping/ssh_host.py.

        Raises HostUnreachableError without a connection, LaunchError if the response is an error or missing.
        """
        self.open()
        done = _run(self.program(what, directory, *arguments), timeout_s, stdin)
        if done.exit_code == UNREACHABLE_EXIT:
            raise HostUnreachableError(unreachable(self.host, done.stderr))
        if MARK not in done.stdout:
            raise JobRefusedError(no_answer(self.host, self.system.python, done), Extent.SYSTEM)
        return _answer(self.host, done.stdout)

    def argv(self, command: Sequence[str]) -> list[str]:
        """The command line that runs a command there, each word unchanged."""
        return [*self._ssh(), "-o", "ControlMaster=no", "-T", "--", self.host, shlex.join(command)]

    def program(self, what: str, directory: str, *arguments: str) -> list[str]:
        """The command line that calls assay_payloads/keeping/ssh_host.py there."""
        python = [self.system.python, "-I", "-S", "-c", _LOADER, _sources()]
        return self.argv([*python, what, directory, *arguments])

    def open(self) -> None:
        """Open the connection that calls share, unless it exists. Raises HostUnreachableError."""
        if _run([*self._ssh(), "-O", "check", "--", self.host], CONNECT_S).ok:
            return
        argv = [*self._ssh(), "-M", "-N", "-f", "-o", f"ControlPersist={_PERSIST_S}", "--", self.host]
        command = _run(argv, 3 * CONNECT_S)
        if not command.ok:
            raise HostUnreachableError(unreachable(self.host, command.stderr))

    def address(self) -> str:
        """Name or address of the host according to the ssh config."""
        config = _run([*self._ssh(), "-G", "--", self.host], CONNECT_S).stdout
        fields = dict(line.split(" ", 1) for line in config.splitlines() if " " in line)
        return fields.get("hostname", self.host.rpartition("@")[2])

    def files(self, directory: str, patterns: Sequence[str]) -> Iterator[Frame]:
        """The files that the job wrote there, as frames. Raises LaunchError if they can't be fetched."""
        self.open()
        argv = self.program("files", directory, *patterns)
        reader, answer = FrameReader(), b""
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            assert isinstance(process.stdout, io.BufferedReader)
            while data := process.stdout.read1(1 << 18):
                for item in reader.feed(data):
                    if isinstance(item, Frame):
                        yield item
                    elif item.line.startswith(MARK.encode()):
                        answer = item.line
        if not answer:
            raise HostUnreachableError(f"{self.host}: the connection broke while files were being fetched")
        _answer(self.host, answer.decode())

    def _ssh(self) -> list[str]:
        system = self.system
        options = {
            "-F": system.config,
            "-p": None if system.port is None else str(system.port),
            "-l": system.user,
            "-i": system.identity,
        }
        argv = ["ssh"]
        for flag, value in options.items():
            if value is not None:
                argv += [flag, value]
        for name, value in {**_OPTIONS, "ControlPath": f"{_private_directory()}/%C"}.items():
            argv += ["-o", f"{name}={value}"]
        return argv


@cache
def _sources() -> str:
    """The program and its imports, in the loader's form: by module, each after the modules it imports."""
    sources = payload_files.files(_PROGRAM)  # path order is import order for these few files
    return json.dumps([(payload_files.module_of(path), source.decode()) for path, source in sources.items()])


def _run(argv: Sequence[str], timeout_s: float, stdin: bytes = b"") -> shell.CompletedCommand:
    try:
        return shell.run(argv, timeout_s=timeout_s, stdin=stdin)
    except shell.ProgramMissingError as error:
        raise PlatformError(
            "ssh is not installed on this machine: as root, apt-get install openssh-client"
        ) from error
    except shell.CommandTimeoutError as error:
        raise HostUnreachableError(str(error)) from error


def _answer(host: str, printed: str) -> Any:
    _, _, line = printed.rpartition(MARK)
    answer = json.loads(line.splitlines()[0])
    if "error" in answer:
        raise JobRefusedError(refused(host, answer["error"]), Extent.SYSTEM)
    return answer


def _private_directory() -> Path:
    """The directory of the connections' sockets: private, and short, since a socket's path has 108 bytes."""
    place = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"assay-ssh-{os.getuid()}"  # noqa: S108
    place.mkdir(mode=0o700, exist_ok=True)
    facts = place.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise LaunchError(f"{place} is not a private directory of yours; remove it")
    return place


def unreachable(host: str, stderr: str) -> str:
    """Why ssh could not connect."""
    message = _last_line(stderr)
    for pattern, remedy in REMEDIES:
        if re.search(pattern, stderr, re.IGNORECASE):
            return f"{host} can't be reached: {message}; {remedy.format(host=host)}"
    return f"{host} can't be reached: {message}"


def no_answer(host: str, python: str, done: CompletedCommand) -> str:
    """Why a reachable host did not answer."""
    message = _last_line(done.stderr)
    if done.exit_code in (126, 127) or "not found" in message:
        return (
            f"{host}: can't run {python} there ({message}); set `python` to an interpreter that all hosts "
            "have"
        )
    return (
        f"{host}: no answer from {python} (exit code {done.exit_code}): {message}; it must be Python 3.9 or "
        "newer"
    )


def refused(host: str, error: str) -> str:
    """Why the host's disk or an earlier job refused it."""
    if "No space left" in error or "quota" in error.lower():
        return f"{host}: {error}; free up space there, or set the system's `directory` to another one"
    if "Permission denied" in error or "Read-only" in error:
        return f"{host}: {error}; set `directory` to one that you may write to"
    return f"{host}: {error}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"


def clock_offset(connection: Connection) -> dict[str, Scalar]:
    """`clock.offset_s`, positive if the host is ahead, and its maximum error.

    Empty if the host does not respond.
    """
    try:
        connection.open()
    except HostUnreachableError:
        return {}
    with subprocess.Popen(
        connection.program("clock", "~"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        rounds = [answer for _ in range(_CLOCK_ROUNDS) if (answer := _ask_clock(process)) is not None]
    if not rounds:
        return {}
    error_s, offset_s = min(rounds)
    return {"clock.offset_s": round(offset_s, 6), "clock.offset_error_s": round(error_s, 6)}


def _ask_clock(process: subprocess.Popen[str]) -> tuple[float, float] | None:
    """Half the round-trip time, and the offset of the reported time from its midpoint."""
    assert process.stdin is not None
    assert process.stdout is not None
    began, asked_at = time.monotonic(), time.time()
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in process.stdout:
        if line.startswith("time "):
            half_s = (time.monotonic() - began) / 2
            return half_s, float(line.split()[1]) - (asked_at + half_s)
    return None


READ_BYTES = 1 << 18
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0


class Listener:
    """One host's share of a job, as it arrives.

    over       it has ended, or nothing of it is left; nothing more will arrive
    ended      how, according to its keeper; None until then, or if no keeper is left to report it
    waits_for  what its keeper waits for before it starts the ranks; "" if it does not wait
    trouble    why nothing arrives at the moment, as text; "" while it is connected
    heard_at   monotonic time at which the host was last heard from
    """

    def __init__(self, connection: Connection, directory: str, node: int, kept: Mapping[str, int]) -> None:
        self.connection, self.directory, self.node = connection, directory, node
        self.over = self.started = False
        self.ended: dict[str, Any] | None = None
        self.trouble = self.waits_for = ""
        self.heard_at = time.monotonic()
        self._joiner = Joiner({name: size for name, size in kept.items() if _is_output(name)})
        self._end_bytes = b""
        self._pause_s, self._again_at = FIRST_PAUSE_S, 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (until closed)
        self._connect()

    @property
    def failed(self) -> bool:
        """Whether it failed, so that the other hosts' shares are in vain."""
        return self.over and (self.ended is None or self.ended["state"] != "succeeded")

    def give_up(self) -> None:
        """Stop waiting for the host."""
        self.over = True

    def fileno(self) -> int | None:
        """What to wait for; None while it is not connected."""
        if self._process is None or self._process.stdout is None:
            return None
        return self._process.stdout.fileno()

    def hear(self) -> Iterator[Output]:
        """What has arrived since; reconnects if the connection broke."""
        if self._process is None:
            if not self.over and time.monotonic() >= self._again_at:
                self._connect()
            return
        data = self._read()
        if data is None:
            return
        if not data:
            self._broke()
            return
        self.heard_at, self.trouble, self._pause_s = time.monotonic(), "", FIRST_PAUSE_S
        for item in self._reader.feed(data):
            if isinstance(item, Frame):
                new = self._join(item)
                if new is not None:
                    yield new
            elif item.waits_for:
                self.waits_for = item.waits_for
            elif item.line.startswith(MARK.encode()):
                self._came_to_its_end()

    def close(self) -> None:
        """Stop listening; the job continues."""
        if self._process is not None:
            self._process.kill()
            self._drop()
        self._stderr.close()

    def _connect(self) -> None:
        self._reader = FrameReader()
        self._stderr.seek(0)
        self._stderr.truncate()
        argv = self.connection.program("follow", self.directory, json.dumps(self._joiner.taken))
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, start_new_session=True
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)

    def _read(self) -> bytes | None:
        number = self.fileno()
        assert number is not None
        try:
            return os.read(number, READ_BYTES)
        except BlockingIOError:
            return None

    def _join(self, frame: Frame) -> Output | None:
        if frame.stream == f"started-{self.node}":
            self.started, self.waits_for = True, ""
        elif frame.stream == f"ended-{self.node}":
            self._end_bytes = self._end_bytes[: frame.offset] + frame.data
        elif _is_output(frame.stream):
            new = self._joiner.join(frame)
            return Output(frame.stream, new) if new else None
        return None

    def _came_to_its_end(self) -> None:
        """The host has sent everything; if there is a gap, read again from before it."""
        self._drop()
        if self._joiner.gaps:
            self._joiner.gaps.clear()
            return
        self.over = True
        self.ended = json.loads(self._end_bytes) if self._end_bytes else None

    def _broke(self) -> None:
        """Record why, and try again later."""
        self._drop()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace")
        self.trouble = unreachable(self.connection.host, stderr)
        self._again_at = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _drop(self) -> None:
        assert self._process is not None
        with self._process as process:
            process.kill()
        self._process = None


def _is_output(stream: str) -> bool:
    return stream.startswith(("rank-", *NODE_STREAMS))
