"""Why a job does not start, or ended, as a cluster says it: pods and events in, causes out. Pure.

A cluster says such things in half a dozen places. They are brought to one form, `Sign`, and one table reads
them; its texts are those of Kubernetes 1.34, as a cluster prints them, and of OpenShift 4, as documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.launch.kubernetes.quota import never_fits
from assay.records import Extent

Object = Mapping[str, Any]
"""A Kubernetes object as its JSON says it."""


@dataclass(frozen=True)
class Cause:
    """Why it does not go on.

    code      one word for tests, tables and retries: `unschedulable`, `image`, `quota`, …
    what      what happened, in words
    evidence  as the cluster said it
    remedy    what to do
    final     it will not mend itself: the job is ended at once
    platform  the cluster's fault rather than the job's: worth another try
    extent    which other jobs would meet it
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
    """Causes that last, as they were first worded: their evidence changes from look to look."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def words(self, cause: Cause) -> str:
        """The same words for the same thing that happened."""
        return self._first.setdefault(cause.what, str(cause))


@dataclass(frozen=True)
class Sign:
    """One thing that the cluster says: about which object, its reason word, its message."""

    subject: str
    reason: str
    message: str


@dataclass(frozen=True)
class Rule:
    """A row of the table: reasons and pattern that make a sign its, and the cause; `{}` names its groups.

    extent  which jobs would meet it: those of a system are made from the same options
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
        """The cause, where the sign is this row's."""
        if sign.reason not in self.reasons.split():
            return None
        found = re.search(self.pattern, sign.message)
        if found is None or not self.when(sign.message):
            return None
        groups = found.groupdict()
        words = (text.format(subject=sign.subject, **groups) for text in (self.what, self.remedy))
        what, remedy = words
        return Cause(self.code, what, said(sign), remedy, self.final, self.platform, self.extent)


RESTARTS = 2  # after so many a container is said to end again and again
# Of a kubelet that admits a pod last, by what it knows itself of its labels, resources and devices
_REJECTED = (
    "NodeAffinity UnexpectedAdmissionError OutOfcpu OutOfmemory OutOfpods OutOfephemeral-storage "
    "OutOfnvidia.com/gpu OutOfamd.com/gpu"
)
_PULL = "ErrImagePull ImagePullBackOff Failed"
_CREATE = "FailedCreate Forbidden"
_OWN, _SHAPED = Extent.TRIAL, Extent.SHAPE  # what befell one pod; what depends on how many ask for how much
_UNPLACED = "Unschedulable FailedScheduling SchedulerError"
RULES: Sequence[Rule] = (
    # What happened to a pod that ran
    Rule("oom", "OOMKilled", "", "{subject} used more memory than its limit and was killed",
          "raise `memory` in the system's resources, or make the batch smaller", extent=_OWN),
    Rule("full", "Evicted", r"exceeds the (?:total )?limit",
          "{subject} wrote more than its limit allows and was evicted",
          "raise the sizeLimit of the volume, or ephemeral-storage of the system's resources", extent=_OWN),
    Rule("evicted", "Evicted", "", "{subject} was evicted by its node",
          "the node ran short of what the evidence names: request it, so that the pod is placed where it is",
          platform=True, extent=_OWN),
    Rule("preempted", "PreemptionByScheduler Preempting", "", "{subject} had to make room for another pod",
          "give the system a priorityClass, or a queue of its own", platform=True, extent=_OWN),
    Rule("node-lost", "DeletionByTaintManager NodeLost NodeNotReady TaintManagerEviction", "",
          "the node of {subject} was lost", "look at the node: kubectl describe node",
          platform=True, extent=_OWN),
    Rule("rejected", _REJECTED, "", "{subject} was put on a node that then rejected it",
          "node and scheduler disagree on labels or devices: look at the device plugin's log",
          platform=True, extent=_OWN),
    Rule("deadline", "DeadlineExceeded", "", "{subject} ran into its deadline",
          "raise the suite's `timeout`, or look for what hangs in its log", extent=_OWN),
    Rule("command", "StartError ContainerCannotRun RunContainerError Failed",
          r'exec: "(?P<program>[^"]+)"', "the image has no program {program}",
          "set `python` of the system to an interpreter that the image has"),
    Rule("start", "StartError ContainerCannotRun RunContainerError CreateContainerError", "",
          "the container of {subject} could not be started",
          "the runtime's words are the evidence: a device, mount or option that the node refuses"),
    Rule("init", "InitContainerFailed", r"container (?P<name>\S+)",
          "{subject} failed before its ranks could start",
          "look at what it says: kubectl logs POD -c {name}", extent=_OWN),
    Rule("crash-loop", "CrashLoopBackOff", "", "{subject} ends again and again",
          "look at its last lines: kubectl logs --previous", extent=_OWN),
    # What a pod waits for
    Rule("image", "ErrImageNeverPull", "", "the image is not on the node, and is not to be pulled",
          "load it on the node, or set imagePullPolicy: IfNotPresent"),
    Rule("image", "InvalidImageName", "", "the image's name is none", "write it as registry/name:tag"),
    Rule("image", _PULL, "invalid reference format", "the image's name is none",
          "write it as registry/name:tag, in small letters"),
    Rule("image", _PULL, r"not found|manifest unknown", "there is no such image",
          "look at `image` of the system: name, tag, and that it was pushed"),
    Rule("image", _PULL, r"(?i)unauthorized|authentication required|denied|403|no basic auth",
          "the registry does not let the cluster have the image",
          "name a pull secret in imagePullSecrets that is in the namespace"),
    Rule("image", _PULL, r"(?i)pull|image", "the image can't be pulled",
          "the node can't reach the registry, or not yet: the evidence says how it failed",
          final=False, platform=True),
    Rule("missing", "CreateContainerConfigError Failed", r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not',
          "{kind} {name} is not there", "create it in the system's namespace, or correct its name"),
    Rule("root", "CreateContainerConfigError Failed", "runAsNonRoot",
          "the image wants to run as root and the namespace forbids it",
          "set runAsUser of the system to a number above 0"),
    Rule("configuration", "CreateContainerConfigError", "", "the container of {subject} can't be made",
          "correct what the evidence names"),
    Rule("slow", "FailedMount", r'(?P<kind>configmap) "assay-[^"]+" not found',  # made before the pod was
          "its node has not got the {kind}s of {subject} yet", "the node asks again by itself",
          final=False, platform=True, extent=_OWN),
    Rule("missing", "FailedMount", r'(?P<kind>secret|configmap) "(?P<name>[^"]+)" not found',
          "{kind} {name} is not there, and {subject} mounts it",
          "create it in the system's namespace, or correct its name"),
    Rule("slow", "FailedMount", r"failed to sync (?P<kind>\S+) cache",
          "its node has not got the {kind}s of {subject} yet", "the node asks again by itself",
          final=False, platform=True, extent=_OWN),
    Rule("mount", "FailedMount", r"hostPath type check failed: (?P<path>\S+)",
          "{path} is not there on the node", "a hostPath volume needs its path on every node that is used"),
    Rule("mount", "FailedMount FailedAttachVolume", "", "a volume of {subject} can't be mounted",
          "look at the claim and its storage class: kubectl describe pvc", final=False, platform=True),
    Rule("network", "FailedCreatePodSandBox", "", "the node can't give {subject} a network",
          "look at the node's network plugin", final=False, platform=True),
    Rule("missing", "Unschedulable FailedScheduling", r'persistentvolumeclaim "(?P<name>[^"]+)" not found',
          "claim {name} is not there", "create the claim in the system's namespace, or correct its name"),
    Rule("unbound", _UNPLACED, "unbound immediate PersistentVolumeClaims",
          "a claim that {subject} mounts has no volume yet",
          "look at the claim and its storage class: kubectl describe pvc", final=False),
    Rule("gated", "SchedulingGated", "", "{subject} is held back by a gate",
          "a queue admits it, or whoever set the gate: kubectl describe pod", final=False, extent=_OWN),
    Rule("unschedulable", _UNPLACED, r"^[^.]*\b(?P<nodes>\d+) Insufficient (?P<resource>\S+?)\.(?: |$)",
          "no node can take {subject}: {nodes} have too little {resource} free",
          "ask for less of it in the system's resources, or free nodes", final=False, extent=_SHAPED),
    Rule("placement", _UNPLACED, r"pod topology spread constraints|pod affinity rules",
          "no node can take {subject} and keep the placement that was requested",
          "free or uncordon nodes, or request what there is: `placement`, or a shape that names its nodes",
          final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, r"untolerated taint",
          "no node can take {subject}: a taint keeps it off",
          "add the taint to tolerations of the system, or free other nodes", final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, r"node affinity|node selector",
          "no node can take {subject}: none has the labels asked for",
          "correct nodeSelector, affinity or shape of the system, or label nodes",
          final=False, extent=_SHAPED),
    Rule("unschedulable", _UNPLACED, "", "no node can take {subject}",
          "ask for less, free nodes, or correct nodeSelector and tolerations", final=False, extent=_SHAPED),
    # Why there is no pod
    Rule("quota", _CREATE, r"exceeded quota: (?P<quota>[^,]+)",
          "quota {quota} of the namespace allows less than one pod asks for",
          "ask for less in the system's resources, or have it raised", when=never_fits, extent=_SHAPED),
    Rule("quota", _CREATE, r"exceeded quota: (?P<quota>[^,]+)",
          "quota {quota} of the namespace leaves no room", "free some of it, or have it raised",
          final=False, extent=_SHAPED),
    Rule("quota", _CREATE, r"failed quota: (?P<quota>[^:]+): must specify (?P<names>\S+)",
          "quota {quota} wants {names} stated", "state them in the system's resources"),
    Rule("limits", _CREATE, r"(?:maximum|minimum) (?:cpu|memory|\S+) usage per",
          "the namespace's limit range refuses the pod", "change the system's resources to fit it",
          extent=_SHAPED),
    Rule("pod-security", _CREATE, r'violates PodSecurity "(?P<level>[^"]+)"',
          "the namespace enforces Pod Security {level}, which forbids what the system asks for",
          "leave out what the evidence names, or use a namespace that allows it"),
    Rule("scc", _CREATE, "unable to validate against any security context constraint",
          "no SecurityContextConstraints allow the pod",
          "`assay cluster prepare --for openshift` prints what is to be granted"),
    Rule("policy", _CREATE, r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding .* denied",
          "admission policy {policy} forbids it", "its words are the evidence"),
    Rule("webhook", f"{_CREATE} InternalError", r'admission webhook "(?P<hook>[^"]+)" denied',
          "admission webhook {hook} refuses it", "its words are the evidence"),
    Rule("webhook", f"{_CREATE} InternalError", r'failed calling webhook "(?P<hook>[^"]+)"',
          "admission webhook {hook} does not answer", "its operator is not running: look at its pods",
          final=False, platform=True),
    Rule("missing", _CREATE, r'serviceaccount "(?P<name>[^"]+)" not found',
          "service account {name} is not there", "create it, or correct serviceAccount of the system"),
    Rule("missing", _CREATE, r"no PriorityClass with name (?P<name>\S+) was found",
          "priority class {name} is not there", "correct priorityClass of the system"),
    Rule("missing", _CREATE, r'RuntimeClass "(?P<name>[^"]+)" not found',
          "runtime class {name} is not there", "correct runtimeClass of the system"),
    Rule("refused", _CREATE, "", "the cluster refuses to make {subject}'s pods",
          "correct what the evidence names", final=False),
)  # fmt: skip


def causes(pods: Iterable[Object], events: Iterable[Object]) -> list[Cause]:
    """What stands in the way, the most decisive first, each once. [] where nothing does.

    pods    of the job
    events  about the job's objects, of any type
    """
    of: dict[str, Object] = {}
    signs: list[Sign] = []
    for pod in pods:
        of[_subject(pod)] = pod
        signs += of_pod(pod)
    signs += [s for e in events if (s := of_event(e)) is not None and not _is_over(s, of.get(s.subject))]
    return _most_decisive_first(signs)


def past_waits(events: Iterable[Object]) -> list[Cause]:
    """Why pods had no node for a while, also those that have one by now: too late for the others' ranks."""
    signs = filter(None, map(of_event, events))
    return _most_decisive_first(sign for sign in signs if sign.reason in _UNPLACED.split())


def _most_decisive_first(signs: Iterable[Sign]) -> list[Cause]:
    found: dict[str, Cause] = {}
    for sign in signs:
        if (cause := read(sign)) is not None:
            found.setdefault(cause.code, cause)  # a pod's status comes first and says more than its events
    rank = {rule.code: place for place, rule in reversed(list(enumerate(RULES)))}
    return sorted(found.values(), key=lambda cause: (not cause.final, rank[cause.code]))


def read(sign: Sign) -> Cause | None:
    """The first row of the table that knows the sign."""
    return next((cause for rule in RULES if (cause := rule.read(sign)) is not None), None)


# What only who waits can tell


def too_late(start_timeout_s: float, hindered: Sequence[Cause], waiting: Iterable[str]) -> Cause:
    """It was waited for as long as the system allows; `hindered` says for what."""
    first = hindered[0] if hindered else None
    what = first.what if first else f"{', '.join(waiting) or 'its pods'} did not start"
    evidence = first.evidence if first else "the cluster names no reason"
    return Cause(
        first.code if first else "start",
        f"{what}, and start_timeout of {start_timeout_s:g} s is over",
        evidence,
        f"{first.remedy}, or raise start_timeout" if first else "raise start_timeout of the system",
        final=True,
        platform=first.platform if first else False,
        extent=first.extent if first else Extent.TRIAL,
    )


def no_operator(kind: str, needs: str, waited_s: float) -> Cause:
    """Nobody has said a word of the job object."""
    who = needs or "the cluster's job controller"
    return Cause(
        "operator",
        f"nobody takes the {kind} up",
        f"for {waited_s:g} s it has neither status nor event nor pod",
        f"look whether {who} runs: kubectl get pods --all-namespaces",
        final=False,
        platform=True,
    )


def too_few_pods(made: int, expected: int, waited_s: float) -> Cause:
    """Some of the job's pods were made, and nobody says what the others wait for."""
    return Cause(
        "pods",
        f"{made} of {expected} pods are there",
        f"for {waited_s:g} s nothing is said of the others",
        "its operator makes them: look at its log",
        final=False,
        platform=True,
    )


def node_lost(pod: str, node: str, silent_s: float) -> Cause:
    """A node is not heard of any more, and so its pod can't say how it goes."""
    return Cause(
        "node-lost",
        f"node {node} does not answer any more, and {pod} with it",
        f"the cluster calls the pod not ready for {silent_s:g} s while its container never ended",
        f"look at the node: kubectl describe node {node}",
        final=True,
        platform=True,
    )


def of_pod(pod: Object) -> Iterator[Sign]:
    """What a pod's status says that is not as it should be."""
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
            for of in (state.get("waiting"), state.get("terminated")):
                if of is not None:
                    said = of.get("message", "") or _limit(pod, of)
                    yield Sign(subject, of.get("reason", ""), said)


def _of_init(subject: str, container: Object, *, over: bool) -> Iterator[Sign]:
    """That a container failed which has to end, or to run, before the ranks' container starts."""
    code = container.get("state", {}).get("terminated", {}).get("exitCode")
    if code and over:
        yield Sign(subject, "InitContainerFailed", f"init container {container['name']} exited {code}")
    elif code and container.get("restartCount", 0) >= RESTARTS:
        said = (
            f"container {container['name']} exited {code} and was started again {container['restartCount']}"
        )
        yield Sign(subject, "CrashLoopBackOff", f"{said} times")


def of_event(event: Object) -> Sign | None:
    """What a warning says; nothing for an event of the usual course, or that only repeats a status."""
    repeats = event.get("reason") == "Failed" and event.get("message", "").startswith("Error: ")
    if event.get("type") != "Warning" or repeats:
        return None
    about = event["involvedObject"]
    return Sign(f"{about['kind'].lower()} {about['name']}", event.get("reason", ""), event.get("message", ""))


def said(sign: Sign) -> str:
    """The cluster's words in one line, without what it adds for those who read its source."""
    words = " ".join(sign.message.split()).removesuffix(": unknown")
    words = re.sub(r" no new claims to deallocate,?|,? ?preemption: .*", "", words)
    return f"{sign.reason}: {words}" if words else sign.reason


def _is_over(sign: Sign, pod: Object | None) -> bool:
    """An event of something that its pod waits for no more: it has a node, its container has begun."""
    if pod is None:
        return False
    states = (of.get("state", {}) for of in pod.get("status", {}).get("containerStatuses", ()))
    begun = any("running" in state or "terminated" in state for state in states)
    if sign.reason == "FailedScheduling":
        return begun or "nodeName" in pod.get("spec", {})
    return begun and sign.reason in ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "Failed")


def _limit(pod: Object, terminated: Object) -> str:
    """What a container that was killed for want of memory could have; its status does not say."""
    containers = pod.get("spec", {}).get("containers", ())
    limits = (of.get("resources", {}).get("limits", {}).get("memory") for of in containers)
    limit = next((limit for limit in limits if limit), None)
    return f"memory limit {limit}" if limit and terminated.get("reason") == "OOMKilled" else ""


def _subject(pod: Object) -> str:
    return f"pod {pod['metadata']['name']}"
