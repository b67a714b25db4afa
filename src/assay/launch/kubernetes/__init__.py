"""A Kubernetes or OpenShift cluster as a platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.launch.kubernetes.options import KubernetesSystem
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


def _launcher(system: KubernetesSystem, directory: Path) -> Launcher:
    from assay.launch.kubernetes.launcher import KubernetesLauncher

    return KubernetesLauncher(system, directory)


def _doctor(system: KubernetesSystem, request: DoctorRequest) -> Examination:
    from assay.launch.kubernetes.doctor.checks import examine

    running = ", running pods" if request.deep or request.data is not None else ""
    request.report(f"Querying the cluster{running} …")
    return Examination(*examine(system, request.system, request.deep, request.data))


def _members(system: KubernetesSystem, query: NodeQuery) -> Sequence[Member]:
    from assay.launch.kubernetes.nodes import members

    return members(system, query)


def _keep_off(definition: Mapping[str, Any], slow: Mapping[str, Losses]) -> Sequence[KeepOffMethod]:
    from assay.launch.kubernetes.nodes import keep_off_methods

    return keep_off_methods(definition, slow)


PLATFORM = Platform(KubernetesSystem, _launcher, _doctor, NodeAccess(_members, Binding("nodes"), _keep_off))
