"""OpenSSH itself, with the user's config, and one connection per host that all calls share."""

from __future__ import annotations

import io
import json
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay import payload_files, shell
from assay.errors import LaunchError, PlatformError
from assay.launch.frames import Frame, FrameReader
from assay.launch.launcher import JobRefusedError
from assay.launch.ssh import refusals
from assay.launch.ssh.options import SshSystem
from assay.records import Extent
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
            raise HostUnreachableError(refusals.unreachable(self.host, done.stderr))
        if MARK not in done.stdout:
            raise JobRefusedError(refusals.no_answer(self.host, self.system.python, done), Extent.SYSTEM)
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
            raise HostUnreachableError(refusals.unreachable(self.host, command.stderr))

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
        raise JobRefusedError(refusals.refused(host, answer["error"]), Extent.SYSTEM)
    return answer


def _private_directory() -> Path:
    """The directory of the connections' sockets: private, and short, since a socket's path has 108 bytes."""
    place = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"assay-ssh-{os.getuid()}"  # noqa: S108
    place.mkdir(mode=0o700, exist_ok=True)
    facts = place.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise LaunchError(f"{place} is not a private directory of yours; remove it")
    return place
