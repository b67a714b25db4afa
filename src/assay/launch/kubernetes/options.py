"""The options of a Kubernetes or OpenShift cluster in systems.yaml.

Options that Kubernetes has a name for use that name; Assay's own options are named as on every other system.
"""

# ruff: noqa: N815  (Kubernetes' own names)

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assay import units
from assay.launch import job_spec
from assay.launch.job_spec import HOST_PYTHON, HOST_PYTHON_HELP, host_python
from assay.launch.kubernetes.fields import (
    Key,
    Labels,
    LabelValue,
    NamespaceName,
    ObjectName,
    Quantity,
    check_keys,
    check_object,
)
from assay.launch.kubernetes.fields import check_patch as check_patch

KindName = Literal["auto", "pod", "job", "mpijob", "jobset", "trainjob", "pytorchjob"]
Duration = Annotated[float, BeforeValidator(units.seconds), Field(ge=0)]
Amounts = dict[str, Quantity]
SECRET_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9._-]+")
RESERVED = "assay.dev/"
SOURCES = ("hostPath", "persistentVolumeClaim", "configMap", "secret", "emptyDir")


class OptionGroup(BaseModel):
    """A mapping inside a system's entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class Resources(OptionGroup):
    """What a pod requests, as requests and as limits, so that what is measured is what was requested."""

    accelerator: Amounts = Field(
        default_factory=dict,
        description="Resources for each accelerator of a pod, like {nvidia.com/gpu: 1, cpu: 8}.",
    )
    pod: Amounts = Field(
        default_factory=dict,
        description="Resources for each pod, regardless of its accelerators, like {rdma/hca: 1}.",
    )
    limit_cpu: bool = Field(
        default=True,
        description="Whether cpu is also a limit, beyond which a pod is throttled, or only a request.",
    )

    @model_validator(mode="after")
    def _each_once(self) -> Resources:
        if twice := sorted(self.accelerator.keys() & self.pod.keys()):
            raise ValueError(f"{twice[0]} is under both accelerator and pod; write it under one of them")
        return self


class Toleration(OptionGroup):
    """A taint that pods tolerate."""

    key: Key | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None


class Affinity(OptionGroup):
    """Kubernetes' own terms; the API server checks their contents."""

    nodeAffinity: dict[str, Any] | None = None
    podAffinity: dict[str, Any] | None = None
    podAntiAffinity: dict[str, Any] | None = None


class TopologySpread(OptionGroup):
    """How evenly a job's pods are spread over the values of a node label; Assay sets `labelSelector`."""

    topologyKey: Key
    maxSkew: int = Field(1, ge=1)
    whenUnsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "DoNotSchedule"
    minDomains: int | None = Field(None, ge=1)
    nodeAffinityPolicy: Literal["Honor", "Ignore"] | None = None
    nodeTaintsPolicy: Literal["Honor", "Ignore"] | None = None


class Topology(OptionGroup):
    """The level of Kueue's topology that a job's pods share: a node label, or unconstrained."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> Topology:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("topology: write exactly one of required, preferred, and unconstrained")
        return self


class ResourceClaim(OptionGroup):
    """A claim of dynamic resource allocation (DRA), by template or by name."""

    name: NamespaceName
    resourceClaimTemplateName: ObjectName | None = None
    resourceClaimName: ObjectName | None = None
    request: str | None = Field(None, description="One request of the claim; default: all.")

    @model_validator(mode="after")
    def _one_source(self) -> ResourceClaim:
        if (self.resourceClaimTemplateName is None) == (self.resourceClaimName is None):
            raise ValueError(f"{self.name}: write either resourceClaimTemplateName or resourceClaimName")
        return self


def _check_own(names: dict[str, str]) -> dict[str, str]:
    for name in names:
        if name.startswith(RESERVED):
            raise ValueError(f"{name}: names below {RESERVED} are reserved for Assay; remove it")
    return names


def _distinct(nodes: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({node for node in nodes if nodes.count(node) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: listed twice; list each node once")
    return nodes


def _check_secret_keys(env: dict[str, str]) -> dict[str, str]:
    for name, source in env.items():
        if SECRET_KEY.fullmatch(source) is None:
            raise ValueError(f"{name}: found {source!r}; expected Secret and key, like registry/password")
        check_object(source.partition("/")[0])
    job_spec.check_env(env)
    return env


class KubernetesSystem(OptionGroup):
    """The options of a cluster in systems.yaml."""

    # where
    context: str | None = Field(None, description="Context of the kubeconfig; default: the current one.")
    namespace: NamespaceName | None = Field(None, description="Namespace; default: the context's.")
    kind: KindName = Field(
        "auto", description="Kind of job; auto selects the simplest that the cluster offers."
    )

    # what runs
    image: str | None = Field(None, description="Container image of the ranks; default: the workload's.")
    imagePullPolicy: Literal["Always", "IfNotPresent", "Never"] | None = None
    imagePullSecrets: tuple[ObjectName, ...] = Field(
        (), description="Names of Secrets for the image's registry."
    )
    python: str = Field(
        "python3", description=f"Interpreter in the image that runs the trials. {HOST_PYTHON_HELP}."
    )
    env: job_spec.Env = Field(default_factory=dict, description=job_spec.ENV_HELP)
    envFromSecret: Annotated[dict[str, str], AfterValidator(_check_secret_keys)] = Field(
        default_factory=dict,
        description="Variables whose values come from a Secret in the cluster: SECRET/KEY.",
    )
    volumes: tuple[Volume, ...] = Field((), description="Volumes mounted into each pod.")
    shm: Quantity | None = Field(
        None, description="Size of /dev/shm; default: as much as the pod's memory allows."
    )

    # resources
    resources: Resources = Field(Resources(), description="Accelerators, CPUs, memory, devices.")
    resourceClaims: tuple[ResourceClaim, ...] = Field(
        (), description="Claims of dynamic resource allocation."
    )
    pin_cpus: bool = Field(False, description=f"{job_spec.PIN_HELP} The pod gets exclusive CPUs.")
    runtimeClassName: ObjectName | None = None
    networks: tuple[str, ...] = Field((), description="Secondary networks (Multus), NAME or NAMESPACE/NAME.")
    hostNetwork: bool = Field(False, description="Run pods in their node's network.")

    # user
    serviceAccountName: ObjectName | None = None
    runAsUser: Annotated[int, Field(ge=0)] | Literal["image", "assigned"] = Field(
        1000,
        description="User ID of the ranks; image: the image's user; assigned: the platform assigns one, as "
        "on OpenShift.",
    )
    capabilities: tuple[str, ...] = Field(
        (), description="Linux capabilities to add, like IPC_LOCK for RDMA."
    )

    # nodes
    placement: Literal["spread", "pack"] | None = Field(
        None,
        description="If a shape names no nodes: `spread` puts each pod on its own node, `pack` puts all on "
        "one; default: the scheduler decides.",
    )
    nodes: Annotated[tuple[ObjectName, ...], AfterValidator(_distinct)] = Field(
        (), description="Names of the only nodes that pods may run on; default: any suitable node."
    )
    nodeSelector: Labels = Field(default_factory=dict, description="Labels that a node must have.")
    affinity: Affinity = Field(Affinity(), description="Affinity in addition to that of shape and placement.")
    tolerations: tuple[Toleration, ...] = ()
    topologySpreadConstraints: tuple[TopologySpread, ...] = ()
    schedulerName: ObjectName | None = None
    priorityClassName: ObjectName | None = None
    queue: LabelValue | None = Field(None, description="Kueue LocalQueue that admits the jobs.")
    topology: Topology | None = Field(None, description="Kueue's topology-aware scheduling.")

    # time limits
    grace: job_spec.Grace = Field(5.0, description=job_spec.GRACE_HELP)
    start_timeout: Duration = Field(
        900.0, description="Longest wait for nodes and images; the cluster ends a job that Assay abandoned."
    )
    ttlSecondsAfterFinished: int = Field(
        86400, ge=0, description="How long the cluster keeps a finished job that Assay has not collected."
    )

    # other
    prepare: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict,
        exclude=True,  # it concerns the cluster and changes nothing that a run sends
        description="Parts that `assay cluster prepare` installs in the cluster, each with its options.",
    )
    labels: Annotated[Labels, AfterValidator(_check_own)] = Field(
        default_factory=dict, description="Labels added to every object."
    )
    annotations: Annotated[dict[str, str], AfterValidator(check_keys), AfterValidator(_check_own)] = Field(
        default_factory=dict, description="Annotations added to every object."
    )
    patch: Annotated[dict[str, Any], AfterValidator(check_patch)] = Field(
        default_factory=dict, description="Strategic merge patch, applied last to the rendered pod template."
    )

    @property
    def max_nodes(self) -> int | None:
        """The number of named nodes; None if none are named."""
        return len(self.nodes) or None

    @model_validator(mode="after")
    def _pinned_is_guaranteed(self) -> KubernetesSystem:
        requested = {**self.resources.accelerator, **self.resources.pod}
        if self.pin_cpus and not (requested.keys() >= {"cpu", "memory"} and self.resources.limit_cpu):
            raise ValueError(
                "pin_cpus needs cpu and memory under resources, and no limit_cpu: false: only pods with "
                "quality of service Guaranteed get exclusive CPUs"
            )
        return self


def with_host_python(system: KubernetesSystem) -> KubernetesSystem:
    """The system with this machine's interpreter and its directories, if it requests `python: host`

    The directories are those of the node, at the same paths: on a file system that the nodes share.
    """
    if system.python != HOST_PYTHON:
        return system
    host = host_python()
    shown = (
        Volume.model_validate({"mountPath": path, "hostPath": path, "readOnly": True})
        for path in host.directories
    )
    return system.model_copy(update={"python": host.executable, "volumes": (*system.volumes, *shown)})


class Volume(BaseModel):
    """One volume, with exactly one source."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    mountPath: str = Field(pattern="^/", description="Where the ranks find it.")
    readOnly: bool = False
    subPath: str | None = None
    hostPath: str | None = Field(None, pattern="^/", description="A path on the node.")
    type: Literal[
        "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket", "CharDevice", "BlockDevice"
    ] = Field("Directory", description="What the path on the node must be.")
    persistentVolumeClaim: ObjectName | None = Field(None, description="Name of a claim.")
    configMap: ObjectName | None = Field(None, description="Name of a ConfigMap.")
    secret: ObjectName | None = Field(None, description="Name of a Secret.")
    emptyDir: Literal["Disk", "Memory"] | None = Field(
        None, description="An empty directory, on disk or in memory."
    )
    sizeLimit: Quantity | None = Field(None, description="Size limit of an emptyDir.")

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        sources = [source for source in SOURCES if getattr(self, source) is not None]
        if len(sources) != 1:
            raise ValueError(
                f"{self.mountPath}: found {' and '.join(sources) or 'no source'}; "
                f"expected one of {', '.join(SOURCES)}"
            )
        if self.sizeLimit is not None and self.emptyDir is None:
            raise ValueError(f"{self.mountPath}: only an emptyDir has a sizeLimit")
        return self

    def source(self) -> dict[str, Any]:
        """Its entry in a pod's `volumes`, without the name."""
        if self.hostPath is not None:
            return {"hostPath": {"path": self.hostPath, "type": self.type}}
        if self.persistentVolumeClaim is not None:
            return {"persistentVolumeClaim": {"claimName": self.persistentVolumeClaim}}
        if self.configMap is not None:
            return {"configMap": {"name": self.configMap}}
        if self.secret is not None:
            return {"secret": {"secretName": self.secret}}
        medium = {"medium": "Memory"} if self.emptyDir == "Memory" else {}
        return {"emptyDir": {**medium, **({"sizeLimit": self.sizeLimit} if self.sizeLimit else {})}}

    def mount(self, name: str) -> dict[str, Any]:
        """Its entry in a container's `volumeMounts`."""
        mount: dict[str, Any] = {"name": name, "mountPath": self.mountPath}
        if self.readOnly:
            mount["readOnly"] = True
        if self.subPath is not None:
            mount["subPath"] = self.subPath
        return mount
