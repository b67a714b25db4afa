"""A Slurm cluster as a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.launch.launcher import Launcher
from assay.launch.platform import (
    Binding,
    DoctorRequest,
    Examination,
    KeepOffMethod,
    Losses,
    Member,
    NodeAccess,
    NodeQuery,
    Platform,
)
from assay.launch.slurm.options import SlurmSystem


def _launcher(system: SlurmSystem, directory: Path) -> Launcher:
    from assay.launch.slurm.launcher import SlurmLauncher

    return SlurmLauncher(system, directory)


def _doctor(system: SlurmSystem, request: DoctorRequest) -> Examination:
    from assay.launch.slurm.doctor import examine, facts_of

    request.report("Querying Slurm and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def _members(system: SlurmSystem, query: NodeQuery) -> Sequence[Member]:
    from assay.launch.slurm.nodes import members

    return members(system, query)


def _keep_off(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> Sequence[KeepOffMethod]:
    from assay.launch.slurm.nodes import keep_off_methods

    return keep_off_methods(definition, slow)


PLATFORM = Platform(
    SlurmSystem, _launcher, _doctor, NodeAccess(_members, Binding("nodelist", joined_by=","), _keep_off)
)
