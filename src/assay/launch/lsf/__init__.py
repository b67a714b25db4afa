"""An LSF cluster as a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.launch.keep_off import KeepOffMethod, Losses
from assay.launch.launcher import Launcher
from assay.launch.lsf.options import LsfSystem
from assay.launch.nodes import Binding, Member, NodeQuery
from assay.launch.platform import DoctorRequest, Examination, NodeAccess, Platform


def _launcher(system: LsfSystem, directory: Path) -> Launcher:
    from assay.launch.lsf.launcher import LsfLauncher

    return LsfLauncher(system, directory)


def _doctor(system: LsfSystem, request: DoctorRequest) -> Examination:
    from assay.launch.lsf.doctor import examine
    from assay.launch.lsf.facts import facts_of

    request.report("Querying LSF and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def _members(system: LsfSystem, query: NodeQuery) -> Sequence[Member]:
    from assay.launch.lsf.members import members

    return members(system, query)


def _keep_off(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> Sequence[KeepOffMethod]:
    from assay.launch.lsf.keep_off import ways

    return ways(definition, slow)


PLATFORM = Platform(LsfSystem, _launcher, _doctor, NodeAccess(_members, Binding("hosts"), _keep_off))
