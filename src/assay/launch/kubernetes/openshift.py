"""What OpenShift needs before pods of a system may run: the objects, and the purpose of each. Pure."""

from __future__ import annotations

from typing import Any

from assay.launch.kubernetes import pod_security
from assay.launch.kubernetes.client import Cluster, Resource
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.order import Manifest
from assay.launch.kubernetes.rbac import AUTHORIZATION, head
from assay.launch.kubernetes.wire import ApiError

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


def objects(options: KubernetesSystem, namespace: str) -> list[Manifest]:
    """In the order of creation.

    Always Namespace and ServiceAccount; SecurityContextConstraints with Role and RoleBinding only if the
    pods need more than `restricted-v2`, which every account of OpenShift may use.
    """
    spec = pod_security.pod_of(options)
    labels = {ENFORCE: pod_security.level(spec), LABEL_SYNC: "false"}
    space = head("v1", "Namespace", namespace)
    space["metadata"]["labels"] |= labels
    manifests = [space, head("v1", "ServiceAccount", account_of(options), namespace)]
    if beyond_restricted_v2(spec):
        manifests += [_constraints(spec, namespace), *_use(account_of(options), namespace)]
    return manifests


def beyond_restricted_v2(spec: dict[str, Any]) -> tuple[str, ...]:
    """What the pod requests that OpenShift's `restricted-v2` refuses, as text."""
    user = spec.get("securityContext", {}).get("runAsUser")
    fixed = () if user is None else (f"user ID {user}, which is outside the namespace's range",)
    return (*(ask.what for ask in pod_security.asks(spec)), *fixed)


def _constraints(spec: dict[str, Any], namespace: str) -> Manifest:
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
        "allowedCapabilities": list(pod_security.capabilities(spec)),
        "defaultAddCapabilities": [],
        "fsGroup": {"type": "MustRunAs"},
        "priority": None,
        "readOnlyRootFilesystem": False,
        "requiredDropCapabilities": ["ALL"] if drops else [],
        "runAsUser": _user(spec),
        "seLinuxContext": {"type": "MustRunAs"},
        "seccompProfiles": ["runtime/default"],
        "supplementalGroups": {"type": "RunAsAny"},
        "volumes": sorted(volumes | pod_security.RESTRICTED_VOLUMES),
    }


def _user(spec: dict[str, Any]) -> Manifest:
    context = spec.get("securityContext", {})
    if "runAsUser" in context:
        return {"type": "MustRunAs", "uid": context["runAsUser"]}
    return {"type": "MustRunAsRange" if context.get("runAsNonRoot") else "RunAsAny"}


def _use(account: str, namespace: str) -> list[Manifest]:
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
