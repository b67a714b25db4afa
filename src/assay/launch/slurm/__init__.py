"""A Slurm cluster as a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses
from assay.launch.launcher import Launcher
from assay.launch.nodes import Binding, Member, NodeQuery
from assay.launch.platform import DoctorRequest, Examination, NodeAccess, Platform
from assay.launch.slurm.options import SlurmSystem


def _launcher(system: SlurmSystem, directory: Path) -> Launcher:
    from assay.launch.slurm.launcher import SlurmLauncher

    return SlurmLauncher(system, directory)


def _doctor(system: SlurmSystem, request: DoctorRequest) -> Examination:
    from assay.launch.slurm.doctor import examine
    from assay.launch.slurm.facts import facts_of

    request.report("Querying Slurm and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def _members(system: SlurmSystem, query: NodeQuery) -> Sequence[Member]:
    from assay.launch.slurm.members import members

    return members(system, query)


def _keep_off(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> Sequence[KeepOffMethod]:
    from assay.launch.slurm.keep_off import ways

    return ways(definition, slow)


PLATFORM = Platform(
    SlurmSystem, _launcher, _doctor, NodeAccess(_members, Binding("nodelist", joined_by=","), _keep_off)
)
