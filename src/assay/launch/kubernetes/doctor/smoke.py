"""The smallest pods that use a device: add two vectors on a GPU; list and open the RDMA devices.

Each runs with the system's own options, and with one of the resource through which the cluster offers the
device.
"""

from __future__ import annotations

from collections.abc import Mapping

from assay.checks.check import Check, Facts, number, text
from assay.checks.host import fabric
from assay.launch import programs
from assay.launch.kubernetes import quantities
from assay.launch.kubernetes.doctor import pod
from assay.launch.kubernetes.doctor.cluster_view import ClusterView, ReadFailure
from assay.launch.kubernetes.doctor.places import hindrance
from assay.launch.kubernetes.options import KubernetesSystem, Resources
from assay.records import Job
from assay.units import human

GPU = "nvidia.com/gpu"
RDMA = "rdma/"  # prefix of the device plugins' resources
VECTOR_ADD, RDMA_CHECK = "assay_payloads.probing.vector_add", "assay_payloads.probing.rdma_check"
START_WITHIN_S = 120.0  # the system's image is on a node by now


def examine(seen: ClusterView, inside: Facts) -> tuple[Check, Check]:
    """Run the pods whose device the cluster announces; `inside` has the facts of a pod without devices."""
    offered = announced(seen)
    if isinstance(offered, ReadFailure):
        return offered.check("GPU pod"), offered.check("RDMA pod")
    gpu, rdma = resource(seen.system, offered, GPU), resource(seen.system, offered, RDMA)
    gpu_facts = _device_facts(seen.system, gpu, VECTOR_ADD) if gpu in offered else None
    rdma_facts = _device_facts(seen.system, rdma, RDMA_CHECK) if rdma in offered else None
    return vector_add(gpu, gpu_facts, _asks(seen.system, gpu)), rdma_devices(rdma, rdma_facts, inside)


def announced(seen: ClusterView) -> Mapping[str, float] | ReadFailure:
    """Resource → the most that a node announces, among nodes that can run the system's pods."""
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes
    most: dict[str, float] = {}
    for node in (node for node in seen.nodes if not hindrance(node, seen.system)):
        for name, amount in node["status"].get("allocatable", {}).items():
            most[name] = max(most.get(name, 0.0), quantities.number(amount))
    return {name: amount for name, amount in most.items() if amount >= 1}


def resource(system: KubernetesSystem, offered: Mapping[str, float], prefix: str) -> str:
    """The resource of a device: the one the system requests, otherwise one that is announced."""
    requested = [*system.resources.accelerator, *system.resources.pod]
    return next((name for name in (*requested, *sorted(offered)) if name.startswith(prefix)), prefix)


def jobs(seen: ClusterView) -> list[tuple[KubernetesSystem, Job]]:
    """Both pods, whether or not the cluster announces their devices; shown and checked, not sent."""
    offered = announced(seen)
    announced_devices: Mapping[str, float] = {} if isinstance(offered, ReadFailure) else offered
    smoke_jobs = []
    for prefix, program in ((GPU, VECTOR_ADD), (RDMA, RDMA_CHECK)):
        name = resource(seen.system, announced_devices, prefix)
        smoke_jobs.append((_with(seen.system, name if name != RDMA else f"{RDMA}hca"), _job(program)))
    return smoke_jobs


def _job(program: str) -> Job:
    return pod.job((program,), name=program.rpartition(".")[2].replace("_", "-"))


def _with(system: KubernetesSystem, device: str) -> KubernetesSystem:
    """The system with pods that get one of the device, and none of a rank's other devices."""
    requested = {**system.resources.accelerator, **system.resources.pod}
    plain = {name: amount for name, amount in requested.items() if "/" not in name}
    return system.model_copy(update={"resources": Resources(accelerator={**plain, device: "1"})})


def _asks(system: KubernetesSystem, name: str) -> bool:
    return name in system.resources.accelerator or name in system.resources.pod


def _device_facts(system: KubernetesSystem, device: str, program: str) -> Facts:
    ran = pod.run(_with(system, device), _job(program), START_WITHIN_S)
    if ran.problem:
        return {"smoke.error": ran.problem}
    return programs.combined_facts(programs.sections(ran.output))


def vector_add(resource: str, facts: Facts | None, is_asked: bool) -> Check:
    """Whether a pod with one GPU added two vectors on it."""
    name = "GPU pod"
    if facts is None:
        evidence = f"not announced: no node has {resource}"
        if not is_asked:
            return Check(name, "ok", f"{evidence}, and the system requests none")
        remedy = "install what announces it: assay cluster prepare (GPU Operator, or the device plugin)"
        return Check(name, "fail", evidence, remedy)
    error = text(facts, "smoke.error")
    if error is None and facts.get("smoke.vector_add") is True:
        return Check(
            name, "ok", f"{text(facts, 'smoke.device')} added two vectors in a pod with {resource}: 1"
        )
    remedy = (
        "make the driver available to the pod: NVIDIA's container runtime on the node, runtimeClassName: "
        "nvidia in the system, and an image whose torch is built with CUDA"
    )
    return Check(
        name,
        "fail",
        f"a pod with {resource}: 1 failed to add two vectors: {error or 'it reported nothing'}",
        remedy,
    )


def rdma_devices(resource: str, facts: Facts | None, inside: Facts) -> Check:
    """Whether a pod with an RDMA resource lists devices, opens them, and may lock memory."""
    name = "RDMA pod"
    if facts is None:
        resource_name = resource if resource != RDMA else f"{RDMA}…"
        there = number(inside, "fabric.devices")
        listed = f"a pod lists {there:g} devices" if there else "a pod lists no device"
        evidence = f"not announced: no node has {resource_name}; {listed} (/sys/class/infiniband)"
        verbs = fabric.verbs(inside)
        if verbs is not None and verbs.state != "ok":
            remedy = "install an RDMA device plugin (assay cluster prepare), and request its resource"
            return Check(name, "warn", f"{evidence}, but can use none of them", remedy)
        return Check(name, "ok", evidence)
    error = text(facts, "smoke.error")
    if error is not None:
        remedy = f"kubectl describe node; check what the device plugin provides with {resource}"
        return Check(name, "fail", f"a pod with {resource}: 1: {error}", remedy)
    verbs = fabric.verbs(facts)
    if verbs is None:
        evidence = f"a pod with {resource}: 1 sees no device in /sys/class/infiniband"
        return Check(name, "fail", evidence, "see the device plugin's log and its selectors")
    if verbs.state != "ok":
        return Check(name, verbs.state, f"a pod with {resource}: 1: {verbs.evidence}", verbs.remedy)
    refused = text(facts, "memory.lock_refused")
    if refused is not None:
        remedy = (
            "set capabilities: [IPC_LOCK] for the system; raise the runtime's memlock limit (assay "
            "cluster prepare)"
        )
        return Check(name, "fail", f"a pod with {resource}: 1: {verbs.evidence}, but {refused}", remedy)
    locked = human(number(facts, "memory.locked_bytes") or 0.0, "B")
    return Check(name, "ok", f"a pod with {resource}: 1: {verbs.evidence}; {locked} locked")
