"""What a system's pods need from a cluster's security rules, and what OpenShift needs before it runs them.

It is read from the pod as it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from assay.launch.kubernetes.client import Cluster, Resource
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.manifests import render
from assay.launch.kubernetes.objects.order import Manifest
from assay.launch.kubernetes.objects.rbac import AUTHORIZATION, head
from assay.launch.kubernetes.options import KubernetesSystem, with_host_python
from assay.launch.kubernetes.wire import ApiError
from assay.records import Job, Shape, Task

Level = Literal["privileged", "baseline", "restricted"]
LEVELS: tuple[Level, ...] = ("privileged", "baseline", "restricted")  # least strict first

# Source: kubernetes.io/docs/concepts/security/pod-security-standards, for the fields that Assay's pods can
# have
BASELINE_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
RESTRICTED_CAPABILITIES = {"NET_BIND_SERVICE"}
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
    "secret",
}  # fmt: skip
ACCOUNT = "assay-ranks"
SECURITY = "security.openshift.io"
RDMA_CAPABILITY = "IPC_LOCK"  # an RDMA device reads and writes memory that must not move
ENFORCE = "pod-security.kubernetes.io/enforce"
# OpenShift derives a namespace's Pod Security level from the SCCs of its accounts, unless disabled
LABEL_SYNC = f"{SECURITY}/scc.podSecurityLabelSync"
NAMESPACES = Resource("v1", "namespaces")
# Served by OpenShift's own API server: a CustomResourceDefinition can't provide a review.
REVIEW = "PodSecurityPolicySubjectReview"
# Set on every namespace by OpenShift's controller; also in MicroShift, which has no such API server.
USER_RANGE = "openshift.io/sa.scc.uid-range"


@dataclass(frozen=True)
class PrivilegeRequest:
    """One thing that a pod requests, and the strictest level that still allows it."""

    what: str
    allowed_by: Level


def pod_of(options: KubernetesSystem) -> dict[str, Any]:
    """The spec of a worker's pod, with the system's patch. Raises InputError as rendering does."""
    spec: dict[str, Any] = template_of(options)["spec"]
    return spec


def template_of(options: KubernetesSystem) -> dict[str, Any]:
    """The template of a worker's pod. Raises InputError as rendering does."""
    task = Task(("true",), image="image")  # any task: the requests don't depend on it
    job = Job("token", "trial", Shape(1, 1), task, 0, 60.0)
    rendered = render(job, with_host_python(options), KINDS["pod"])
    template: dict[str, Any] = rendered.job["spec"]["template"]
    return template


def asks(spec: dict[str, Any]) -> tuple[PrivilegeRequest, ...]:
    """Everything that keeps a pod from the level `restricted`."""
    return (
        *_of_pod(spec),
        *(ask for container in spec["containers"] for ask in _of_container(container, spec)),
    )


def level(spec: dict[str, Any]) -> Level:
    """The strictest Pod Security level that allows the pod."""
    return min((ask.allowed_by for ask in asks(spec)), key=LEVELS.index, default="restricted")


def capabilities(spec: dict[str, Any]) -> tuple[str, ...]:
    """The capabilities that the pod's containers add, sorted."""
    return tuple(
        sorted({name for container in spec["containers"] for name in _capabilities(container).get("add", ())})
    )


def _of_pod(spec: dict[str, Any]) -> Iterator[PrivilegeRequest]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield PrivilegeRequest(field, "privileged")
    for volume in spec.get("volumes", ()):
        if "hostPath" in volume:
            yield PrivilegeRequest(f"hostPath {volume['hostPath']['path']}", "privileged")
        elif not (volume.keys() - {"name"}) <= RESTRICTED_VOLUMES:
            yield PrivilegeRequest(f"a volume of {', '.join(volume.keys() - {'name'})}", "baseline")


def _of_container(container: dict[str, Any], spec: dict[str, Any]) -> Iterator[PrivilegeRequest]:
    own, pod = container.get("securityContext", {}), spec.get("securityContext", {})
    if own.get("privileged"):
        yield PrivilegeRequest("privileged containers", "privileged")
    for name in _capabilities(container).get("add", ()):
        if name not in RESTRICTED_CAPABILITIES:
            yield PrivilegeRequest(
                f"capability {name}", "baseline" if name in BASELINE_CAPABILITIES else "privileged"
            )
    if "ALL" not in _capabilities(container).get("drop", ()):
        yield PrivilegeRequest("the default capabilities of a container", "baseline")
    if own.get("allowPrivilegeEscalation") is not False:
        yield PrivilegeRequest("privilege escalation", "baseline")
    both = {**pod, **own}
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield PrivilegeRequest("a user that may be root", "baseline")
    seccomp = both.get("seccompProfile", {}).get("type", "none")
    if seccomp not in ("RuntimeDefault", "Localhost"):
        yield PrivilegeRequest(
            f"seccomp profile {seccomp}", "privileged" if seccomp == "Unconfined" else "baseline"
        )


def _capabilities(container: dict[str, Any]) -> dict[str, list[str]]:
    capabilities: dict[str, list[str]] = container.get("securityContext", {}).get("capabilities", {})
    return capabilities


def with_rdma(options: KubernetesSystem) -> KubernetesSystem:
    """The same system, with pods that may lock memory."""
    capabilities = tuple(dict.fromkeys((*options.capabilities, RDMA_CAPABILITY)))
    return options.model_copy(update={"capabilities": capabilities})


def account_of(options: KubernetesSystem) -> str:
    """The ServiceAccount that the pods run as."""
    return options.serviceAccountName or ACCOUNT


def lacks(written: KubernetesSystem, prepared: KubernetesSystem) -> str:
    """What the system's entry must contain so that its pods use what was prepared; "" if nothing."""
    lines = []
    if written.serviceAccountName is None:
        lines.append(f"serviceAccountName: {ACCOUNT}")
    if written.capabilities != prepared.capabilities:
        lines.append(f"capabilities: [{', '.join(prepared.capabilities)}]")
    return ", ".join(lines)


def scc_name(namespace: str) -> str:
    """Name of the SecurityContextConstraints of a namespace's pods."""
    return f"assay-{namespace}"


def openshift_objects(options: KubernetesSystem, namespace: str) -> list[Manifest]:
    """In the order of creation.

    Always Namespace and ServiceAccount; SecurityContextConstraints with Role and RoleBinding only if the
    pods need more than `restricted-v2`, which every account of OpenShift may use.
    """
    spec = pod_of(options)
    labels = {ENFORCE: level(spec), LABEL_SYNC: "false"}
    space = head("v1", "Namespace", namespace)
    space["metadata"]["labels"] |= labels
    manifests = [space, head("v1", "ServiceAccount", account_of(options), namespace)]
    if beyond_restricted_v2(spec):
        manifests += [_scc(spec, namespace), *_use_of_scc(account_of(options), namespace)]
    return manifests


def beyond_restricted_v2(spec: dict[str, Any]) -> tuple[str, ...]:
    """What the pod requests that OpenShift's `restricted-v2` refuses, as text."""
    user = spec.get("securityContext", {}).get("runAsUser")
    fixed = () if user is None else (f"user ID {user}, which is outside the namespace's range",)
    return (*(ask.what for ask in asks(spec)), *fixed)


def _scc(spec: dict[str, Any], namespace: str) -> Manifest:
    """As strict as the pods allow. Constraints for RDMA differ from restricted-v2 in one capability."""
    contexts = [container["securityContext"] for container in spec["containers"]]
    drops = all("ALL" in context.get("capabilities", {}).get("drop", ()) for context in contexts)
    volumes = {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}}
    return {
        **head(f"{SECURITY}/v1", "SecurityContextConstraints", scc_name(namespace)),
        "allowHostDirVolumePlugin": "hostPath" in volumes,
        "allowHostIPC": bool(spec.get("hostIPC")),
        "allowHostNetwork": bool(spec.get("hostNetwork")),
        "allowHostPID": bool(spec.get("hostPID")),
        "allowHostPorts": bool(spec.get("hostNetwork")),
        "allowPrivilegeEscalation": any(context["allowPrivilegeEscalation"] for context in contexts),
        "allowPrivilegedContainer": any(context.get("privileged") for context in contexts),
        "allowedCapabilities": list(capabilities(spec)),
        "defaultAddCapabilities": [],
        "fsGroup": {"type": "MustRunAs"},
        "priority": None,
        "readOnlyRootFilesystem": False,
        "requiredDropCapabilities": ["ALL"] if drops else [],
        "runAsUser": _scc_user(spec),
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": {"type": "RunAsAny"},
        "volumes": sorted(volumes | RESTRICTED_VOLUMES),
    }


def _scc_user(spec: dict[str, Any]) -> Manifest:
    context = spec.get("securityContext", {})
    if "runAsUser" in context:
        return {"type": "MustRunAs", "uid": context["runAsUser"]}
    return {"type": "MustRunAsRange" if context.get("runAsNonRoot") else "RunAsAny"}


def _use_of_scc(account: str, namespace: str) -> list[Manifest]:
    """Role and RoleBinding that let the pods' account use the constraints."""
    name, version = f"{scc_name(namespace)}-scc", f"{AUTHORIZATION}/v1"
    rule = {
        "apiGroups": [SECURITY],
        "resources": ["securitycontextconstraints"],
        "resourceNames": [scc_name(namespace)],
        "verbs": ["use"],
    }
    return [
        {**head(version, "Role", name, namespace), "rules": [rule]},
        {
            **head(version, "RoleBinding", name, namespace),
            "roleRef": {"apiGroup": AUTHORIZATION, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]


def is_openshift(cluster: Cluster) -> bool:
    """Whether security context constraints act on pods here.

    CustomResourceDefinitions of OpenShift's kinds don't prove it: operators install some of them too.
    """
    kinds = cluster.kinds(f"{SECURITY}/v1")
    if not kinds or REVIEW in kinds:
        return bool(kinds)
    try:
        space = cluster.find(NAMESPACES, cluster.namespace, everywhere=True)
    except ApiError as error:
        if error.code != 403:
            raise
        return False
    return space is not None and USER_RANGE in space["metadata"].get("annotations", {})
