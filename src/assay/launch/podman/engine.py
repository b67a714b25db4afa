"""The command `podman` or `docker`, as far as a job needs it."""

from __future__ import annotations

import json
import re
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay import shell
from assay.errors import LaunchError, PlatformError
from assay.launch import processes
from assay.launch.podman import ContainerSystem
from assay.records import Extent, Scalar
from assay.shell import CompletedCommand

ANSWER_S = 120.0  # podman responds in 0.1 s, but another process's pull may lock its storage
INSTALL: Mapping[str, str] = {
    "podman": "install it (as root: apt-get install podman, or dnf install podman)",
    "docker": "install Docker Engine (docs.docker.com/engine/install), or use launcher podman",
}
RLIMIT_NAMES: Final = {"6": "nproc", "7": "nofile", "8": "memlock"}
_NOT_RUNNABLE, _NOT_FOUND = 126, 127
_NO_ENGINE = r"docker daemon|newuidmap|subuid|user namespace"
# (what matched, the system, the image's name) → what to do
Remedy = Callable[[re.Match[str], ContainerSystem, str], str]


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


class Refusal(NamedTuple):
    """What went wrong, in the engine's words, and what to do; "" if unknown.

    extent  which other containers it would refuse: all have the system's options
    """

    cause: str
    remedy: str
    extent: Extent = Extent.SYSTEM

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}" if self.remedy else self.cause


def refusal_of(answer: CompletedCommand, system: ContainerSystem, image: str) -> Refusal:
    """Cause and remedy of a `run` that failed."""
    program, message = answer.argv[0], last_line(answer.stderr)
    for pattern, remedy in REMEDIES:
        match = re.search(pattern, message, re.IGNORECASE)
        if match is not None:
            extent = Extent.PLATFORM if re.search(_NO_ENGINE, message, re.IGNORECASE) else Extent.SYSTEM
            return Refusal(f"{program}: {message}", remedy(match, system, image), extent)
    if answer.exit_code == _NOT_FOUND:
        return Refusal(
            f"image {image} does not contain {system.python} ({message})", _name_python(None, system, image)
        )
    if answer.exit_code == _NOT_RUNNABLE:
        return Refusal(f"{program} could not start the container: {message}", "")
    return Refusal(f"{program} refused the container: {message}", "")


def _pull(_found: object, _system: object, image: str) -> str:
    return f"pull it first (podman pull {image}, or docker pull), or set `image` to another one"


def _name_python(_found: object, _system: object, _image: str) -> str:
    return "set `python` to an interpreter in the image, or mount the directory that has one with `volumes`"


def _limits(match: re.Match[str], system: ContainerSystem, _image: str) -> str:
    """Limits within this machine's hard limits, ready to paste."""
    name = RLIMIT_NAMES.get(match[1], f"number {match[1]}")
    if name in system.ulimits:
        return (
            f"the machine's hard limit of {name} is lower than {system.ulimits[name]}: request less in "
            "`ulimits`, or raise it for the user who runs containers (/etc/security/limits.conf)"
        )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    processes = int(Path("/proc/sys/kernel/pid_max").read_text())
    own = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = processes if own == resource.RLIM_INFINITY else min(own, processes)
    return (
        f"it requests more {name} than this machine's hard limits allow; set for the system "
        f"`ulimits: {{nofile: {files}, nproc: {processes}}}`, both of them"
    )


def _say(remedy: str) -> Remedy:
    return lambda _match, _system, _image: remedy


# pattern of the last line of the engine's standard error → what to do; tried in this order
REMEDIES: Final[tuple[tuple[str, Remedy], ...]] = (
    (r"image not known|no such image|unable to find image", _pull),
    (r"setting rlimits? .*type (\d+)", _limits),
    (
        r"unresolvable CDI devices|CDI device injection failed",
        _say("as root: nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, or correct `devices`"),
    ),
    (r"^stat (/dev/\S+)|error gathering device", _say("this device does not exist here: correct `devices`")),
    (r"statfs|bind source path does not exist", _say("this path does not exist here: correct `volumes`")),
    (r"CPUs are not available", _say("correct `cpuset`: lscpu lists the cores")),
    (r"CPUs? available", _say("correct `cpus`")),
    (r"unable to set memory limit|minimum memory limit", _say("raise `memory`")),
    (r"network .* ?not found|unable to find network", _say("correct `network`, or write network: host")),
    (
        r"controller `?\w+`? is not available|cgroup.* (delegat|permission)",
        _say("delegate the limit's cgroup controller to your user (systemd: Delegate=yes), or run as root"),
    ),
    (r"unknown flag|unknown shorthand", _say("correct `args`")),
    (r"matching entries in passwd", _say("correct `user`: a number like 1000:1000 needs no entry")),
    (
        r"docker daemon",
        _say("start it (as root: systemctl start docker) and join the group docker, or use launcher podman"),
    ),
    (
        r"newuidmap|subuid|user namespace",
        _say("rootless containers need subordinate IDs: as root, usermod --add-subuids 100000-165535 "
             "--add-subgids 100000-165535 USER"),
    ),
    (r"exec: .*(no such file|not found)", _name_python),
)  # fmt: skip
