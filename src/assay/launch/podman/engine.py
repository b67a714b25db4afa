"""The command `podman` or `docker`, as far as a job needs it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from assay import shell
from assay.errors import LaunchError, PlatformError
from assay.launch import processes
from assay.records import Scalar

ANSWER_S = 120.0  # podman responds in 0.1 s, but another process's pull may lock its storage
INSTALL: Mapping[str, str] = {
    "podman": "install it (as root: apt-get install podman, or dnf install podman)",
    "docker": "install Docker Engine (docs.docker.com/engine/install), or use launcher podman",
}


@dataclass(frozen=True)
class Container:
    """A container when it was last seen.

    pid          of its first process, on this machine; None if it is not running
    start_ticks  that distinguish the process from a later one with its ID
    exit_code    None if it has not ended
    """

    pid: int | None
    start_ticks: int | None
    exit_code: int | None
    facts: Mapping[str, Scalar]

    def runs(self) -> bool:
        """Whether the process is alive. Asks the kernel, not the engine, which costs the job nothing."""
        if self.pid is None or self.start_ticks is None:
            return False
        return processes.runs(self.pid, self.start_ticks)


@dataclass(frozen=True)
class Engine:
    """One of the two programs."""

    program: str

    def ask(self, *arguments: str) -> shell.CompletedCommand:
        """Its response, whatever the exit code. Raises PlatformError if it is not installed.

        It runs in a directory that nobody works in: conmon writes a file `oom` where podman was started
        when a container runs out of memory.
        """
        try:
            return shell.run([self.program, *arguments], timeout_s=ANSWER_S, cwd=Path(tempfile.gettempdir()))
        except shell.ProgramMissingError as error:
            remedy = INSTALL[self.program]
            raise PlatformError(f"{self.program} is not installed on this machine: {remedy}") from error

    def output(self, *arguments: str) -> str:
        """Its response. Raises LaunchError with its own words if it refuses."""
        answer = self.ask(*arguments)
        if not answer.ok:
            raise LaunchError(f"{self.program} {arguments[0]}: {last_line(answer.stderr)}")
        return answer.stdout.strip()

    @cached_property
    def version(self) -> str:
        """The program's own version line: `podman version 4.3.1`."""
        return self.output("--version")

    def container(self, name: str) -> Container | None:
        """What it knows about a container; None if it does not exist."""
        inspected = self._inspected(name)
        return None if inspected is None else _container(inspected, self.version)

    def _inspected(self, name: str) -> Mapping[str, Any] | None:
        answer = self.ask("container", "inspect", name)
        if answer.ok:
            described: Mapping[str, Any] = json.loads(answer.stdout)[0]
            return described
        if "no such container" in answer.stderr.lower():
            return None
        raise LaunchError(f"{self.program} container inspect: {last_line(answer.stderr)}")

    def labeled(self, label: str) -> list[tuple[str, str, Container]]:
        """Every container with this label: the label's value, the name, what the engine knows of it.

        A container that is removed in the meantime is left out. Raises LaunchError if the program refuses.
        """
        names = self.output("ps", "--all", f"--filter=label={label}", "--format={{.Names}}").split()
        about = [(name, inspected) for name in names if (inspected := self._inspected(name)) is not None]
        return [
            (inspected["Config"]["Labels"][label], name, _container(inspected, self.version))
            for name, inspected in about
        ]

    def signal(self, name: str, number: str) -> None:
        """Send a signal to a container's first process; do nothing if it has ended."""
        self.ask("kill", f"--signal={number}", name)

    def was_killed(self, name: str) -> bool:
        """Whether somebody used it to signal a container. Also False if it keeps no events."""
        until_now = ("--since=0", f"--until={time.time():.0f}")  # which podman 4.3 ignores
        past = ("--stream=false",) if self.program == "podman" else until_now
        answer = self.ask("events", *past, f"--filter=container={name}", "--filter=event=kill")
        return answer.ok and bool(answer.stdout.strip())

    def remove(self, name: str) -> None:
        """Remove a container, ended or not; do nothing if it does not exist."""
        answer = self.ask("rm", "--force", "--volumes", name)
        if not answer.ok and "no such container" not in answer.stderr.lower():
            raise LaunchError(f"{self.program} rm {name}: {last_line(answer.stderr)}")


def last_line(text: str) -> str:
    """Its last line, without a leading `Error:`."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    own_lines = [line for line in lines if not line.startswith(("See '", "Run '"))] or ["it printed nothing"]
    return own_lines[-1].removeprefix("Error: ")


def _container(inspected: Mapping[str, Any], version: str) -> Container:
    state = inspected["State"]
    pid = state["Pid"] or None
    ended = not (state["Running"] or state["Status"] in ("created", "paused"))
    return Container(
        pid,
        processes.start_ticks(pid) if pid else None,
        state["ExitCode"] if ended else None,
        dict(_facts(inspected, version)),
    )


def _facts(inspected: Mapping[str, Any], version: str) -> Iterator[tuple[str, Scalar]]:
    """What a figure may depend on and only the engine knows; the probe inside reports limits."""
    yield "container.engine", version
    yield "container.runtime", inspected.get("OCIRuntime") or inspected["HostConfig"].get("Runtime")
    yield "container.image", inspected.get("ImageName") or inspected["Config"]["Image"]
    yield "container.image_id", inspected["Image"].removeprefix("sha256:")
    if "ImageDigest" in inspected:  # docker reports the manifest's digest only for pulled images
        yield "container.image_digest", inspected["ImageDigest"]
    yield "container.network", inspected["HostConfig"]["NetworkMode"]
    yield "container.ipc", inspected["HostConfig"].get("IpcMode")
    yield "container.shm_bytes", inspected["HostConfig"].get("ShmSize")
