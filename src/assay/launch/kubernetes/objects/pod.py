"""The pod of every kind of job: its containers, its security, and the nodes that it may run on.

Its first process is the relay, which starts the keeper and prints what it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import Problem
from assay.launch import job_spec
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.objects import payload
from assay.launch.kubernetes.objects.order import (
    ANNOTATION_TRIAL,
    Manifest,
    Order,
    labels_of,
    labels_of_ranks,
)
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import SecretReference, Shape

CONTAINER = "ranks"
KEEPER_SLACK_S = 15.0  # beyond the grace time: the keeper's wait after SIGKILL, and the last frames
MULTUS = "k8s.v1.cni.cncf.io/networks"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
HOST = "kubernetes.io/hostname"
MORE_THAN_ANY = 2**31 - 1
KUEUE_TOPOLOGY = "kueue.x-k8s.io/podset-{}-topology"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"


def misfits(order: Order) -> Iterator[Problem]:
    """Options of the system that don't fit the job, whatever its kind."""
    shape, cpus = order.job.shape, _amounts(order).get("cpu")
    if not _image(order):
        yield Problem(
            "image",
            "neither the system nor the workload names a container image: "
            "set one that has the workload's libraries, like image: pytorch/pytorch:latest",
        )
    if order.options.pin_cpus and cpus is not None and not fields.is_whole(cpus):
        yield Problem(
            "resources",
            f"pin_cpus: shape {shape} gives each pod {cpus} CPUs; only whole CPUs can be exclusive: "
            "change cpu under resources",
        )


def template(
    order: Order,
    *,
    env: Mapping[str, str],
    node_from: str | None,
    container: str = CONTAINER,
    subdomain: str | None = None,
) -> Manifest:
    """The pod template, with the system's patch applied.

    env        tells the keeper where the ranks meet, for this kind
    node_from  variable from which a pod knows its worker number, from 0; None if there is only one worker
    container  name of the container, if an operator looks for one
    subdomain  the headless Service through which the pods know each other, if no operator makes one
    """
    options = order.options
    rendered = {
        "metadata": {
            "labels": {**options.labels, **labels_of(order.job.token), **labels_of_ranks(order.job.token)},
            "annotations": _annotations(order),
        },
        "spec": {
            "restartPolicy": "Never",
            **({"subdomain": subdomain} if subdomain else {}),
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": math.ceil(options.grace + KEEPER_SLACK_S),
            **({"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"} if options.hostNetwork else {}),
            **({"serviceAccountName": options.serviceAccountName} if options.serviceAccountName else {}),
            **secrets(options),
            **pod_fields(order),
            "securityContext": pod_security_context(options),
            "containers": [{"name": container, **_container(order, env, node_from)}],
            "volumes": [*order.volumes, *volumes(options)],
            **_claims(options),
        },
    }
    result: Manifest = fields.patched(rendered, options.patch)
    return result


def command(order: Order, node_from: str | None) -> list[str]:
    """The container's command, without a shell."""
    relay = [order.options.python, "-I", "-S", payload.program(payload.RELAY), payload.JOB_DIR, "--keep"]
    return [*relay, "--unpack", payload.SENT_DIR, *(["--node-from", node_from] if node_from else [])]


def deadline_s(order: Order) -> int:
    """When the platform ends a job that nothing else ended, seconds: later than both keeper and Assay."""
    options = order.options
    return math.ceil(options.start_timeout + order.job.longest_s + options.grace + KEEPER_SLACK_S)


def job_metadata(order: Order) -> Manifest:
    """Metadata of a job object of any kind."""
    metadata = order.metadata()
    return {**metadata, "labels": {**metadata["labels"], **job_labels(order)}}


def job_limits(order: Order) -> Manifest:
    """The limits of every Job: one attempt, and neither runs nor stays forever."""
    return {
        "backoffLimit": 0,
        "activeDeadlineSeconds": deadline_s(order),
        "ttlSecondsAfterFinished": order.options.ttlSecondsAfterFinished,
    }


def resources(order: Order) -> Manifest:
    """Requests and limits of a worker's pod."""
    requested, amounts = order.options.resources, _amounts(order)
    limits = {name: amount for name, amount in amounts.items() if name != "cpu" or requested.limit_cpu}
    requirements: Manifest = {}
    if amounts:
        requirements |= {"requests": dict(sorted(amounts.items())), "limits": dict(sorted(limits.items()))}
    if order.options.resourceClaims:
        requirements["claims"] = [
            {"name": claim.name, **({"request": claim.request} if claim.request else {})}
            for claim in order.options.resourceClaims
        ]
    return requirements


def _amounts(order: Order) -> dict[str, str]:
    """What a worker's pod requests for all its ranks together."""
    requested, ranks = order.options.resources, order.job.shape.accelerators
    return {
        name: fields.quantity_times(of_one, ranks) for name, of_one in requested.accelerator.items()
    } | requested.pod


def _container(order: Order, env: Mapping[str, str], node_from: str | None) -> Manifest:
    options = order.options
    requirements = resources(order)
    return {
        "image": _image(order),
        **({"imagePullPolicy": options.imagePullPolicy} if options.imagePullPolicy else {}),
        "command": command(order, node_from),
        "env": env_entries({**home_env(options), **env}, options, job_spec.secrets(order.job, options.env)),
        **({"resources": requirements} if requirements else {}),
        "securityContext": container_security_context(options),
        "volumeMounts": [
            *payload.mounts(),
            {"name": "assay-shm", "mountPath": "/dev/shm"},  # noqa: S108  (shared memory, not a file)
            *(volume.mount(f"volume-{number}") for number, volume in enumerate(options.volumes)),
        ],
    }


def _image(order: Order) -> str:
    return order.options.image or order.job.task.image or ""


def env_entries(
    env: Mapping[str, str], options: KubernetesSystem, secrets: Mapping[str, SecretReference]
) -> list[Manifest]:
    """The variables of a container: text, and those from Secrets of the cluster."""
    plain = [{"name": name, "value": value} for name, value in sorted(env.items())]
    places = {name: tuple(source.split("/", 1)) for name, source in options.envFromSecret.items()}
    places |= {name: (reference.name, reference.key) for name, reference in secrets.items()}
    return plain + [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for name, (secret, key) in sorted(places.items())
    ]


def _annotations(order: Order) -> dict[str, str]:
    networks = {MULTUS: ",".join(order.options.networks)} if order.options.networks else {}
    own = {ANNOTATION_TRIAL: order.job.trial_id}
    return {**order.options.annotations, **networks, **pod_annotations(order), **own}


def secrets(options: KubernetesSystem) -> Manifest:
    """The field of a pod that names the Secrets of its image's registry; empty without any."""
    names = [{"name": name} for name in options.imagePullSecrets]
    return {"imagePullSecrets": names} if names else {}


def volumes(options: KubernetesSystem) -> list[Manifest]:
    """Shared memory, since the default of 64 MiB is too little for NCCL; then the system's volumes."""
    shm = {"medium": "Memory", **({"sizeLimit": options.shm} if options.shm else {})}
    own = [{"name": "assay-shm", "emptyDir": shm}]
    return own + [{"name": f"volume-{i}", **volume.source()} for i, volume in enumerate(options.volumes)]


def _claims(options: KubernetesSystem) -> Manifest:
    claims = [claim.model_dump(exclude_none=True, exclude={"request"}) for claim in options.resourceClaims]
    return {"resourceClaims": claims} if claims else {}


def runs_as_other(options: KubernetesSystem) -> bool:
    """Whether the user is neither root nor the image's, and so may be unknown to the image."""
    return options.runAsUser not in (0, "image")


def pod_security_context(options: KubernetesSystem) -> Manifest:
    """The pod's security context. `assigned` omits the user: OpenShift assigns one from its range."""
    context: Manifest = {"seccompProfile": {"type": "RuntimeDefault"}}
    if runs_as_other(options):
        context["runAsNonRoot"] = True
    if isinstance(options.runAsUser, int):
        context["runAsUser"] = options.runAsUser
    return context


def container_security_context(options: KubernetesSystem) -> Manifest:
    """The container's security context. Root keeps its default capabilities: it needs them to read files."""
    capabilities: Manifest = {"drop": ["ALL"]} if runs_as_other(options) else {}
    if options.capabilities:
        capabilities["add"] = list(options.capabilities)
    return {
        "allowPrivilegeEscalation": False,
        **({"capabilities": capabilities} if capabilities else {}),
    }


def home_env(options: KubernetesSystem) -> dict[str, str]:
    """A home directory and a name for a user that the image may not know: torch, for one, needs both."""
    return {"HOME": "/assay/job", "USER": "assay"} if runs_as_other(options) else {}


def nodes_of(shape: Shape, options: KubernetesSystem) -> int | None:
    """How many nodes a job must run on: from its shape, otherwise from the placement: one per worker, or one.

    None if any number will do.
    """
    if shape.nodes is not None or shape.workers == 1:
        return shape.nodes
    return {"spread": shape.workers, "pack": 1, None: None}[options.placement]


def pod_fields(order: Order) -> Manifest:
    """Fields of the pod's spec that constrain where it may run; empty if there are no constraints."""
    options = order.options
    fields = {
        "nodeSelector": dict(options.nodeSelector),
        "affinity": _affinity(order),
        "tolerations": [toleration.model_dump(exclude_none=True) for toleration in options.tolerations],
        "topologySpreadConstraints": _spread(order),
        "schedulerName": options.schedulerName,
        "priorityClassName": options.priorityClassName,
        "runtimeClassName": options.runtimeClassName,
    }
    return {name: value for name, value in fields.items() if value}


def pod_annotations(order: Order) -> dict[str, str]:
    """What Kueue reads from a pod template."""
    topology = order.options.topology
    if topology is None:
        return {}
    ((how, level),) = topology.model_dump(exclude_none=True).items()
    return {KUEUE_TOPOLOGY.format(how): "true" if level is True else level}


def job_labels(order: Order) -> dict[str, str]:
    """What Kueue reads from a job object."""
    return {KUEUE_QUEUE: order.options.queue} if order.options.queue else {}


def _affinity(order: Order) -> Manifest:
    """The system's terms, and sharing of nodes if fewer nodes than pods are requested."""
    affinity: Manifest = order.options.affinity.model_dump(exclude_none=True)
    if order.options.nodes:
        affinity["nodeAffinity"] = _on_named_nodes(order.options)
    nodes, together = nodes_of(order.job.shape, order.options), dict(affinity.get("podAffinity", {}))
    if order.workers == 1:
        return affinity
    term = {"labelSelector": {"matchLabels": labels_of_ranks(order.job.token)}, "topologyKey": HOST}
    if nodes == 1:
        together[REQUIRED] = [*together.get(REQUIRED, ()), term]
    elif nodes not in (None, order.workers):
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        together[key] = [*together.get(key, ()), {"weight": 100, "podAffinityTerm": term}]
    return {**affinity, "podAffinity": together} if together else affinity


def _on_named_nodes(options: KubernetesSystem) -> Manifest:
    """The system's own terms, each combined with each of its nodes. One term must hold, with all its parts.

    Nodes are matched by name: the label kubernetes.io/hostname may differ. The API allows one name per term.
    """
    affinity = dict(options.affinity.nodeAffinity or {})
    terms = affinity.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    named = [{"key": "metadata.name", "operator": "In", "values": [node]} for node in options.nodes]
    bound = [
        {**term, "matchFields": [*term.get("matchFields", ()), name]} for term in terms for name in named
    ]
    return {**affinity, REQUIRED: {"nodeSelectorTerms": bound}}


def _spread(order: Order) -> list[Manifest]:
    """The system's constraints, and at most as many pods per node as fill the requested nodes.

    If there are fewer nodes than minDomains, the minimum over nodes counts as zero: maxSkew is then the most
    pods that may be on any node. With that and a preference for company, exactly as many nodes are filled as
    were requested.
    """
    selector = {"labelSelector": {"matchLabels": labels_of_ranks(order.job.token)}}
    constraints = order.options.topologySpreadConstraints
    spread = [{**constraint.model_dump(exclude_none=True), **selector} for constraint in constraints]
    nodes = nodes_of(order.job.shape, order.options)
    if order.workers > 1 and nodes is not None and nodes > 1:
        most = order.workers // nodes
        hard = {"minDomains": MORE_THAN_ANY, "whenUnsatisfiable": "DoNotSchedule"}
        spread.append({"topologyKey": HOST, "maxSkew": most, **hard, **selector})
    return spread


def meets(value: str | None, requirement: Mapping[str, Any]) -> bool:
    """Whether a value, None if there is none, meets a requirement of a selector."""
    values, operator = requirement.get("values", ()), requirement["operator"]
    if operator in ("In", "Exists"):
        return value is not None and (operator == "Exists" or value in values)
    if operator in ("NotIn", "DoesNotExist"):
        return value is None or (operator == "NotIn" and value not in values)
    if value is None or not value.lstrip("-").isdigit():  # Gt and Lt apply to integers only
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
