"""Short pods of the doctor, sent like every trial: they see what only pods can see, and use one device each.

The first looks from inside: image, interpreter, limits, clock. The others add two vectors on a GPU, and list
and open the RDMA devices. Each has the system's options, and one of the resource through which the cluster
offers the device.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from assay.checks import PLACE, Check, Facts, fabric, number, text
from assay.checks import examine as machine
from assay.errors import AssayError
from assay.launch import programs
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.doctor.cluster_view import ClusterView, ReadFailure
from assay.launch.kubernetes.doctor.node_checks import hindrance, offset
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem, Resources
from assay.records import Handle, Job, JobState, JobStatus, Shape, Task
from assay.units import human

GPU = "nvidia.com/gpu"
RDMA = "rdma/"  # prefix of the device plugins' resources
VECTOR_ADD, RDMA_CHECK = "assay_payloads.probing.vector_add", "assay_payloads.probing.rdma_check"
SMOKE_START_WITHIN_S = 120.0  # the system's image is on a node by now
TEST_POD = "test pod"
START_WITHIN_S = 300.0  # image pulls take minutes
ENDS_WITHIN_S = 240.0  # a cold import of torch from a network file system takes minutes


def smoke_checks(seen: ClusterView, inside: Facts) -> tuple[Check, Check]:
    """Run the pods whose device the cluster announces; `inside` has the facts of a pod without devices."""
    offered = announced(seen)
    if isinstance(offered, ReadFailure):
        return offered.check("GPU pod"), offered.check("RDMA pod")
    gpu, rdma = resource(seen.system, offered, GPU), resource(seen.system, offered, RDMA)
    gpu_facts = _device_facts(seen.system, gpu, VECTOR_ADD) if gpu in offered else None
    rdma_facts = _device_facts(seen.system, rdma, RDMA_CHECK) if rdma in offered else None
    return vector_add(gpu, gpu_facts, _requests_device(seen.system, gpu)), rdma_devices(
        rdma, rdma_facts, inside
    )


def announced(seen: ClusterView) -> Mapping[str, float] | ReadFailure:
    """Resource → the most that a node announces, among nodes that can run the system's pods."""
    if isinstance(seen.nodes, ReadFailure):
        return seen.nodes
    most: dict[str, float] = {}
    for node in (node for node in seen.nodes if not hindrance(node, seen.system)):
        for name, amount in node["status"].get("allocatable", {}).items():
            most[name] = max(most.get(name, 0.0), fields.quantity_number(amount))
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
        smoke_jobs.append(
            (_with_device(seen.system, name if name != RDMA else f"{RDMA}hca"), _smoke_job(program))
        )
    return smoke_jobs


def _smoke_job(program: str) -> Job:
    return one_rank_job((program,), name=program.rpartition(".")[2].replace("_", "-"))


def _with_device(system: KubernetesSystem, device: str) -> KubernetesSystem:
    """The system with pods that get one of the device, and none of a rank's other devices."""
    requested = {**system.resources.accelerator, **system.resources.pod}
    plain = {name: amount for name, amount in requested.items() if "/" not in name}
    return system.model_copy(update={"resources": Resources(accelerator={**plain, device: "1"})})


def _requests_device(system: KubernetesSystem, name: str) -> bool:
    return name in system.resources.accelerator or name in system.resources.pod


def _device_facts(system: KubernetesSystem, device: str, program: str) -> Facts:
    ran = run_pod(_with_device(system, device), _smoke_job(program), SMOKE_START_WITHIN_S)
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


def not_looked_into(seen: ClusterView) -> Check:
    """Reports that the contents of the image are unknown."""
    image = seen.system.image or "the workload's image"
    remedy = "assay doctor SYSTEM --deep runs a pod to find out"
    return Check("image", "unknown", f"{image}: not checked whether it has Python and torch", remedy)


def examine_inside(seen: ClusterView, data: str | None = None) -> tuple[Facts, tuple[Check, ...]]:
    """Run a pod with one rank; if it ran, do all checks of a machine and the pods of devices.

    data  directory in the pod whose files to read
    """
    system = seen.system
    if system.image is None:
        remedy = "set `image` for the system, so that it can be tested"
        return {}, (Check(TEST_POD, "unknown", "the system names no image", remedy),)
    ran = run_pod(system, one_rank_job(*programs.doctor_commands(data)))
    if ran.problem:
        return {}, (
            Check(TEST_POD, "fail", ran.problem, "kubectl describe pod; see the failed checks above"),
        )
    facts = {**programs.combined_facts(programs.sections(ran.output)), PLACE: "pod"}
    if "python.version" not in facts:
        return facts, (Check(TEST_POD, "fail", str(facts.get("unreadable"))),)
    fine = Check(TEST_POD, "ok", "ran with the system's options; the following checks are from inside it")
    return facts, (fine, *_clock(ran), *machine.examine(facts), *smoke_checks(seen, facts))


def _clock(ran: PodRun) -> tuple[Check, ...]:
    started_at = ran.status.started_at if ran.status else None
    if started_at is None or ran.first_at is None:
        return ()
    return (offset("pod's clock", started_at - ran.first_at, started_at - ran.began),)


@dataclass(frozen=True)
class PodRun:
    """The outcome of a pod.

    problem   why it reported nothing; "" if it did
    output    what its rank printed
    began     when it was requested; first_at: when its first byte arrived; both by this machine's clock
    """

    problem: str
    output: str
    status: JobStatus | None
    began: float
    first_at: float | None


def one_rank_job(*commands: programs.Command, name: str = "doctor") -> Job:
    """A job of one rank that runs the programs one after the other."""
    argv, files = programs.in_turn(*commands)
    return Job(uuid.uuid4().hex, name, Shape(1, 1), Task(argv, files=files), 0, ENDS_WITHIN_S)


def run_pod(system: KubernetesSystem, job: Job, start_within_s: float | None = None) -> PodRun:
    """Send a job of one rank, and wait for its end or, if it doesn't start, for `start_within_s`."""
    began = time.time()
    with tempfile.TemporaryDirectory() as spool:
        launcher = KubernetesLauncher(system, Path(spool))
        try:
            handle = launcher.submit(job)
        except AssayError as error:
            return PodRun(str(error), "", None, began, None)
        try:
            return _followed(launcher, handle, began, start_within_s or START_WITHIN_S)
        finally:
            launcher.cancel(handle)
            launcher.forget(handle)


def _followed(launcher: KubernetesLauncher, handle: Handle, began: float, start_within_s: float) -> PodRun:
    output_by_stream: defaultdict[str, bytes] = defaultdict(bytes)
    first_at: float | None = None
    for output in launcher.follow(handle, {}):
        if output is not None:
            first_at = first_at or time.time()
            output_by_stream[output.stream] += output.data
        elif first_at is None and time.time() - began > start_within_s:
            waits = launcher.status(handle).cause or "no reason is known"
            return PodRun(f"did not start within {start_within_s:g} s: {waits}", "", None, began, None)
    status = launcher.status(handle)
    printed = output_by_stream["rank-0"].decode(errors="replace")
    silent = status.state is not JobState.SUCCEEDED and programs.MARK not in printed
    return PodRun((status.cause or printed[-200:]) if silent else "", printed, status, began, first_at)
