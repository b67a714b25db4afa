"""Checks of access: what the API server, admission and the namespace allow this user and trials' pods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from assay.checks import Check, State
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.doctor.cluster_view import AdmissionRefusal, ClusterView, ReadFailure
from assay.launch.kubernetes.objects import pod_security
from assay.launch.kubernetes.objects.kinds import KINDS

# Deployment of the operator that handles a job kind, by name
# Source: the projects' own manifests: jobset 0.12, trainer 2.3, mpi-operator 0.8, training-operator 1.9
CONTROLLERS = {
    "jobset": r"jobset-controller",
    "trainjob": r"trainer-controller",
    "mpijob": r"mpi-operator",
    "pytorchjob": r"training-operator",
}
SELDOM = ("node lost", "clean", "validate")  # permissions that most runs don't need
USED = "openshift.io/scc"  # on a pod: the constraints that admitted it
GRANT_RUN = "assay cluster rbac SYSTEM | kubectl apply -f -"
UNPREPARED = "assay cluster prepare --for openshift SYSTEM prints what to grant"


def server(seen: ClusterView) -> Check:
    """Which cluster responds."""
    kind = "OpenShift, Kubernetes" if seen.is_openshift else "Kubernetes"
    return Check(
        "API server", "ok", f"{kind} {seen.version}, context {seen.context}, namespace {seen.namespace}"
    )


def rights(seen: ClusterView) -> Check:
    """Whether this user may do everything that a run does."""
    missing = [right for right, may in seen.rights.items() if not may]
    if not missing:
        return Check("rights", "ok", f"has all {len(seen.rights)} that a run needs")
    what = ", ".join(f"{right} ({right.why})" for right in missing)
    lines = " ".join(right.rule() for right in missing)
    remedy = f"{GRANT_RUN}; or add to a Role: {lines}"
    state: State = "warn" if all(right.when in SELDOM for right in missing) else "fail"
    return Check("rights", state, f"missing: {what}", remedy)


def admission(seen: ClusterView) -> Check:
    """Whether the API server would accept a pod of the system now."""
    name = "admission"
    if isinstance(seen.admitted, ReadFailure):
        check = seen.admitted.check(name)
        return replace(check, remedy=GRANT_RUN) if seen.admitted.forbidden else check
    if isinstance(seen.admitted, AdmissionRefusal):
        refusal, _, remedy = seen.admitted.message.partition(" — ")
        change = "change what it names in systems.yaml, or ask the namespace's administrator"
        return Check(name, "fail", f"the API server rejects the pods: {refusal}", remedy or change)
    return Check(name, "ok", "the API server would accept a pod of the system (dry run)")


def operator(seen: ClusterView) -> Check:
    """Whether the cluster knows the job kind and has a controller for it."""
    name = "job kind"
    for kind, is_known in seen.kinds.items():
        ref, needs = KINDS[kind].job_ref, KINDS[kind].needs
        if not is_known:
            remedy = f"install {needs or 'a cluster that has it'}, or set another kind in systems.yaml"
            return Check(name, "fail", f"{kind}: this cluster has no {ref.kind} of {ref.api_version}", remedy)
    kind = seen.system.kind
    if kind not in CONTROLLERS:
        return Check(name, "ok", f"{kind}: {', '.join(seen.kinds)} need no operator")
    if isinstance(seen.deployments, ReadFailure):
        return seen.deployments.check(name)
    return _controller(
        name, kind, [deployment for deployment in seen.deployments if _is_of(deployment, kind)]
    )


def _is_of(deployment: Object, kind: str) -> bool:
    return re.search(CONTROLLERS[kind], deployment["metadata"]["name"]) is not None


def _controller(name: str, kind: str, deployments: list[Object]) -> Check:
    needs = KINDS[kind].needs
    if not deployments:
        evidence = f"{kind}: known, but no deployment named like {CONTROLLERS[kind]} exists to handle it"
        return Check(name, "fail", evidence, f"install {needs}, or set another kind in systems.yaml")
    deployment = deployments[0]
    where, called = deployment["metadata"]["namespace"], deployment["metadata"]["name"]
    ready, replicas = deployment["status"].get("readyReplicas", 0), deployment["spec"].get("replicas", 1)
    evidence = f"{kind}: {called} in {where} has {ready} of {replicas} pods ready"
    if ready < 1:
        return Check(name, "fail", evidence, f"kubectl -n {where} describe deployment {called}")
    return Check(name, "ok", evidence)


def level(seen: ClusterView) -> Check:
    """Whether the namespace's Pod Security level admits the pods."""
    name = "pod security"
    if isinstance(seen.space, ReadFailure):
        return seen.space.check(name)
    if seen.space is None:
        remedy = f"kubectl create namespace {seen.namespace}"
        return Check(name, "fail", f"namespace {seen.namespace} does not exist", remedy)
    enforced = seen.space["metadata"].get("labels", {}).get(pod_security.ENFORCE)
    spec = pod_security.pod_of(seen.system)
    needed = pod_security.level(spec)
    if enforced is None:
        return Check(name, "ok", f"the namespace enforces no level; the pods meet {needed}")
    if pod_security.LEVELS.index(enforced) <= pod_security.LEVELS.index(needed):
        return Check(name, "ok", f"the namespace enforces {enforced}, and the pods meet {needed}")
    excess = ", ".join(
        ask.what
        for ask in pod_security.asks(spec)
        if pod_security.LEVELS.index(ask.allowed_by) < pod_security.LEVELS.index(enforced)
    )
    remedy = f"remove that, or: kubectl label --overwrite ns {seen.namespace} {pod_security.ENFORCE}={needed}"
    return Check(name, "fail", f"the namespace enforces {enforced}, but the pods request {excess}", remedy)


def constraints(seen: ClusterView) -> Check:
    """Whether OpenShift's security context constraints admit the pods."""
    name = "SCC"
    beyond = pod_security.beyond_restricted_v2(pod_security.pod_of(seen.system))
    if not seen.is_openshift:
        return Check(name, "ok", "not OpenShift: constraints don't apply to pods here")
    if isinstance(seen.admitted, dict) and (by := seen.admitted["metadata"].get("annotations", {}).get(USED)):
        return Check(name, "ok", f"the pods are admitted under {by}")
    if not beyond:
        return Check(name, "ok", "the pods meet restricted-v2, which every account may use")
    excess = f"the pods request {', '.join(beyond)}"
    for answer in (seen.constraints, seen.may_use_scc):
        if isinstance(answer, ReadFailure):
            return answer.check(name)
    called = pod_security.scc_name(seen.namespace)
    if seen.constraints is None:
        remedy = f"set runAsUser: assigned, or: {UNPREPARED}" if "user ID" in excess else UNPREPARED
        return Check(name, "fail", f"{excess}, but {called} does not exist", remedy)
    if not seen.may_use_scc:
        return Check(name, "fail", f"{excess}, but their account may not use {called}", UNPREPARED)
    return Check(name, "ok", f"{called} exists and the pods' account may use it")


def account(seen: ClusterView) -> Check:
    """Whether the pods' ServiceAccount exists and may do no more than a benchmark's pods should."""
    name, called = "pods' account", seen.system.serviceAccountName or "default"
    if isinstance(seen.account, ReadFailure):
        return seen.account.check(name)
    if seen.space is None:
        return Check(name, "unknown", f"namespace {seen.namespace} does not exist")
    if seen.account is None:
        remedy = f"kubectl -n {seen.namespace} create serviceaccount {called}"
        return Check(name, "fail", f"{called} does not exist", remedy)
    if isinstance(seen.account_may, ReadFailure):
        return seen.account_may.check(name)
    if not seen.account_may:
        return Check(name, "ok", f"{called} may neither read Secrets nor create pods")
    remedy = (
        f"kubectl -n {seen.namespace} create serviceaccount {pod_security.ACCOUNT}, and set "
        f"`serviceAccountName: {pod_security.ACCOUNT}` in systems.yaml; find out who bound roles to the "
        "other account"
    )
    evidence = f"{called} may {', '.join(seen.account_may)}: more than a benchmark's pods should"
    return Check(name, "warn", evidence, remedy)


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
