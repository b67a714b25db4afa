"""An LSF cluster as a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.launch.launcher import Launcher
from assay.launch.lsf.options import LsfSystem
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


def _launcher(system: LsfSystem, directory: Path) -> Launcher:
    from assay.launch.lsf.launcher import LsfLauncher

    return LsfLauncher(system, directory)


def _doctor(system: LsfSystem, request: DoctorRequest) -> Examination:
    from assay.launch.lsf.doctor import examine, facts_of

    request.report("Querying LSF and running a short job …")
    facts, nodes = facts_of(system, request.directory, request.data)
    return Examination({**facts, **nodes}, examine(facts, nodes))


def _members(system: LsfSystem, query: NodeQuery) -> Sequence[Member]:
    from assay.launch.lsf.nodes import members

    return members(system, query)


def _keep_off(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> Sequence[KeepOffMethod]:
    from assay.launch.lsf.nodes import keep_off_methods

    return keep_off_methods(definition, slow)


PLATFORM = Platform(LsfSystem, _launcher, _doctor, NodeAccess(_members, Binding("hosts"), _keep_off))
