"""Checks of a cluster's nodes: which can run the pods, their devices, settings, and clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from assay.checks import Check, Facts
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.doctor.cluster_view import ClusterView, ReadFailure
from assay.launch.kubernetes.options import KubernetesSystem, Toleration
from assay.launch.kubernetes.pod_status import moment
from assay.records import Scalar
from assay.units import human

GPU = "nvidia.com/gpu"
GPU_LABEL = "nvidia.com/gpu.product"
BYTES = ("memory", "ephemeral-storage")
FEATURE = "feature.node.kubernetes.io/"
MOST_NAMED = 4
STATE_TAINT = "tainted node.kubernetes.io/"  # how the cluster itself marks a node's state
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.full", "nvidia.com/gpu.product", "nvidia.com/mig.strategy")
ALIKE = ("architecture", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
SLIGHT_S = 0.5  # NTP keeps a data center's clocks within milliseconds
HEARTBEAT_S = 10.0  # a kubelet renews its lease this often
LATE_S = 40.0  # and counts as lost after this long
STATIC = (
    "in the nodes' KubeletConfiguration: cpuManagerPolicy: static, topologyManagerPolicy: single-numa-node; "
    "on OpenShift, a PerformanceProfile; then drain, remove cpu_manager_state, and restart the kubelet"
)


def usable_nodes(seen: ClusterView) -> Check:
    """How many nodes can run the pods, and what keeps the others from it."""
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes.check("nodes")
    why = {_name(node): hindrance(node, seen.system) for node in seen.nodes}
    good = [name for name, what in why.items() if not what]
    kept = Counter(what for what in why.values() if what)
    others = "; ".join(f"{count} {what}" for what, count in kept.most_common())
    evidence = f"{len(good)} of {len(why)} can run the pods" + (f"; {others}" if others else "")
    if good:
        return Check("nodes", "ok", evidence)
    remedy = "correct the system's nodeSelector and tolerations; or kubectl uncordon NODE"
    return Check("nodes", "fail", evidence, remedy)


def hindrance(node: Object, system: KubernetesSystem) -> str:
    """What keeps the system's pods from a node, affinity aside; "" if nothing does."""
    return away(node, system) or unsuited(node, system)


def away(node: Object, system: KubernetesSystem) -> str:
    """Why a node accepts no new pods now: its state, and the taints that the cluster sets for it."""
    ready = {c["type"]: c["status"] for c in node["status"].get("conditions", ())}.get("Ready")
    if ready != "True":
        return "not ready"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    return next((taint for taint in _unborne(node, system) if STATE_TAINT in taint), "")


def unsuited(node: Object, system: KubernetesSystem) -> str:
    """What in its name, labels, or taints set by people excludes a node from the system."""
    if system.nodes and _name(node) not in system.nodes:
        return "not one of the system's nodes"
    labels = node["metadata"].get("labels", {})
    for name, value in system.nodeSelector.items():
        if labels.get(name) != value:
            return f"without label {name}={value}"
    return next((taint for taint in _unborne(node, system) if STATE_TAINT not in taint), "")


def _unborne(node: Object, system: KubernetesSystem) -> Iterator[str]:
    """Taints that keep the system's pods away."""
    for taint in node["spec"].get("taints", ()):
        if taint["effect"] != "PreferNoSchedule" and not any(_bears(t, taint) for t in system.tolerations):
            value = f"={taint['value']}" if taint.get("value") else ""
            yield f"tainted {taint['key']}{value}:{taint['effect']}"


def devices(seen: ClusterView) -> Check:
    """Whether the resources that a rank requests are announced, and how much of them is free."""
    requested = {**seen.system.resources.accelerator, **seen.system.resources.pod}
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes.check("devices")
    usable = _usable(seen)
    extended = {name for node in usable for name in node["status"].get("allocatable", {}) if is_device(name)}
    others = f"announced but not requested: {', '.join(sorted(extended - requested.keys()))}"
    more = f"; {others}" if extended - requested.keys() else ""
    if not requested:
        return Check("devices", "ok", f"the system requests none under resources{more}")
    used = None if isinstance(seen.pods, ReadFailure) else in_use(seen.pods)
    offers, worst = [], ""
    for name, amount in sorted(requested.items()):
        offer, trouble = _offer(name, fields.quantity_number(amount), usable, used)
        offers.append(offer)
        worst = "fail" if "fail" in (worst, trouble) else worst or trouble
    evidence = "; ".join(offers) + more
    if worst == "fail":
        remedy = "request less under resources, or install what announces it (device plugin, GPU Operator)"
        return Check("devices", "fail", evidence, remedy)
    if worst == "warn":
        return Check(
            "devices", "warn", evidence, "trials wait until some are free: kubectl get pods -A -o wide"
        )
    if isinstance(seen.pods, ReadFailure):
        return Check("devices", "unknown", f"{evidence}; free amount: {seen.pods.check('').evidence}")
    return Check("devices", "ok", evidence)


def _offer(
    name: str, per_rank: float, usable: Sequence[Object], used: Mapping[tuple[str, str], float] | None
) -> tuple[str, str]:
    """Evidence on one resource, and `fail` or `warn` if one accelerator's share is not available."""
    offered = {
        _name(node): fields.quantity_number(amount)
        for node in usable
        if (amount := node["status"].get("allocatable", {}).get(name)) is not None
    }
    total = sum(offered.values())
    if max(offered.values(), default=0.0) < per_rank:
        return (
            f"{name}: {_amount(name, per_rank)} requested for one accelerator, but no node has that much",
            "fail",
        )
    if used is None:
        return f"{name}: {_amount(name, total)} on {len(offered)} nodes", ""
    free = {node: amount - used.get((node, name), 0.0) for node, amount in offered.items()}
    evidence = (
        f"{name}: {_amount(name, sum(free.values()))} of {_amount(name, total)} free on {len(offered)} nodes"
    )
    return evidence, "" if max(free.values()) >= per_rank else "warn"


def _amount(name: str, value: float) -> str:
    return human(value, "B") if name in BYTES or name.startswith("hugepages-") else f"{value:g}"


def in_use(pods: Iterable[Object]) -> dict[tuple[str, str], float]:
    """What pods have requested, by node and resource."""
    used: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        node = pod["spec"].get("nodeName")
        for container in pod["spec"]["containers"] if node else ():
            for name, amount in container.get("resources", {}).get("requests", {}).items():
                used[node, name] += fields.quantity_number(amount)  # type: ignore[assignment]
    return dict(used)


def labels(seen: ClusterView) -> Check:
    """Whether GPUs are labeled by model, which distinguishes the nodes of a cluster."""
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes.check("labels")
    usable = _usable(seen)
    with_gpu = [node for node in usable if GPU in node["status"].get("allocatable", {})]
    has_features = any(
        name.startswith(FEATURE) for node in usable for name in node["metadata"].get("labels", {})
    )
    features = "node features are labeled" if has_features else "node features are not labeled (no NFD)"
    bare = [_name(node) for node in with_gpu if GPU_LABEL not in node["metadata"].get("labels", {})]
    if bare:
        remedy = "install GPU feature discovery (part of NVIDIA's GPU Operator); it needs NFD"
        evidence = f"{features}; GPUs without {GPU_LABEL} on {_few(bare)}: their model is unknown"
        return Check("labels", "warn", evidence, remedy)
    models = Counter(node["metadata"]["labels"][GPU_LABEL] for node in with_gpu)
    model_counts = ", ".join(f"{model} on {count}" for model, count in models.most_common())
    return Check("labels", "ok", f"{features}{f'; {model_counts}' if model_counts else ''}")


def alike(seen: ClusterView) -> Check:
    """Whether kernel, runtime, and drivers are the same on all usable nodes."""
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes.check("nodes alike")
    usable = _usable(seen)
    properties: list[tuple[str, Callable[[Object], str | None]]] = [
        *((name, lambda node, name=name: node["status"]["nodeInfo"].get(name)) for name in ALIKE),
        *(
            (name, lambda node, name=name: node["metadata"].get("labels", {}).get(name))
            for name in DRIVER_LABELS
        ),
    ]
    differs = []
    for name, read_property in properties:
        counts = Counter(str(read_property(node) or "none") for node in usable)
        if len(counts) > 1:
            differs.append(
                f"{name}: {', '.join(f'{value} on {count}' for value, count in counts.most_common())}"
            )
    if differs:
        remedy = "select identical nodes with nodeSelector, or bring all nodes to the same versions"
        return Check("nodes alike", "warn", "; ".join(differs), remedy)
    if not usable:
        return Check("nodes alike", "unknown", "no node can run the pods")
    info = usable[0]["status"]["nodeInfo"]
    same = (
        f"kernel {info['kernelVersion']}, {info['containerRuntimeVersion']}, kubelet {info['kubeletVersion']}"
    )
    return Check("nodes alike", "ok", f"all {len(usable)}: {same}" if len(usable) > 1 else f"one: {same}")


def node_facts(seen: ClusterView) -> Facts:
    """Each node's devices as numbers: `node.NAME.nvidia.com/gpu.announced`, `.allocated`, `.free`."""
    if isinstance(seen.nodes, ReadFailure):
        return {}
    used = None if isinstance(seen.pods, ReadFailure) else in_use(seen.pods)
    figures: dict[str, Scalar] = {}
    for node in seen.nodes:
        for name, amount in node["status"].get("allocatable", {}).items():
            key, offered = f"node.{_name(node)}.{name}", fields.quantity_number(amount)
            figures[f"{key}.announced"] = offered
            if used is not None:
                figures[f"{key}.allocated"] = used.get((_name(node), name), 0.0)
                figures[f"{key}.free"] = offered - used.get((_name(node), name), 0.0)
    return figures


def _usable(seen: ClusterView) -> list[Object]:
    assert not isinstance(seen.nodes, ReadFailure)
    return [node for node in seen.nodes if not hindrance(node, seen.system)]


def _bears(toleration: Toleration, taint: Mapping[str, str]) -> bool:
    """Source: kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration."""
    if toleration.effect not in (None, taint["effect"]):
        return False
    if toleration.key is None:
        return toleration.operator == "Exists"
    same = toleration.operator == "Exists" or (toleration.value or "") == taint.get("value", "")
    return toleration.key == taint["key"] and same


def is_device(name: str) -> bool:
    """Whether a resource is announced by a device plugin."""
    return "/" in name and not name.startswith("kubernetes.io/")


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


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
