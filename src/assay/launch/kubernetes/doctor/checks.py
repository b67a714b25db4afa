"""Every check of a Kubernetes or OpenShift cluster, in the order in which people fix things."""

from __future__ import annotations

from collections.abc import Callable

from assay.checks.check import Check, Facts, for_system
from assay.launch.kubernetes.doctor import access, namespace_checks, node_checks
from assay.launch.kubernetes.doctor import smoke as inside
from assay.launch.kubernetes.doctor.cluster_view import ClusterView
from assay.launch.kubernetes.doctor.look import look
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.wire import ApiError

CHECKS: tuple[Callable[[ClusterView], Check], ...] = (
    access.server,
    access.rights,
    access.admission,
    access.operator,
    access.level,
    access.constraints,
    access.account,
    namespace_checks.quota,
    namespace_checks.claims,
    namespace_checks.dns,
    node_checks.usable_nodes,
    node_checks.devices,
    node_checks.labels,
    node_checks.alike,
    node_checks.cpu_manager,
    node_checks.server_clock,
    node_checks.node_clocks,
)


def examine(
    system: KubernetesSystem, quoted_name: str, deep: bool = False, data: str | None = None
) -> tuple[Facts, tuple[Check, ...]]:
    """What the cluster reports, and what the checks make of it; if nothing responds, only that.

    quoted_name  the system's name on a command line, for the commands in remedies
    deep         also run pods and look from inside; data: directory there whose files to read
    """
    facts, checks = _examined(system, deep, data)
    return facts, tuple(for_system(check, quoted_name) for check in checks)


def _examined(system: KubernetesSystem, deep: bool, data: str | None) -> tuple[Facts, tuple[Check, ...]]:
    try:
        seen = look(system)
    except ApiError as error:
        return {}, (Check("API server", "fail", str(error), "kubectl cluster-info"),)
    facts = {"kubernetes.version": seen.version, **node_checks.node_facts(seen)}
    checks = tuple(check(seen) for check in CHECKS)
    if not (deep or data is not None):
        return facts, (*checks, inside.not_looked_into(seen))
    facts_inside, more = inside.examine_inside(seen, data)
    return {**facts, **facts_inside}, (*checks, *more)
