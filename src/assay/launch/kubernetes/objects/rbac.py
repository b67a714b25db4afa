"""What a run on Kubernetes may do, and no more: its permissions, and the objects that grant them. Pure.

Each permission is here because a request of the launcher needs it. The only cluster-wide permissions are
those that add information: a run without them works, and reports what it could not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import MANAGED_BY, Manifest

RUNNER = "assay"
DOCTOR = "assay-doctor"
AUTHORIZATION = "rbac.authorization.k8s.io"
_LEFT = "find what killed runs left behind"
When = Literal["run", "end", "adopt", "node lost", "waits", "clean", "validate"]


@dataclass(frozen=True)
class Right:
    """One verb on one resource, and its purpose.

    resource  plural, with its subresource: `pods/log`
    group     API group; "" is the core group
    when      run: every run; end: a run that is interrupted or times out; adopt: the next run after
              an Assay that was killed; node lost: a node dies during a job; clean: `assay clean`;
              validate: `assay plan --validate`; waits: a run whose pods don't start at once
    """

    verb: str
    group: str
    resource: str
    why: str
    when: When = "run"

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"

    def rule(self) -> str:
        """The line that a Role lacks, as YAML."""
        return f'- {{apiGroups: ["{self.group}"], resources: [{self.resource}], verbs: [{self.verb}]}}'


def kinds_of(kind: str) -> tuple[str, ...]:
    """The job kinds that a system with this option may send."""
    return ("pod", "job") if kind == "auto" else (kind,)


def needed(kind: str) -> tuple[Right, ...]:
    """Every permission that runs of a system with this `kind` need in its namespace."""
    rights = [
        Right("create", "", "configmaps", "send a job's programs and files, as ConfigMaps"),
        Right("get", "", "configmaps", "find the job that Assay submitted before it was killed", "adopt"),
        Right("delete", "", "configmaps", "remove them once a job's results are safe"),
    ]
    if "job" in kinds_of(kind):
        rights.append(
            Right("create", "", "services", "let workers find each other through a headless Service")
        )
    for ref in dict.fromkeys(KINDS[name].job_ref for name in kinds_of(kind)):
        group = ref.api_version.rpartition("/")[0]
        rights += [
            Right("create", group, ref.plural, "create the job"),
            Right("get", group, ref.plural, "see whether it has ended", "end"),
            Right("delete", group, ref.plural, "end it and clean up after it"),
        ]
    every = dict.fromkeys(kind.job_ref for kind in KINDS.values())
    return (
        *rights,
        Right("list", "", "pods", "see where the ranks run and how they ended"),
        Right("watch", "", "pods", "follow changes, with one watch for all jobs"),
        Right("get", "", "pods/log", "read what the ranks print"),
        Right("list", "", "events", "see why a pod does not start", "waits"),
        Right("delete", "", "pods", "remove a pod whose node died, which nothing else does", "node lost"),
        Right("create", "", "pods", "check by a dry run whether the server would admit one", "validate"),
        Right("list", "", "configmaps", _LEFT, "clean"),
        Right("list", "", "services", _LEFT, "clean"),
        Right("delete", "", "services", "remove what killed runs left behind", "clean"),
        *(
            Right("list", job_ref.api_version.rpartition("/")[0], job_ref.plural, _LEFT, "clean")
            for job_ref in every
        ),
    )


TOLD_IN_NAMESPACE = (
    Right("get", "", "namespaces", "the Pod Security level"),
    Right("list", "", "resourcequotas", "whether there is room for the pods"),
    Right("get", "", "persistentvolumeclaims", "whether the claims that are mounted are bound"),
    Right("get", "", "serviceaccounts", "whether the pods' ServiceAccount is there"),
    Right(
        "create",
        "authorization.k8s.io",
        "localsubjectaccessreviews",
        "whether the pods' own permissions are too wide",
    ),
)
"""Permissions that let `assay doctor` report more about the namespace. A run needs none of them."""

TOLD_OF_CLUSTER = (
    Right("get", "", "nodes", "provenance: labels, versions, and devices of the node that a rank ran on"),
    Right("list", "", "nodes", "which nodes exist, what they offer, whether they are alike"),
    Right("list", "", "pods", "how much of that is in use, whether DNS is running"),
    Right("list", "apps", "daemonsets", "provenance: versions of device plugins and drivers"),
    Right("list", "apps", "deployments", "whether the operator of the job kind is ready"),
    Right("list", "coordination.k8s.io", "leases", "when each node last reported, by its own clock"),
    Right("list", "storage.k8s.io", "storageclasses", "whether claims can be bound"),
    Right("get", "config.openshift.io", "clusterversions", "the version of OpenShift"),
    Right("get", "security.openshift.io", "securitycontextconstraints", "whether what pods need is allowed"),
)
"""Permissions that let doctor and provenance report more about the cluster. `nodes/proxy`, which would show
the kubelets' settings, is not among them: whoever has it can run commands in every pod of a node."""


def objects(kind: str, namespace: str, *, doctor: bool = False) -> list[Manifest]:
    """ServiceAccount, Role, and RoleBinding of a run; with `doctor`, also those that only inform."""
    subject = {"kind": "ServiceAccount", "name": RUNNER, "namespace": namespace}
    account = {**head("v1", "ServiceAccount", RUNNER, namespace), "automountServiceAccountToken": False}
    manifests = [account, *_granted("Role", RUNNER, namespace, needed(kind), subject)]
    if doctor:
        manifests += _granted("Role", DOCTOR, namespace, TOLD_IN_NAMESPACE, subject)
        # cluster-wide names: another namespace's must not be overwritten
        manifests += _granted("ClusterRole", f"{DOCTOR}-{namespace}", None, TOLD_OF_CLUSTER, subject)
    return manifests


def rules(rights: Iterable[Right]) -> list[Manifest]:
    """Rules of a Role: one for each resource, in the given order."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    return [
        {"apiGroups": [group], "resources": [resource], "verbs": allowed}
        for (group, resource), allowed in verbs.items()
    ]


def _granted(
    role: Literal["Role", "ClusterRole"],
    name: str,
    namespace: str | None,
    rights: Sequence[Right],
    subject: Manifest,
) -> list[Manifest]:
    version = f"{AUTHORIZATION}/v1"
    reference = {"apiGroup": AUTHORIZATION, "kind": role, "name": name}
    binding = {**head(version, f"{role}Binding", name, namespace), "roleRef": reference}
    return [
        {**head(version, role, name, namespace), "rules": rules(rights)},
        {**binding, "subjects": [subject]},
    ]


def head(api_version: str, kind: str, name: str, namespace: str | None = None) -> Manifest:
    """The common start of Assay's objects."""
    where = {} if namespace is None else {"namespace": namespace}
    metadata = {"name": name, **where, "labels": dict(MANAGED_BY)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
