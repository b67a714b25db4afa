"""Containers on this machine as a platform, started by Podman; Docker accepts the same commands."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from assay.launch import job_spec
from assay.launch.job_spec import HOST_PYTHON, HOST_PYTHON_HELP, host_python
from assay.launch.platform import Platform, late

_SIZE = re.compile(r"\d+(\.\d+)?[bkmg]?", re.IGNORECASE)
_LIMIT = re.compile(r"(-1|\d+)(:(-1|\d+))?")


def _size(text: str) -> str:
    if _SIZE.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a size; write a number and b, k, m or g, like 8g")
    return text


def _ulimits(limits: Mapping[str, int | str]) -> Mapping[str, int | str]:
    for name, limit in limits.items():
        if _LIMIT.fullmatch(str(limit)) is None:
            raise ValueError(f"{name}: {limit!r} is not a limit; write a number, soft:hard, or -1 for none")
    return limits


def _volume(text: str) -> str:
    parts = text.split(":")
    places, mode = (parts[:-1], parts[-1]) if parts[-1] in ("ro", "rw") else (parts, "ro")
    if not 1 <= len(places) <= 2 or not all(PurePosixPath(place).is_absolute() for place in places):
        raise ValueError(
            f"{text!r} is not a volume; write /host/path or /host/path:/inside, with :rw to allow writing"
        )
    return f"{places[0]}:{places[-1]}:{mode}"


Size = Annotated[str, AfterValidator(_size)]
Volume = Annotated[str, AfterValidator(_volume)]


class ContainerSystem(BaseModel):
    """The options of containers on this machine. Podman and Docker accept the same flags."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = 1

    image: str | None = Field(
        None, description="Image of the trials; default: the workload's. Assay does not pull it."
    )
    python: str = Field(
        "python3", description=f"Interpreter of the trials inside the container. {HOST_PYTHON_HELP}."
    )
    env: job_spec.Env = Field(default_factory=dict, description=job_spec.ENV_HELP)
    volumes: tuple[Volume, ...] = Field(
        (),
        description="Paths of this machine to mount into the container, read-only at the same path: /data, "
        "/data:/inside, /scratch:/scratch:rw.",
    )
    devices: tuple[str, ...] = Field(
        (), description="Devices: a path, or a CDI name like nvidia.com/gpu=all."
    )
    network: str = Field(
        "host", description="Network of the container: host, bridge, none, or the name of a network."
    )
    ipc: str | None = Field(None, description="IPC namespace: host, private, or shareable.")
    shm_size: Size | None = Field(
        None, description="Size of /dev/shm, like 8g; default: the platform's, 64 MB."
    )
    ulimits: Annotated[dict[str, int | str], AfterValidator(_ulimits)] = Field(
        default_factory=dict, description="Resource limits: {memlock: -1, nofile: 16384}. -1: no limit."
    )
    cpus: float | None = Field(
        None, gt=0, description="CPU time, in cores. A quota throttles; cpuset gives whole cores."
    )
    cpuset: str | None = Field(None, description="Cores that the container may use, like 0-15.")
    memory: Size | None = Field(None, description="Memory limit, like 64g.")
    user: str | None = Field(
        None,
        description="User and group inside, like 1000:1000; default: the owner of the job's files. "
        "If the user is a number and Assay runs as root, the files are given to it.",
    )
    args: tuple[str, ...] = Field(
        (), description="Further flags of podman run or docker run: [--cap-add=IPC_LOCK]."
    )
    pin_cpus: bool = Field(False, description=job_spec.PIN_HELP)
    grace: job_spec.Grace = Field(5.0, description=job_spec.GRACE_HELP)


def with_host_python(system: ContainerSystem) -> ContainerSystem:
    """The system with this machine's interpreter and its directories, if it requests `python: host`."""
    if system.python != HOST_PYTHON:
        return system
    host = host_python()
    volumes = (*system.volumes, *map(_volume, host.directories))
    return system.model_copy(update={"python": host.executable, "volumes": volumes})


def flags(system: ContainerSystem, program: str) -> list[str]:
    """The flags of `podman run` and `docker run` for these options, in a fixed order."""
    return [
        f"--network={system.network}",
        "--uts=host",  # the host's name: torch looks up its own name
        "--pull=never",  # a download is not part of a trial
        "--security-opt=label=disable",  # SELinux: the volumes are the host's own files
        f"--user={system.user or _owner(program)}",
        *_optional(system),
        *system.args,
    ]


def _optional(system: ContainerSystem) -> Iterator[str]:
    for name, value in (
        ("ipc", system.ipc),
        ("shm-size", system.shm_size),
        ("cpus", None if system.cpus is None else f"{system.cpus:g}"),
        ("cpuset-cpus", system.cpuset),
        ("memory", system.memory),
    ):
        if value is not None:
            yield f"--{name}={value}"
    for name, limit in sorted(system.ulimits.items()):
        yield f"--ulimit={name}={limit}"
    for device in system.devices:
        yield f"--device={device}"
    for volume in system.volumes:
        yield f"--volume={volume}"


def hand_over(directory: Path, user: str | None) -> None:
    """Give a job's files to the user inside, if the system sets one by number; only root can."""
    match = re.fullmatch(r"(\d+)(?::(\d+))?", user or "")
    if match is None or os.getuid() != 0:
        return
    group = -1 if match[2] is None else int(match[2])  # unchanged
    for path in (directory, *directory.rglob("*")):
        os.chown(path, int(match[1]), group, follow_symlinks=False)


def _owner(program: str) -> str:
    """The owner of the job's directory, as seen inside: Podman's root is its user, Docker's the machine's."""
    return "0:0" if program == "podman" else f"{os.getuid()}:{os.getgid()}"


def _containers(program: str) -> Platform[ContainerSystem]:
    """The platform of containers started by this program."""
    launcher, doctor = (
        late("assay.launch.podman.launcher:PodmanLauncher"),
        late("assay.launch.podman.doctor:examination"),
    )
    return Platform(ContainerSystem, partial(launcher, program), partial(doctor, program))


PODMAN, DOCKER = _containers("podman"), _containers("docker")
