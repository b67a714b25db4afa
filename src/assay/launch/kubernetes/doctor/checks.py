"""Every check of a Kubernetes or OpenShift cluster, in the order in which people fix things."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from assay.checks import Check, Facts, for_system
from assay.launch.kubernetes.client import NODES, PODS, Cluster, Object, Resource, connect
from assay.launch.kubernetes.doctor import access, node_checks
from assay.launch.kubernetes.doctor import smoke as inside
from assay.launch.kubernetes.doctor.cluster_view import AdmissionRefusal, ClusterView, ReadFailure
from assay.launch.kubernetes.doctor.node_checks import hindrance
from assay.launch.kubernetes.objects import pod_security, rbac
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.pod_security import NAMESPACES, is_openshift
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.pod_status import moment
from assay.launch.kubernetes.wire import FORBIDDEN, ApiError
from assay.launch.platform import DoctorRequest, Examination

CHECKS: tuple[Callable[[ClusterView], Check], ...] = (
    access.server,
    access.rights,
    access.admission,
    access.operator,
    access.level,
    access.constraints,
    access.account,
    access.quota,
    access.claims,
    access.dns,
    node_checks.usable_nodes,
    node_checks.devices,
    node_checks.labels,
    node_checks.alike,
    node_checks.cpu_manager,
    node_checks.server_clock,
    node_checks.node_clocks,
)


def examination(system: KubernetesSystem, request: DoctorRequest) -> Examination:
    """What the doctor finds."""
    running = ", running pods" if request.deep or request.data is not None else ""
    request.report(f"Querying the cluster{running} …")
    return Examination(*examine(system, request.system, request.deep, request.data))


def examine(
    system: KubernetesSystem, quoted_name: str, deep: bool = False, data: str | None = None
) -> tuple[Facts, tuple[Check, ...]]:
    """What the cluster reports, and what the checks make of it; if nothing responds, only that.

    quoted_name  the system's name on a command line, for the commands in remedies
    deep         also run pods and look from inside; data: directory there whose files to read
    """
    facts, checks = _examined(system, deep, data)
    return facts, tuple(for_system(check, quoted_name) for check in checks)


def _examined(system: KubernetesSystem, deep: bool, data: str | None) -> tuple[Facts, tuple[Check, ...]]:
    try:
        seen = look(system)
    except ApiError as error:
        return {}, (Check("API server", "fail", str(error), "kubectl cluster-info"),)
    facts = {"kubernetes.version": seen.version, **node_checks.node_facts(seen)}
    checks = tuple(check(seen) for check in CHECKS)
    if not (deep or data is not None):
        return facts, (*checks, inside.not_looked_into(seen))
    facts_inside, more = inside.examine_inside(seen, data)
    return {**facts, **facts_inside}, (*checks, *more)


QUOTAS = Resource("v1", "resourcequotas")
CLAIMS = Resource("v1", "persistentvolumeclaims")
ACCOUNTS = Resource("v1", "serviceaccounts")
DEPLOYMENTS = Resource("apps/v1", "deployments")
CLASSES = Resource("storage.k8s.io/v1", "storageclasses")
LEASES = Resource("coordination.k8s.io/v1", "leases")
CONSTRAINTS = Resource(f"{pod_security.SECURITY}/v1", "securitycontextconstraints")
HEARTBEATS = "metadata.namespace=kube-node-lease"
MISSING_RIGHT = 'cannot create resource "pods"'
STILL_THERE = "status.phase!=Succeeded,status.phase!=Failed"
MOST_KUBELETS = 16  # queried one by one: each response comes from its node
# verb, group, resource: permissions that let a program in a pod do more than its job
WIDE = (("get", "", "secrets"), ("create", "", "pods"), ("create", "", "pods/exec"), ("*", "*", "*"))

T = TypeVar("T")


def look(system: KubernetesSystem) -> ClusterView:
    """The whole view. Raises InputError for an unusable kubeconfig, ApiError if nothing responds."""
    cluster = connect(system.context, system.namespace)
    version = cluster.version()
    wide = "get securitycontextconstraints.security.openshift.io"
    openshift_answers = is_openshift(cluster)
    nodes = _read_or_failure("list nodes", lambda: cluster.list(NODES, everywhere=True).items)
    leases = _read_or_failure(
        "list leases.coordination.k8s.io",
        lambda: cluster.list(LEASES, fields=HEARTBEATS, everywhere=True).items,
    )
    usable = [] if isinstance(nodes, ReadFailure) else [node for node in nodes if not hindrance(node, system)]
    return ClusterView(
        read_at=time.time(),
        system=system,
        context=cluster.context,
        namespace=cluster.namespace,
        version=version,
        rights={right: _may(cluster, right) for right in rbac.needed(system.kind)},
        kinds={name: _is_known(cluster, name) for name in rbac.kinds_of(system.kind)},
        admitted=_admitted(cluster, system),
        is_openshift=openshift_answers,
        space=_one("get namespaces", cluster, NAMESPACES, cluster.namespace, everywhere=True),
        quotas=_read_or_failure("list resourcequotas", lambda: cluster.list(QUOTAS).items),
        account=_one("get serviceaccounts", cluster, ACCOUNTS, _account(system)),
        account_may=_read_or_failure(_REVIEW, lambda: _wide(cluster, _account(system))),
        constraints=_one(wide, cluster, CONSTRAINTS, _scc(cluster), everywhere=True)
        if openshift_answers
        else None,
        may_use_scc=_read_or_failure(_REVIEW, lambda: _may_use(cluster, _account(system)))
        if openshift_answers
        else False,
        nodes=nodes,
        pods=_read_or_failure("list pods in all namespaces", lambda: _pods(cluster)),
        deployments=_read_or_failure(
            "list deployments.apps in all namespaces",
            lambda: cluster.list(DEPLOYMENTS, everywhere=True).items,
        ),
        leases=leases,
        storage_classes=_read_or_failure(
            "list storageclasses.storage.k8s.io", lambda: cluster.list(CLASSES, everywhere=True).items
        ),
        server_ahead_s=_read_or_failure("create configmaps", lambda: _server_ahead_s(cluster)),
        claims={
            name: _one("get persistentvolumeclaims", cluster, CLAIMS, name)
            for volume in system.volumes
            if (name := volume.persistentVolumeClaim) is not None
        },
        kubelets=_read_or_failure("get nodes/proxy", lambda: _kubelets(cluster, usable)),
    )


_REVIEW = "create localsubjectaccessreviews.authorization.k8s.io"


def _read_or_failure(tried: str, ask: Callable[[], T]) -> T | ReadFailure:
    try:
        return ask()
    except ApiError as error:
        return ReadFailure(tried, str(error), error.code == FORBIDDEN)


def _one(
    tried: str, cluster: Cluster, resource: Resource, name: str, *, everywhere: bool = False
) -> Object | ReadFailure | None:
    return _read_or_failure(tried, lambda: cluster.find(resource, name, everywhere=everywhere))


def _may(cluster: Cluster, right: rbac.Right) -> bool:
    name, _, sub = right.resource.partition("/")
    return cluster.may(right.verb, name, group=right.group, sub=sub)


def _is_known(cluster: Cluster, kind: str) -> bool:
    ref = KINDS[kind].job_ref
    return ref.kind in cluster.kinds(ref.api_version)


def _account(system: KubernetesSystem) -> str:
    return system.serviceAccountName or "default"


def _scc(cluster: Cluster) -> str:
    return pod_security.scc_name(cluster.namespace)


def _pods(cluster: Cluster) -> list[Object]:
    return cluster.list(PODS, fields=STILL_THERE, everywhere=True).items


def _wide(cluster: Cluster, account: str) -> list[str]:
    wide_rights = []
    for verb, group, resource in WIDE:
        if _account_may(cluster, account, {"verb": verb, "group": group, "resource": resource}):
            wide_rights.append("everything" if verb == "*" else f"{verb} {resource}")
    return wide_rights


def _may_use(cluster: Cluster, account: str) -> bool:
    kind = {"group": CONSTRAINTS.api_version.partition("/")[0], "resource": CONSTRAINTS.plural}
    return _account_may(cluster, account, {"verb": "use", **kind, "name": _scc(cluster)})


def _account_may(cluster: Cluster, account: str, attributes: dict[str, str]) -> bool:
    """Whether a ServiceAccount may do so in this namespace, according to the API server."""
    space = cluster.namespace
    resource, _, sub = attributes["resource"].partition("/")
    what = {**attributes, "namespace": space, "resource": resource, "subresource": sub}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "LocalSubjectAccessReview",
        "metadata": {"name": "", "namespace": space},
        "spec": {
            "user": f"system:serviceaccount:{space}:{account}",
            "groups": [
                "system:serviceaccounts", f"system:serviceaccounts:{space}", "system:authenticated",
            ],
            "resourceAttributes": what,
        },
    }  # fmt: skip
    return bool(cluster.create(review)["status"]["allowed"])


def _server_ahead_s(cluster: Cluster) -> tuple[float, float]:
    """From the time that the server sets on an object in a dry run; it is in whole seconds."""
    nothing = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "assay-doctor"}}
    began = time.time()
    created: dict[str, Any] = cluster.create(nothing, dry_run=True)
    ended = time.time()
    created_at = moment(created["metadata"]["creationTimestamp"])
    assert created_at is not None
    return created_at - ended, created_at + 1.0 - began


def _admitted(cluster: Cluster, system: KubernetesSystem) -> Object | AdmissionRefusal | ReadFailure:
    """A trial's pod from a dry run, which applies quota, LimitRange, Pod Security, and webhooks."""
    template = pod_security.template_of(system)
    metadata = {**template["metadata"], "name": "assay-doctor", "namespace": cluster.namespace}
    sent = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    try:
        return cluster.create(sent, dry_run=True)
    except ApiError as error:
        if MISSING_RIGHT in str(error):
            return ReadFailure("create pods", str(error), forbidden=True)
        if 400 <= error.code < 500:
            return AdmissionRefusal(str(error))
        return ReadFailure("create pods", str(error), forbidden=False)


def _kubelets(cluster: Cluster, nodes: list[Object]) -> dict[str, Object]:
    """Settings by node, for the first few. A kubelet that does not respond is left out."""
    settings_by_node = {}
    for node in nodes[:MOST_KUBELETS]:
        name = node["metadata"]["name"]
        try:
            response = cluster.get(NODES, f"{name}/proxy/configz", everywhere=True, patience_s=0.0)
        except ApiError as error:
            if error.code == FORBIDDEN:
                raise
            continue  # a node that is down, or only simulated
        settings_by_node[name] = response["kubeletconfig"]
    return settings_by_node
