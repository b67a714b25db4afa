"""Why Podman or Docker did not start a container, and what to do: from its exit code and message."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from assay.launch.podman.engine import last_line
from assay.launch.podman.options import ContainerSystem
from assay.records import Extent
from assay.shell import CompletedCommand

RLIMIT_NAMES: Final = {"6": "nproc", "7": "nofile", "8": "memlock"}
_NOT_RUNNABLE, _NOT_FOUND = 126, 127
_NO_ENGINE = r"docker daemon|newuidmap|subuid|user namespace"
# (what matched, the system, the image's name) → what to do
Remedy = Callable[[re.Match[str], ContainerSystem, str], str]


class Refusal(NamedTuple):
    """What went wrong, in the engine's words, and what to do; "" if unknown.

    extent  which other containers it would refuse: all have the system's options
    """

    cause: str
    remedy: str
    extent: Extent = Extent.SYSTEM

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}" if self.remedy else self.cause


def why(answer: CompletedCommand, system: ContainerSystem, image: str) -> Refusal:
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
