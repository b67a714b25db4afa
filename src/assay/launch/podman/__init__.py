"""Containers on this machine as a platform, started by Podman; Docker accepts the same commands."""

from __future__ import annotations

from pathlib import Path

from assay.launch.launcher import Launcher
from assay.launch.platform import DoctorRequest, Examination, Platform
from assay.launch.podman.options import ContainerSystem


def containers(program: str) -> Platform[ContainerSystem]:
    """The platform of containers started by this program: podman or docker."""

    def launcher(system: ContainerSystem, directory: Path) -> Launcher:
        from assay.launch.podman.launcher import PodmanLauncher

        return PodmanLauncher(program, system, directory)

    def doctor(system: ContainerSystem, request: DoctorRequest) -> Examination:
        from assay.launch.podman.doctor import examine, facts_of

        request.report(f"Querying {program} and importing torch in a container …")
        facts = facts_of(program, system, request.directory, request.data)
        return Examination(facts, examine(facts))

    return Platform(ContainerSystem, launcher, doctor)


PLATFORM = containers("podman")
