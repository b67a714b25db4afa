"""Checks of what a namespace offers the pods: quota, volumes, and DNS."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from assay.checks.check import Check
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.doctor.cluster_view import ClusterView, ReadFailure
from assay.launch.kubernetes.objects import pod_security

COUNTED = {
    "pods": 1.0,
    "count/pods": 1.0,
    "configmaps": 1.0,
    "count/configmaps": 1.0,
    "count/jobs.batch": 1.0,
}
DNS_SPACES = ("kube-system", "openshift-dns")
DNS_PODS = re.compile(r"^(coredns|kube-dns|dns-default|node-local-dns|rke2-coredns)")


def quota(seen: ClusterView) -> Check:
    """Whether the namespace's quotas leave room for a pod of one accelerator, and for how many."""
    if isinstance(seen.quotas, ReadFailure):
        return seen.quotas.check("quota")
    if not seen.quotas:
        return Check("quota", "ok", "none in the namespace")
    lines = [line for namespace_quota in seen.quotas for line in _left(seen, namespace_quota)]
    short = [left for left, fits in lines if not fits]
    if short and not isinstance(seen.admitted, dict):  # otherwise the server has said that they fit
        remedy = (
            f"free resources, raise the quota, or request less: kubectl -n {seen.namespace} describe quota"
        )
        return Check("quota", "fail", "; ".join(short), remedy)
    return Check("quota", "ok", "; ".join(left for left, _ in lines) or "none that affects the pods")


def _left(seen: ClusterView, namespace_quota: Object) -> Iterator[tuple[str, bool]]:
    """What each line of a quota leaves, as text, and whether a pod of one accelerator fits."""
    requests, limits = _stated(seen)
    name, hard, used = (
        namespace_quota["metadata"]["name"],
        namespace_quota["status"].get("hard", {}),
        namespace_quota["status"].get("used", {}),
    )
    for key, most in hard.items():
        resource = key.removeprefix("requests.").removeprefix("limits.")
        per_pod = COUNTED.get(key, (limits if key.startswith("limits.") else requests).get(resource))
        if per_pod is None:
            if resource in ("cpu", "memory"):
                yield f"{name} requires {key}, but the pods don't set it", False
            continue
        free = fields.quantity_number(most) - fields.quantity_number(used.get(key, "0"))
        fits = int(free // per_pod) if per_pod else 0
        yield (
            f"{name}: {key} has {free:g} of {most} left, for {fits} pods of one accelerator",
            free >= per_pod,
        )


def _stated(seen: ClusterView) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Requests and limits of a pod, with what the cluster adds if that is known."""
    admitted = seen.admitted
    spec = admitted["spec"] if isinstance(admitted, dict) else pod_security.pod_of(seen.system)
    requests, limits = Counter[str](), Counter[str]()
    for container in spec["containers"]:
        for total, stated in ((requests, "requests"), (limits, "limits")):
            for resource, amount in container.get("resources", {}).get(stated, {}).items():
                total[resource] += fields.quantity_number(amount)  # type: ignore[assignment]
    return requests, limits


def claims(seen: ClusterView) -> Check:
    """Whether the claims that the system mounts are bound."""
    name = "claims"
    if not seen.claims:
        return Check(name, "ok", "the system mounts none")
    bound = []
    for called, claim in seen.claims.items():
        if isinstance(claim, ReadFailure):
            return claim.check(name)
        if claim is None:
            remedy = f"create it: kubectl -n {seen.namespace} apply -f CLAIM.yaml; or correct volumes"
            return Check(name, "fail", f"{called} does not exist", remedy)
        phase = claim["status"].get("phase", "Pending")
        kind = _provisioned(seen, claim)
        if phase == "Pending" and _waits_for_a_pod(seen, claim["spec"].get("storageClassName")):
            bound.append(
                f"{called} is provisioned when its first pod is created ({kind}, WaitForFirstConsumer)"
            )
            continue
        if phase != "Bound":
            remedy = f"kubectl -n {seen.namespace} describe pvc {called}; kubectl get storageclass"
            return Check(name, "fail" if phase == "Lost" else "warn", f"{called} is {phase} ({kind})", remedy)
        bound.append(f"{called} is bound ({kind}, {', '.join(claim['spec']['accessModes'])})")
    return Check(name, "ok", "; ".join(bound))


def _provisioned(seen: ClusterView, claim: Object) -> str:
    """Whether a claim's volume is provisioned, by what, or existed before; and its storage class."""
    kind = _class(seen, claim["spec"].get("storageClassName"))
    driver = claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/storage-provisioner")
    if driver is not None:
        return f"provisioned by {driver}, {kind}"
    volume = claim["spec"].get("volumeName")
    return kind if volume is None else f"static volume {volume}, {kind}"


def _waits_for_a_pod(seen: ClusterView, name: str | None) -> bool:
    """Whether a storage class provisions volumes only when a pod needs them."""
    if isinstance(seen.storage_classes, ReadFailure):
        return False
    modes = {
        storage_class["metadata"]["name"]: storage_class.get("volumeBindingMode")
        for storage_class in seen.storage_classes
    }
    return name is not None and modes.get(name) == "WaitForFirstConsumer"


def _class(seen: ClusterView, name: str | None) -> str:
    """A claim's storage class, and whether it exists."""
    if not name:
        return "no storage class"
    if isinstance(seen.storage_classes, ReadFailure):
        return f"storage class {name}"
    there = any(storage_class["metadata"]["name"] == name for storage_class in seen.storage_classes)
    return f"storage class {name}" + ("" if there else ", which does not exist")


def dns(seen: ClusterView) -> Check:
    """Whether something resolves the names by which workers find each other."""
    if isinstance(seen.pods, ReadFailure):
        return seen.pods.check("DNS")
    dns_pods = [
        pod
        for pod in seen.pods
        if pod["metadata"]["namespace"] in DNS_SPACES and DNS_PODS.match(pod["metadata"]["name"])
    ]
    ready = sum(_is_ready(pod) for pod in dns_pods)
    if not dns_pods:
        return Check("DNS", "unknown", f"no pod with a known name in {' or '.join(DNS_SPACES)}")
    where = dns_pods[0]["metadata"]["namespace"]
    if not ready:
        remedy = f"kubectl -n {where} describe pods; until then, only shapes of one worker run"
        return Check("DNS", "fail", f"none of its {len(dns_pods)} pods in {where} is ready", remedy)
    return Check("DNS", "ok", f"{ready} of {len(dns_pods)} pods in {where} are ready")


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
