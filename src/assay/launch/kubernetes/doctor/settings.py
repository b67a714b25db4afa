"""Checks of the nodes' settings: how they assign CPUs, and what their clocks say."""

from __future__ import annotations

from collections import Counter

from assay.checks.check import Check
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.doctor.cluster_view import ClusterView, ReadFailure
from assay.launch.kubernetes.times import moment

SLIGHT_S = 0.5  # NTP keeps a data center's clocks within milliseconds
HEARTBEAT_S = 10.0  # a kubelet renews its lease this often
LATE_S = 40.0  # and counts as lost after this long
STATIC = (
    "in the nodes' KubeletConfiguration: cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node; "
    "on OpenShift, a PerformanceProfile; then drain, remove cpu_manager_state, and restart the kubelet"
)


def cpu_manager(seen: ClusterView) -> Check:
    """Whether pods that request exclusive CPUs get them, close to their devices."""
    name = "CPU manager"
    if isinstance(seen.kubelets, ReadFailure):
        check = seen.kubelets.check(name)
        if not seen.kubelets.forbidden:
            return check
        # `assay cluster rbac` does not print this permission: whoever has it can run commands in any pod
        remedy = "ask an administrator to run: kubectl get --raw /api/v1/nodes/NODE/proxy/configz"
        return Check(name, check.state, check.evidence, remedy)
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes.check(name)
    if not seen.kubelets:
        return Check(name, "unknown", "no kubelet reported its settings")
    policies = Counter(_policy(kubelet) for kubelet in seen.kubelets.values())
    evidence = ", ".join(f"{policy} on {count}" for policy, count in policies.most_common())
    evidence += f", of {len(seen.kubelets)} nodes queried"
    if seen.system.pin_cpus and any(not policy.startswith("static") for policy in policies):
        return Check(name, "fail", f"{evidence}, but pin_cpus requests exclusive CPUs", STATIC)
    if len(policies) > 1:
        return Check(name, "warn", f"{evidence}: the nodes differ", STATIC)
    return Check(name, "ok", evidence)


def _policy(kubelet: Object) -> str:
    cpus, topology = (kubelet.get(f"{manager}ManagerPolicy", "none") for manager in ("cpu", "topology"))
    return f"{cpus} with topology manager {topology}"


def server_clock(seen: ClusterView) -> Check:
    """Whether the API server's clock agrees with this machine's."""
    if isinstance(seen.server_ahead_s, ReadFailure):
        return seen.server_ahead_s.check("API server's clock")
    return offset("API server's clock", *seen.server_ahead_s)


def offset(name: str, low_s: float, high_s: float) -> Check:
    """A check of a clock that is between `low_s` and `high_s` seconds ahead of this machine's."""
    evidence = f"between {low_s:+.1f} and {high_s:+.1f} s ahead of this machine's"
    if low_s > SLIGHT_S or high_s < -SLIGHT_S:
        return Check(name, "warn", evidence, "event times don't match; on both machines: chronyc tracking")
    return Check(name, "ok", evidence)


def node_clocks(seen: ClusterView) -> Check:
    """When each node last reported, by its own clock, which shows clocks that run ahead or behind."""
    name = "nodes' clocks"
    if isinstance(seen.leases, ReadFailure):
        return seen.leases.check(name)
    ages = {
        lease["metadata"]["name"]: seen.read_at - renewed_at
        for lease in seen.leases
        if (renewed_at := moment(lease["spec"].get("renewTime"))) is not None
    }
    if not ages:
        return Check(name, "unknown", "no node renews a lease")
    ahead = {node: -age for node, age in ages.items() if age < -SLIGHT_S}
    late = {node: age for node, age in ages.items() if age > LATE_S}
    if ahead or late:
        differences = [f"{node} is at least {by:.1f} s ahead of this machine" for node, by in ahead.items()]
        differences += [f"{node} last reported {by:.0f} s ago by its own clock" for node, by in late.items()]
        return Check(
            name, "warn", "; ".join(differences[:4]), "on those nodes: chronyc tracking; kubectl get nodes"
        )
    evidence = (
        f"last reports {min(ages.values()):.1f} to {max(ages.values()):.1f} s ago by the nodes' own clocks"
    )
    return Check(name, "ok", f"{evidence}; they are due every {HEARTBEAT_S:g} s")
