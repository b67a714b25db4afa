"""Why a job does not start, or why it ended, according to the cluster: pods and events in, causes out. Pure.

A cluster reports this in half a dozen places. They are converted to one form, `Sign`, which one table reads.
The table's texts are those of Kubernetes 1.34, as a cluster prints them, and of OpenShift 4, as documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.launch.kubernetes.fields import quantity_number
from assay.launch.kubernetes.pod_status import has_begun
from assay.records import Extent

Object = Mapping[str, Any]
"""A Kubernetes object, as JSON."""

RESTARTS = 2  # after this many, a container counts as ending repeatedly
# From a kubelet, which admits a pod last, by its own view of labels, resources, and devices.
_REJECTED = (
    "NodeAffinity NodeShutdown UnexpectedAdmissionError OutOfcpu OutOfmemory OutOfpods "
    "OutOfephemeral-storage OutOfnvidia.com/gpu OutOfamd.com/gpu"
)
_PULL = "ErrImagePull ImagePullBackOff Failed"
_CREATE = "FailedCreate Forbidden"
_OWN, _SHAPED = (
    Extent.TRIAL,
    Extent.SHAPE,
)  # what happened to one pod; what depends on the number and size of requests
_UNPLACED = "Unschedulable FailedScheduling SchedulerError"
_QUOTA_REFUSAL = re.compile(r"requested: (\S+), used: \S+, limited: (\S+)")


@dataclass(frozen=True)
class Cause:
    """Why a job makes no progress.

    code      one word for tests, tables, and retries: `unschedulable`, `image`, `quota`, …
    what      what happened, as text
    evidence  in the cluster's words
    remedy    what to do
    final     waiting can't help: the job is ended at once
    platform  the cluster's fault rather than the job's: worth another attempt
    extent    which other jobs it would stop
    """

    code: str
    what: str
    evidence: str
    remedy: str
    final: bool
    platform: bool = False
    extent: Extent = Extent.TRIAL

    def __str__(self) -> str:
        return f"{self.what} ({self.evidence}); {self.remedy}"


class CauseWordings:
    """Lasting causes, as first worded: their evidence changes from look to look."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def words(self, cause: Cause) -> str:
        """The cause with the words first used for the same event."""
        return self._first.setdefault(cause.what, str(cause))


@dataclass(frozen=True)
class Sign:
    """One statement of the cluster: the object it concerns, its reason, its message."""

    subject: str
    reason: str
    message: str


@dataclass(frozen=True)
class Rule:
    """A row of the table: the reasons and pattern that match a sign, and the cause; `{}` names a group.

    extent  which jobs it stops: the jobs of a system are made from the same options
    when    a further condition on the message
    """

    code: str
    reasons: str
    pattern: str
    what: str
    remedy: str
    final: bool = True
    platform: bool = False
    extent: Extent = Extent.SYSTEM
    when: Callable[[str], bool] = lambda _: True

    def read(self, sign: Sign) -> Cause | None:
        """The cause, if the sign matches this row."""
        if sign.reason not in self.reasons.split():
            return None
        match = re.search(self.pattern, sign.message)
        if match is None or not self.when(sign.message):
            return None
        groups = match.groupdict()
        what, remedy = (text.format(subject=sign.subject, **groups) for text in (self.what, self.remedy))
        return Cause(self.code, what, quote_message(sign), remedy, self.final, self.platform, self.extent)


def never_fits(message: str) -> bool:
    """Whether a request exceeds the whole ResourceQuota, so that the end of another pod would not help.

    >>> never_fits("exceeded quota: q, requested: cpu=2,pods=1, used: cpu=1,pods=1, limited: cpu=1,pods=9")
    True
    """
    refusal = _QUOTA_REFUSAL.search(message)
    if refusal is None:
        return False
    requested, limits = (dict(pair.split("=", 1) for pair in part.split(",")) for part in refusal.groups())
    shared = requested.keys() & limits.keys()
    return any(quantity_number(requested[name]) > quantity_number(limits[name]) for name in shared)


RULES: Sequence[Rule] = (
    # What happened to a pod that ran
    Rule("oom", "OOMKilled", "", "{subject} used more memory than its limit and was killed",
          "raise `memory` in the system's resources, or reduce the batch size", extent=_OWN),
    Rule("full", "Evicted", r"exceeds the (?:total )?limit",
          "{subject} wrote more than its limit and was evicted",
          "raise the volume's sizeLimit, or ephemeral-storage in the system's resources", extent=_OWN),
    Rule("evicted", "Evicted", "", "{subject} was evicted by its node",
          "the node ran short of the resource in the evidence: request it, so that the pod goes to a node "
          "that has it",
          platform=True, extent=_OWN),
    Rule("preempted", "PreemptionByScheduler Preempting", "", "{subject} had to make room for another pod",
          "give the system a priorityClassName, or its own queue", platform=True, extent=_OWN),
    Rule("node-lost", "DeletionByTaintManager DeletionByPodGC NodeLost NodeNotReady TaintManagerEviction", "",
          "the node of {subject} was lost", "check the node: kubectl describe node",
          platform=True, extent=_OWN),
    Rule("drained", "EvictionByEvictionAPI", "",
          "{subject} was evicted by a request, as a drain makes it",
          "ask who drains the node: kubectl describe node", platform=True, extent=_OWN),
    Rule("shutdown", "TerminationByKubelet Terminated", "",
          "the node of {subject} ended it, or was shut down", "check the node: kubectl describe node",
          platform=True, extent=_OWN),
    Rule("container-lost", "Unknown ContainerStatusUnknown", "",
          "{subject} vanished from its node while it ran",
          "the node was rebooted, or its container runtime restarted: kubectl describe node",
          platform=True, extent=_OWN),
    Rule("rejected", _REJECTED, "", "{subject} was assigned to a node that then rejected it",
          "node and scheduler disagree about labels or devices: check the device plugin's log",
          platform=True, extent=_OWN),
    Rule("deadline", "DeadlineExceeded", "", "{subject} exceeded its deadline",
          "raise the suite's `timeout`, or look in its log for what hangs", extent=_OWN),
    Rule("unreadable", "StartError ContainerCannotRun RunContainerError Failed",
          r'exec: "(?P<program>[^"]+)".*permission denied', "the user of {subject} may not run {program}",
          "let this user read each directory of its path and execute it, or set the system's `runAsUser`"),
    Rule("command", "StartError ContainerCannotRun RunContainerError Failed",
          r'exec: "(?P<program>[^"]+)"', "the image has no program {program}",
          "set the system's `python` to an interpreter in the image"),
    Rule("start", "StartError ContainerCannotRun RunContainerError CreateContainerError", "",
          "the container of {subject} could not be started",
          "the evidence quotes the runtime: a device, mount, or option that the node refuses"),
    Rule("init", "InitContainerFailed", r"container (?P<name>\S+)",
          "{subject} failed before its ranks could start",
          "check its log: kubectl logs POD -c {name}"),
    Rule("crash-loop", "CrashLoopBackOff", "", "{subject} keeps crashing",
          "check its last lines: kubectl logs --previous", extent=_OWN),
    # What a pod waits for
    Rule("image", "ErrImageNeverPull", "", "the image is not on the node, and imagePullPolicy is Never",
          "load it onto the node, or set imagePullPolicy: IfNotPresent"),
    Rule("image", "InvalidImageName", "", "the image name is invalid", "write it as registry/name:tag"),
    Rule("image", _PULL, "invalid reference format", "the image name is invalid",
          "write it as registry/name:tag, in lowercase"),
    Rule("image", _PULL, r"not found|manifest unknown", "the image does not exist",
          "check the system's `image`: its name and tag, and that it was pushed"),
    Rule("image", _PULL, r"(?i)unauthorized|authentication required|denied|403|no basic auth",
          "the registry denies the cluster access to the image",
          "name a pull secret of the namespace in imagePullSecrets"),
    Rule("image", _PULL, r"(?i)pull|image", "the image can't be pulled",
          "the node can't reach the registry, at least not yet: the evidence says how it failed",
          final=False, platform=True),
    Rule("missing", "CreateContainerConfigError Failed", r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not',
          "{kind} {name} does not exist", "create it in the system's namespace, or correct its name"),
    Rule("root", "CreateContainerConfigError Failed", "runAsNonRoot",
          "the image runs as root, which the namespace forbids",
          "set the system's runAsUser to a number above 0"),
    Rule("configuration", "CreateContainerConfigError", "", "the container of {subject} can't be created",
          "correct what the evidence names"),
    Rule("slow", "FailedMount", r'(?P<kind>configmap) "assay-[^"]+" not found',  # created before the pod
          "the node does not have the {kind}s of {subject} yet", "the node retries on its own",
          final=False, platform=True, extent=_OWN),
    Rule("missing", "FailedMount", r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
          "{kind} {name}, which {subject} mounts, does not exist",
          "create it in the system's namespace, or correct its name"),
    Rule("slow", "FailedMount", r"failed to sync (?P<kind>\S+) cache",
          "the node does not have the {kind}s of {subject} yet", "the node retries on its own",
          final=False, platform=True, extent=_OWN),
    Rule("mount", "FailedMount", r"hostPath type check failed: (?P<path>\S+)",
          "{path} is missing on the node", "create the hostPath volume's path on every node that is used"),
    Rule("mount", "FailedMount FailedAttachVolume", "", "a volume of {subject} can't be mounted",
          "check the claim and its storage class: kubectl describe pvc", final=False, platform=True),
    Rule("network", "FailedCreatePodSandBox", "", "the node can't give {subject} a network",
          "check the node's network plugin", final=False, platform=True),
    Rule("missing", "Unschedulable FailedScheduling", r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
          "claim {name} does not exist", "create the claim in the system's namespace, or correct its name"),
    Rule("unbound", _UNPLACED, "unbound immediate PersistentVolumeClaims",
          "a claim that {subject} mounts has no volume yet",
          "check the claim and its storage class: kubectl describe pvc", final=False),
    Rule("gated", "SchedulingGated", "", "{subject} is held back by a gate",
          "its queue, or whoever set the gate, admits it: kubectl describe pod", final=False, extent=_OWN),
    Rule("unschedulable", _UNPLACED, r"^[^.]*\b(?P<nodes>\d+) Insufficient (?P<resource>\S+?)\.(?: |$)",
          "no node can run {subject}: {nodes} have too little {resource} free",
          "request less of it in the system's resources, or free nodes", final=False, extent=_SHAPED),
    Rule("placement", _UNPLACED, r"pod topology spread constraints|pod affinity rules",
          "no node can run {subject} with the requested placement",
          "free or uncordon nodes, or request what is available: `placement`, or a shape that names its "
          "nodes",
          final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, r"untolerated taint",
          "no node can run {subject}: a taint keeps it off",
          "add the taint to the system's tolerations, or free other nodes", final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, r"node affinity|node selector",
          "no node can run {subject}: none has the requested labels",
          "correct the system's nodeSelector, affinity, or shape, or label nodes",
          final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, "", "no node can run {subject}",
          "request less, free nodes, or correct nodeSelector and tolerations", final=False, extent=_SHAPED),
    # Why there is no pod
    Rule("quota", _CREATE, r"exceeded quota: (?P<quota>[^,]+)",
          "the namespace's quota {quota} allows less than one pod requests",
          "request less in the system's resources, or have it raised", when=never_fits, extent=_SHAPED),
    Rule("quota", _CREATE, r"exceeded quota: (?P<quota>[^,]+)",
          "the namespace's quota {quota} is used up", "free some of it, or have it raised",
          final=False, extent=_SHAPED),
    Rule("quota", _CREATE, r"failed quota: (?P<quota>[^:]+): must specify (?P<names>\S+)",
          "quota {quota} requires {names}", "set them in the system's resources"),
    Rule("limits", _CREATE, r"(?:maximum|minimum) (?:cpu|memory|\S+) usage per",
          "the namespace's limit range rejects the pod", "change the system's resources to fit it",
          extent=_SHAPED),
    Rule("pod-security", _CREATE, r'violates PodSecurity "(?P<level>[^"]+)"',
          "the namespace enforces Pod Security {level}, which forbids what the system requests",
          "remove what the evidence names, or use a namespace that allows it"),
    Rule("scc", _CREATE, "unable to validate against any security context constraint",
          "no SecurityContextConstraints allow the pod",
          "`assay cluster prepare --for openshift` prints what to grant"),
    Rule("policy", _CREATE, r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding .* denied",
          "admission policy {policy} rejects the pod", "see the evidence for its reason"),
    Rule("webhook", f"{_CREATE} InternalError", r'admission webhook "(?P<hook>[^"]+)" denied',
          "admission webhook {hook} rejects the pod", "see the evidence for its reason"),
    Rule("webhook", f"{_CREATE} InternalError", r'failed calling webhook "(?P<hook>[^"]+)"',
          "admission webhook {hook} does not respond", "its operator is not running: check its pods",
          final=False, platform=True),
    Rule("missing", _CREATE, r'serviceaccount "(?P<name>[^"]+)" not found',
          "service account {name} does not exist", "create it, or correct the system's serviceAccountName"),
    Rule("missing", _CREATE, r"no PriorityClass with name (?P<name>\S+) was found",
          "priority class {name} does not exist", "correct the system's priorityClassName"),
    Rule("missing", _CREATE, r'RuntimeClass "(?P<name>[^"]+)" not found',
          "runtime class {name} does not exist", "correct the system's runtimeClassName"),
    Rule("refused", _CREATE, "", "the cluster refuses to create the pods of {subject}",
          "correct what the evidence names", final=False),
)  # fmt: skip


def causes(pods: Iterable[Object], events: Iterable[Object]) -> list[Cause]:
    """What prevents progress, most decisive first, each once. [] if nothing does.

    pods    of the job
    events  about the job's objects, of any type
    """
    by_subject: dict[str, Object] = {}
    signs: list[Sign] = []
    for pod in pods:
        by_subject[_subject(pod)] = pod
        signs += of_pod(pod)
    signs += [
        s for e in events if (s := of_event(e)) is not None and not _is_over(s, by_subject.get(s.subject))
    ]
    return _most_decisive_first(signs)


def past_waits(events: Iterable[Object]) -> list[Cause]:
    """Why pods had no node for a while, even if they have one by now: too late for the others' ranks."""
    signs = filter(None, map(of_event, events))
    return _most_decisive_first(sign for sign in signs if sign.reason in _UNPLACED.split())


def _most_decisive_first(signs: Iterable[Sign]) -> list[Cause]:
    by_code: dict[str, Cause] = {}
    for sign in signs:
        if (cause := read(sign)) is not None:
            by_code.setdefault(cause.code, cause)  # a pod's status comes first and says more than its events
    rank = {rule.code: place for place, rule in reversed(list(enumerate(RULES)))}
    return sorted(by_code.values(), key=lambda cause: (not cause.final, rank[cause.code]))


def read(sign: Sign) -> Cause | None:
    """The first row of the table that matches the sign."""
    return next((cause for rule in RULES if (cause := rule.read(sign)) is not None), None)


# What only the waiting side can know


def too_late(start_timeout_s: float, hindered: Sequence[Cause], waiting: Iterable[str]) -> Cause:
    """The wait reached the system's start_timeout; `hindered` says what the job waited for."""
    first = hindered[0] if hindered else None
    what = first.what if first else f"{', '.join(waiting) or 'its pods'} did not start"
    evidence = first.evidence if first else "the cluster gives no reason"
    return Cause(
        first.code if first else "start",
        f"{what}, and start_timeout ({start_timeout_s:g} s) has elapsed",
        evidence,
        f"{first.remedy}, or raise start_timeout" if first else "raise the system's start_timeout",
        final=True,
        platform=first.platform if first else False,
        extent=first.extent if first else Extent.TRIAL,
    )


def no_operator(kind: str, needs: str, waited_s: float) -> Cause:
    """Nothing in the cluster has reacted to the job object."""
    who = needs or "the cluster's job controller"
    return Cause(
        "operator",
        f"no controller handles the {kind}",
        f"for {waited_s:g} s it has had no status, event, or pod",
        f"check that {who} is running: kubectl get pods --all-namespaces",
        final=False,
        platform=True,
    )


def too_few_pods(created: int, expected: int, waited_s: float) -> Cause:
    """Only some of the job's pods were created, and nothing says what the others wait for."""
    return Cause(
        "pods",
        f"only {created} of {expected} pods exist",
        f"for {waited_s:g} s there has been no event about the others",
        "its operator creates them: check its log",
        final=False,
        platform=True,
    )


def node_lost(pod: str, node: str, silent_s: float) -> Cause:
    """A node no longer responds, so its pod can't report its state."""
    return Cause(
        "node-lost",
        f"node {node} no longer responds, nor does pod {pod} on it",
        f"the cluster has reported the pod as not ready for {silent_s:g} s, but its container never ended",
        f"check the node: kubectl describe node {node}",
        final=True,
        platform=True,
    )


def not_ready(exits: Sequence[str], waited_s: float) -> Cause:
    """A container beside ranks that have not met ended: the name of their pod is no longer resolved."""
    return Cause(
        "not-ready",
        exits[0],
        "; ".join((*exits[1:], f"{waited_s:g} s later its ranks had not met the others")),
        "keep containers beside the ranks running: `patch` has its command",
        final=True,
    )


def namespace_deleted(refusal: str) -> Cause:
    """Somebody deleted the namespace, and everything in it."""
    return Cause(
        "namespace",
        "the job's namespace was deleted while it ran",
        refusal,
        "create it again, or name another in the system's `namespace`",
        final=True,
        platform=True,
        extent=Extent.PLACE,
    )


def unheard_of(pod: str, trouble: str) -> Cause:
    """Nothing of a running pod's log could be read yet, so that nobody knows whether its ranks started."""
    return Cause(
        "log",
        f"the log of pod {pod} can't be read",
        trouble,
        "the API server reads logs from port 10250 of the pod's node: check what is between them",
        final=False,
        platform=True,
    )


def of_pod(pod: Object) -> Iterator[Sign]:
    """What is wrong according to a pod's status."""
    subject, status = _subject(pod), pod.get("status", {})
    if "reason" in status:
        yield Sign(subject, status["reason"], status.get("message", ""))
    for condition in status.get("conditions", ()):
        bad = "True" if condition["type"] == "DisruptionTarget" else "False"
        if condition["type"] in ("DisruptionTarget", "PodScheduled") and condition["status"] == bad:
            yield Sign(subject, condition.get("reason", ""), condition.get("message", ""))
    for container in status.get("initContainerStatuses", ()):
        yield from _of_init(subject, container, over=status.get("phase") == "Failed")
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in (container.get("state", {}), container.get("lastState", {})):
            for detail in (state.get("waiting"), state.get("terminated")):
                if detail is not None:
                    message = detail.get("message", "") or _limit(pod, container["name"], detail)
                    yield Sign(subject, detail.get("reason", ""), message)


def _of_init(subject: str, container: Object, *, over: bool) -> Iterator[Sign]:
    """A failed container that must end, or run, before the ranks' container starts."""
    code = container.get("state", {}).get("terminated", {}).get("exitCode")
    if code and over:
        yield Sign(subject, "InitContainerFailed", f"init container {container['name']} exited {code}")
    elif code and container.get("restartCount", 0) >= RESTARTS:
        cycle = f"container {container['name']} exited {code} and was restarted {container['restartCount']}"
        yield Sign(subject, "CrashLoopBackOff", f"{cycle} times")


def of_event(event: Object) -> Sign | None:
    """What a warning says; nothing for a normal event or one that only repeats a status."""
    repeats = event.get("reason") == "Failed" and event.get("message", "").startswith("Error: ")
    if event.get("type") != "Warning" or repeats:
        return None
    about = event["involvedObject"]
    return Sign(f"{about['kind'].lower()} {about['name']}", event.get("reason", ""), event.get("message", ""))


def quote_message(sign: Sign) -> str:
    """The cluster's words in one line, without details that only its developers need."""
    message = " ".join(sign.message.split()).removesuffix(": unknown")
    message = re.sub(r" no new claims to deallocate,?|,? ?preemption: .*", "", message)
    return f"{sign.reason}: {message}" if message else sign.reason


def _is_over(sign: Sign, pod: Object | None) -> bool:
    """Whether its pod no longer waits for it: the pod has a node, or its container has started."""
    if pod is None:
        return False
    begun = has_begun(pod)
    if sign.reason == "FailedScheduling":
        return begun or "nodeName" in pod.get("spec", {})
    return begun and sign.reason in ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed")


def _limit(pod: Object, name: str, terminated: Object) -> str:
    """The memory limit of a container that ran out of memory; its status does not say."""
    resources = [
        container.get("resources", {}) for container in pod["spec"]["containers"] if container["name"] == name
    ]
    limit = next((requested.get("limits", {}).get("memory") for requested in resources), None)
    return f"memory limit {limit}" if limit and terminated.get("reason") == "OOMKilled" else ""


def _subject(pod: Object) -> str:
    return f"pod {pod['metadata']['name']}"
