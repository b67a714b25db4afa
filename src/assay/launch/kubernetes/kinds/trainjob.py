"""`trainjob`: a TrainJob of Kubeflow Trainer with its runtime torch-distributed."""

from __future__ import annotations

from collections.abc import Iterator

from assay.errors import Problem
from assay.launch.kubernetes import pod
from assay.launch.kubernetes.kinds.kind import JobKind, JobRef, ended_by_condition
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest, Order

RUNTIME = "torch-distributed"
STEP = CONTAINER = "node"  # names in that runtime
INDEX = "PET_NODE_RANK"  # set, with PET_MASTER_ADDR and PET_MASTER_PORT, by the runtime
PATCHED = (
    "affinity", "imagePullSecrets", "nodeSelector", "securityContext", "serviceAccountName",
    "terminationGracePeriodSeconds", "tolerations", "volumes",
)  # fmt: skip
THE_RUNTIMES = ("restartPolicy", "enableServiceLinks", "automountServiceAccountToken", "containers")
IN_TRAINER = ("name", "image", "command", "env", "resources")
PATCHED_IN_CONTAINER = ("name", "securityContext", "volumeMounts")


def manifest(order: Order) -> list[Manifest]:
    """The TrainJob."""
    template = _template(order)
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
                "runtimeRef": {"name": RUNTIME},
                "trainer": trainer,
                "runtimePatches": [_patch(template)],
            },
        }
    ]


def _patch(template: Manifest) -> Manifest:
    """The parts of the pod that don't belong to the trainer, as a patch of the runtime."""
    spec = template["spec"]
    container = {field: spec["containers"][0][field] for field in PATCHED_IN_CONTAINER}
    patched = {field: spec[field] for field in PATCHED if field in spec} | {"containers": [container]}
    pods = {"metadata": template["metadata"], "spec": patched}
    jobs = [{"name": STEP, "template": {"spec": {"template": pods}}}]
    return {
        "manager": "assay.dev/assay",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
    }


def misfits(order: Order) -> Iterator[Problem]:
    """Each option that a TrainJob does not support."""
    spec = _template(order)["spec"]
    fields = [field for field in spec if field not in (*PATCHED, *THE_RUNTIMES)]
    fields += [field for field in spec["containers"][0] if field not in (*IN_TRAINER, *PATCHED_IN_CONTAINER)]
    of_options: dict[str, list[str]] = {}
    for field in fields:
        of_options.setdefault(_option(field, order.options), []).append(field)
    for option, unplaced in of_options.items():
        yield Problem(
            option,
            f"a TrainJob does not support {', '.join(unplaced)}: "
            "use kind: jobset or job, or leave it to the runtime",
        )


def _template(order: Order) -> Manifest:
    return pod.template(order, env={}, node_from=INDEX, container=CONTAINER)


def _option(field: str, options: KubernetesSystem) -> str:
    """The option that a field of the pod comes from; `kind` if it comes from the trial's shape."""
    if field == "dnsPolicy":
        return "hostNetwork"
    if getattr(options, field, None):
        return field
    if field == "topologySpreadConstraints":
        return "placement" if options.placement == "spread" else "kind"
    return "patch"


KIND = JobKind(
    name="trainjob",
    job_ref=JobRef("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjobs"),
    manifest=manifest,
    misfits=misfits,
    ended=lambda obj: ended_by_condition(obj, "Complete", "Failed"),
    expected_pods=lambda shape: shape.workers,
    needs="Kubeflow Trainer",
    heeds_deletion=False,  # Trainer 2.3 re-creates the JobSet for as long as it sees the TrainJob
)
