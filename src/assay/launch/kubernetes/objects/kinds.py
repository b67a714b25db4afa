"""Each kind of Kubernetes job: how a job becomes objects, and how the job object shows that it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.errors import Problem
from assay.launch.kubernetes.objects import payload, pod
from assay.launch.kubernetes.objects.order import LABEL_ROLE, LABEL_TOKEN, Manifest, Order, labels_of_ranks
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Shape

JOB_INDEX = "JOB_COMPLETION_INDEX"  # set by the Job controller in each container
JOBSET_RANKS = "ranks"
# The image needs Open MPI, sshd, and ssh, and its user needs a name: sshd and ssh refuse a user ID that the
# image's /etc/passwd lacks.
MPI_INDEX = "ASSAY_WORKER"
MPI_INDEX_LABEL = "training.kubeflow.org/replica-index"  # of each worker's pod, set by the operator
MPI_AUTH_DIR = "/assay/ssh"
MPI_HOSTS = (
    "/etc/mpi/hostfile"  # the operator passes it to Open MPI 4 in a variable that version 5 does not know
)
MPI_PROGRAM = "assay_payloads.keeping.mpi"
OF_RANKS_ALONE = ("affinity", "topologySpreadConstraints", "resourceClaims")
TRAIN_RUNTIME = "torch-distributed"
TRAIN_STEP = TRAIN_CONTAINER = "node"  # names in that runtime
TRAIN_INDEX = "PET_NODE_RANK"  # set, with PET_MASTER_ADDR and PET_MASTER_PORT, by the runtime
TRAIN_PATCHED = (
    "affinity", "imagePullSecrets", "nodeSelector", "securityContext", "serviceAccountName",
    "terminationGracePeriodSeconds", "tolerations", "volumes",
)  # fmt: skip
TRAIN_RUNTIMES_OWN = ("restartPolicy", "enableServiceLinks", "automountServiceAccountToken", "containers")
TRAIN_IN_TRAINER = ("name", "image", "command", "env", "resources")
TRAIN_PATCHED_IN_CONTAINER = ("name", "securityContext", "volumeMounts")
PYTORCH_CONTAINER = (
    "pytorch"  # the operator sets MASTER_ADDR, MASTER_PORT, and RANK in the container with this name
)
PYTORCH_INDEX = "RANK"  # to the operator, a pod is a rank; the keeper numbers each process


class JobRef(NamedTuple):
    """Where the API server keeps objects of a kind."""

    api_version: str
    kind: str
    plural: str


class Ending(NamedTuple):
    """How an object ended; `reason` in the platform's words, "" if it gives none."""

    succeeded: bool
    reason: str


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    name           the value of the option `kind`
    job_ref        of its job object
    manifest       the objects besides the payload, in the order of creation; the job object is last
    ended          how the job object from the API server ended; None while it has not
    misfits        the system's options that such a job can't have, with the option as `where`
    expected_pods  how many pods a shape becomes, including those that run no rank
    programs       to send with such a job in addition to those of every kind
    spec           what the keeper's spec contains in addition to what it has for every kind
    needs          what must be installed, as text; "" for what every cluster has
    heeds_deletion its controller creates nothing more for an object that is being deleted, so that deletion
                   can wait until everything that belongs to the object is gone
    names_ready    the cluster resolves the names of its pods only while they are ready
    """

    name: str
    job_ref: JobRef
    manifest: Callable[[Order], list[Manifest]]
    ended: Callable[[Mapping[str, Any]], Ending | None]
    expected_pods: Callable[[Shape], int]
    misfits: Callable[[Order], Iterable[Problem]] = lambda _order: ()
    programs: tuple[str, ...] = ()
    spec: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    heeds_deletion: bool = True
    names_ready: bool = False

    @staticmethod
    def pods(token: str) -> str:
        """Label selector of a job's pods, and of every other object of it."""
        return f"{LABEL_TOKEN}={token}"


def ended_by_condition(obj: Mapping[str, Any], succeeded: str, failed: str) -> Ending | None:
    """The ending shown by the object's conditions, if each ending has its own condition."""
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in (succeeded, failed):
            reason = ": ".join(filter(None, (condition.get("reason", ""), condition.get("message", ""))))
            return Ending(condition["type"] == succeeded, reason)
    return None


def _pod(order: Order) -> list[Manifest]:
    """`pod`: a Job with one pod, for shapes of one worker."""
    return [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": pod.job_metadata(order),
            "spec": {**pod.job_limits(order), "template": pod.template(order, env={}, node_from=None)},
        }
    ]


def _pod_misfits(order: Order) -> Iterator[Problem]:
    """Reports the kind itself for a shape of several workers."""
    shape = order.job.shape
    if order.workers > 1:
        yield Problem(
            "kind",
            f"shape {shape} has {order.workers} workers, but kind pod is one pod: "
            f"write kind: job, or shape 1x{shape.ranks}",
        )


POD = JobKind(
    name="pod",
    job_ref=JobRef("batch/v1", "Job", "jobs"),
    manifest=_pod,
    misfits=_pod_misfits,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda _shape: 1,
)


def _service_and_job(order: Order) -> list[Manifest]:
    """`job`: an Indexed Job after a headless Service, which gives the pods names."""
    return [_service(order), _job(order)]


def _service(order: Order) -> Manifest:
    """The Service that gives each pod a name, ready or not, since ranks meet before pods are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": order.metadata(),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": labels_of_ranks(order.job.token),
        },
    }


def _job(order: Order) -> Manifest:
    env = {"MASTER_ADDR": f"{order.name}-0.{order.name}", "MASTER_PORT": str(order.meeting_port)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod.job_metadata(order),
        "spec": {
            "completionMode": "Indexed",
            "completions": order.workers,
            "parallelism": order.workers,
            **pod.job_limits(order),
            "template": pod.template(order, env=env, node_from=JOB_INDEX, subdomain=order.name),
        },
    }


JOB = JobKind(
    name="job",
    job_ref=JobRef("batch/v1", "Job", "jobs"),
    manifest=_service_and_job,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda shape: shape.workers,
)


def _jobset(order: Order) -> list[Manifest]:
    """`jobset`: a JobSet of one Indexed Job; it makes the headless Service itself."""
    env = {
        "MASTER_ADDR": f"{order.name}-{JOBSET_RANKS}-0-0.{order.name}",
        "MASTER_PORT": str(order.meeting_port),
    }
    limits = pod.job_limits(order)
    ttl = limits.pop("ttlSecondsAfterFinished")  # on the set: its Job goes with it
    job = {
        "completionMode": "Indexed",
        "completions": order.workers,
        "parallelism": order.workers,
        **limits,
        "template": pod.template(order, env=env, node_from=JOB_INDEX),
    }
    return [
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": pod.job_metadata(order),
            "spec": {
                "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
                "failurePolicy": {"maxRestarts": 0},
                "ttlSecondsAfterFinished": ttl,
                "replicatedJobs": [{"name": JOBSET_RANKS, "replicas": 1, "template": {"spec": job}}],
            },
        }
    ]


JOBSET = JobKind(
    name="jobset",
    job_ref=JobRef("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    manifest=_jobset,
    ended=lambda obj: ended_by_condition(obj, "Completed", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="JobSet",
)


def _mpijob(order: Order) -> list[Manifest]:
    """`mpijob`: an MPIJob (v2beta1). mpirun starts the ranks over ssh; a keeper in each worker watches them.

    Its pods stay after it has ended, because their logs are needed.
    """
    return [
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": pod.job_metadata(order),
            "spec": {
                "slotsPerWorker": order.job.shape.accelerators,
                "sshAuthMountPath": MPI_AUTH_DIR,
                "launcherCreationPolicy": "WaitForWorkersReady",
                "runPolicy": {"cleanPodPolicy": "None", **pod.job_limits(order)},
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _mpi_launcher(order)},
                    "Worker": {
                        "replicas": order.workers,
                        "restartPolicy": "Never",
                        "template": _mpi_worker(order),
                    },
                },
            },
        }
    ]


def _mpi_worker(order: Order) -> Manifest:
    """A pod with ranks: ready when mpirun can reach it. The platform ends it by its own deadline."""
    env = {"MASTER_ADDR": f"{order.name}-worker-0.{order.name}", "MASTER_PORT": str(order.meeting_port)}
    template = pod.template(order, env=env, node_from=MPI_INDEX)
    container, port = template["spec"]["containers"][0], order.meeting_port + 1
    relay = container["command"][container["command"].index(payload.JOB_DIR) :]
    container["command"] = [*_mpi(order, "serve"), payload.JOB_DIR, str(port), "--", *relay]
    index = {"fieldRef": {"fieldPath": f"metadata.labels['{MPI_INDEX_LABEL}']"}}
    container["env"].append({"name": MPI_INDEX, "valueFrom": index})
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 60}
    container["startupProbe"] = probe  # stops once sshd has answered
    template["spec"]["activeDeadlineSeconds"] = pod.deadline_s(order)
    return template


def _mpi_launcher(order: Order) -> Manifest:
    """The pod of mpirun, which has no accelerators and runs anywhere."""
    template = pod.template(order, env={}, node_from=None)
    template["metadata"]["labels"][LABEL_ROLE] = "launcher"
    spec: dict[str, Any] = template["spec"]
    for name in OF_RANKS_ALONE:
        spec.pop(name, None)
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
    where = ["--hostfile", MPI_HOSTS, "-np", str(order.job.shape.ranks)]
    return ["mpirun", *where, *how, *_mpi(order, "arrive"), payload.JOB_DIR]


def _mpi(order: Order, role: str) -> list[str]:
    return [order.options.python, "-I", "-S", payload.program(MPI_PROGRAM), role]


MPIJOB = JobKind(
    name="mpijob",
    job_ref=JobRef("kubeflow.org/v2beta1", "MPIJob", "mpijobs"),
    manifest=_mpijob,
    ended=lambda obj: ended_by_condition(obj, "Succeeded", "Failed"),
    expected_pods=lambda shape: shape.workers + 1,
    programs=(MPI_PROGRAM,),
    spec={"rank_env": f"{payload.JOB_DIR}/arrivals"},
    needs="the MPI Operator",
    names_ready=True,
)


def _trainjob(order: Order) -> list[Manifest]:
    """`trainjob`: a TrainJob of Kubeflow Trainer with its runtime torch-distributed."""
    template = _train_template(order)
    container = template["spec"]["containers"][0]
    trainer = {
        "numNodes": order.workers,
        "numProcPerNode": order.job.shape.accelerators,
        **{field: container[field] for field in ("image", "command", "env")},
        **({"resourcesPerNode": container["resources"]} if "resources" in container else {}),
    }
    return [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": pod.job_metadata(order),
            "spec": {
                "activeDeadlineSeconds": pod.deadline_s(order),
                "runtimeRef": {"name": TRAIN_RUNTIME},
                "trainer": trainer,
                "runtimePatches": [_train_patch(template)],
            },
        }
    ]


def _train_patch(template: Manifest) -> Manifest:
    """The parts of the pod that don't belong to the trainer, as a patch of the runtime."""
    spec = template["spec"]
    container = {field: spec["containers"][0][field] for field in TRAIN_PATCHED_IN_CONTAINER}
    patched = {field: spec[field] for field in TRAIN_PATCHED if field in spec} | {"containers": [container]}
    pods = {"metadata": template["metadata"], "spec": patched}
    jobs = [{"name": TRAIN_STEP, "template": {"spec": {"template": pods}}}]
    return {
        "manager": "assay.dev/assay",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }


def _trainjob_misfits(order: Order) -> Iterator[Problem]:
    """Each option that a TrainJob does not support."""
    spec = _train_template(order)["spec"]
    fields = [field for field in spec if field not in (*TRAIN_PATCHED, *TRAIN_RUNTIMES_OWN)]
    fields += [
        field
        for field in spec["containers"][0]
        if field not in (*TRAIN_IN_TRAINER, *TRAIN_PATCHED_IN_CONTAINER)
    ]
    of_options: dict[str, list[str]] = {}
    for name in fields:
        of_options.setdefault(_train_option(name, order.options), []).append(name)
    for option, unplaced in of_options.items():
        yield Problem(
            option,
            f"a TrainJob does not support {', '.join(unplaced)}: "
            "use kind: jobset or job, or leave it to the runtime",
        )


def _train_template(order: Order) -> Manifest:
    return pod.template(order, env={}, node_from=TRAIN_INDEX, container=TRAIN_CONTAINER)


def _train_option(field: str, options: KubernetesSystem) -> str:
    """The option that a field of the pod comes from; `kind` if it comes from the trial's shape."""
    if field == "dnsPolicy":
        return "hostNetwork"
    if getattr(options, field, None):
        return field
    if field == "topologySpreadConstraints":
        return "placement" if options.placement == "spread" else "kind"
    return "patch"


TRAINJOB = JobKind(
    name="trainjob",
    job_ref=JobRef("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
    manifest=_trainjob,
    misfits=_trainjob_misfits,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="Kubeflow Trainer",
    heeds_deletion=False,  # Trainer 2.3 re-creates the JobSet for as long as it sees the TrainJob
)


def _pytorchjob(order: Order) -> list[Manifest]:
    """`pytorchjob`: a PyTorchJob of the Kubeflow Training Operator (v1); its master is worker 0."""
    several = order.workers > 1
    template = pod.template(
        order, env={}, node_from=PYTORCH_INDEX if several else None, container=PYTORCH_CONTAINER
    )
    replicas = {"Master": _pytorch_replicas(1, template)}
    if several:
        replicas["Worker"] = _pytorch_replicas(order.workers - 1, template)
    return [
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": pod.job_metadata(order),
            "spec": {
                "runPolicy": {"cleanPodPolicy": "None", **pod.job_limits(order)},
                "pytorchReplicaSpecs": replicas,
            },
        }
    ]


def _pytorch_replicas(number: int, template: Manifest) -> Manifest:
    return {"replicas": number, "restartPolicy": "Never", "template": template}


PYTORCHJOB = JobKind(
    name="pytorchjob",
    job_ref=JobRef("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    manifest=_pytorchjob,
    ended=lambda obj: ended_by_condition(obj, "Succeeded", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="the Kubeflow Training Operator",
)


KINDS: dict[str, JobKind] = {kind.name: kind for kind in (POD, JOB, MPIJOB, JOBSET, TRAINJOB, PYTORCHJOB)}
