"""`mpijob`: an MPIJob (v2beta1). mpirun starts the ranks over ssh; a keeper in each worker watches them.

The image needs Open MPI, sshd, and ssh, and its user needs a name: sshd and ssh refuse a user ID that
the image's /etc/passwd lacks.
"""

from __future__ import annotations

from typing import Any

from assay.launch.kubernetes import payload, pod
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.order import LABEL_ROLE, Manifest, Order

INDEX = "ASSAY_WORKER"
INDEX_LABEL = "training.kubeflow.org/replica-index"  # of each worker's pod, set by the operator
AUTH_DIR = "/assay/ssh"
HOSTS = "/etc/mpi/hostfile"  # the operator passes it to Open MPI 4 in a variable that version 5 does not know
PROGRAM = "assay_payloads.keeping.mpi"
OF_RANKS_ALONE = ("affinity", "topologySpreadConstraints", "resourceClaims")


def manifest(order: Order) -> list[Manifest]:
    """The MPIJob. Its pods stay after it has ended, because their logs are needed."""
    return [
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": pod.job_metadata(order),
            "spec": {
                "slotsPerWorker": order.job.shape.accelerators,
                "sshAuthMountPath": AUTH_DIR,
                "launcherCreationPolicy": "WaitForWorkersReady",
                "runPolicy": {"cleanPodPolicy": "None", **pod.job_limits(order)},
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(order)},
                    "Worker": {
                        "replicas": order.workers,
                        "restartPolicy": "Never",
                        "template": _worker(order),
                    },
                },
            },
        }
    ]


def _worker(order: Order) -> Manifest:
    """A pod with ranks: ready when mpirun can reach it. The platform ends it by its own deadline."""
    env = {"MASTER_ADDR": f"{order.name}-worker-0.{order.name}", "MASTER_PORT": str(order.meeting_port)}
    template = pod.template(order, env=env, node_from=INDEX)
    container, port = template["spec"]["containers"][0], order.meeting_port + 1
    relay = container["command"][container["command"].index(payload.JOB_DIR) :]
    container["command"] = [*_mpi(order, "serve"), payload.JOB_DIR, str(port), "--", *relay]
    index = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}}
    container["env"].append({"name": INDEX, "valueFrom": index})
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 60}
    container["startupProbe"] = probe  # stops once sshd has answered
    template["spec"]["activeDeadlineSeconds"] = pod.deadline_s(order)
    return template


def _launcher(order: Order) -> Manifest:
    """The pod of mpirun, which has no accelerators and runs anywhere."""
    template = pod.template(order, env={}, node_from=None)
    template["metadata"]["labels"][LABEL_ROLE] = "launcher"
    spec: dict[str, Any] = template["spec"]
    for field in OF_RANKS_ALONE:
        spec.pop(field, None)
    container = spec["containers"][0]
    container.pop("resources", None)
    container["command"] = [*_mpi(order, "launch"), "--", *_mpirun(order)]
    return template


def _mpirun(order: Order) -> list[str]:
    """Each rank is a stand-in that mpirun starts; the keeper assigns cores."""
    ssh = (
        f"-p {order.meeting_port + 1} -i {payload.JOB_DIR}/ssh-key -o ConnectionAttempts=30 "
        "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    )
    how = ["--allow-run-as-root", "--map-by", "slot", "--bind-to", "none", "--mca", "plm_rsh_args", ssh]
    where = ["--hostfile", HOSTS, "-np", str(order.job.shape.ranks)]
    return ["mpirun", *where, *how, *_mpi(order, "arrive"), payload.JOB_DIR]


def _mpi(order: Order, role: str) -> list[str]:
    return [order.options.python, "-I", "-S", payload.program(PROGRAM), role]


KIND = JobKind(
    name="mpijob",
    job_ref=JobRef("kubeflow.org/v2beta1", "MPIJob", "mpijobs"),
    manifest=manifest,
    ended=lambda obj: ended_by_condition(obj, "Succeeded", "Failed"),
    expected_pods=lambda shape: shape.workers + 1,
    programs=(PROGRAM,),
    spec={"rank_env": f"{payload.JOB_DIR}/arrivals"},
    needs="the MPI Operator",
)
