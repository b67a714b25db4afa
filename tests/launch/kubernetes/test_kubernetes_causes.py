"""Why a job on Kubernetes does not go on, from what a cluster (1.34) said when it was made to happen."""

from __future__ import annotations

from typing import Any

import pytest

from assay.launch.kubernetes.causes import CauseWordings, causes, too_late
from assay.launch.kubernetes.objects.payload import PROGRAM_DIR
from assay.records import Extent

POD = "trial-abc"


RANKS = {"name": "ranks", "volumeMounts": [{"mountPath": PROGRAM_DIR}]}


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": POD}, "spec": {"containers": [RANKS]}, "status": status}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(containerStatuses=[{"name": "ranks", "state": state}])


def ended(reason: str, message: str = "", code: int = 1) -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "message": message, "exitCode": code}}
    return pod(phase="Failed", containerStatuses=[{"name": "ranks", "state": state}])


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(conditions=[condition])


def disrupted(reason: str) -> dict[str, Any]:
    return pod(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "m"}])


def warning(kind: str, reason: str, message: str) -> dict[str, Any]:
    about = {"kind": kind, "name": POD if kind == "Pod" else "trial"}
    return {"type": "Warning", "reason": reason, "message": message, "involvedObject": about}


def refused(message: str) -> dict[str, Any]:
    return warning("Job", "FailedCreate", f'Error creating: pods "trial-" is forbidden: {message}')


CREATING = waiting("ContainerCreating")
PREEMPTION = " no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful"
STANDING: list[tuple[str, bool, str, dict[str, Any] | None, dict[str, Any] | None]] = [
    ("unschedulable", False, "2 Insufficient nvidia.com/gpu.",
     unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu." + PREEMPTION), None),
    ("unschedulable", False, "node affinity/selector",
     unscheduled("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."), None),
    ("unschedulable", False, "12 have too little nvidia.com/gpu free",
     unscheduled("0/12 nodes are available: 12 Insufficient nvidia.com/gpu." + PREEMPTION), None),
    ("unschedulable", False, "tolerations",
     unscheduled("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's "
                 "node affinity/selector."), None),
    ("unbound", False, "kubectl describe pvc",
     unscheduled("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."), None),
    ("missing", True, "claim absent does not exist",
     unscheduled('0/2 nodes are available: persistentvolumeclaim "absent" not found. not found'), None),
    ("image", True, "not on the node", waiting("ErrImageNeverPull", "is not present with pull policy"), None),
    ("image", True, "name is invalid",
     waiting("ImagePullBackOff", 'ErrImagePull: invalid reference format'), None),
    ("image", True, "the image does not exist",
     waiting("ErrImagePull", 'failed to resolve reference "reg/none:1": reg/none:1: not found'), None),
    ("image", True, "pull secret", waiting("ErrImagePull", "unexpected status: 401 Unauthorized"), None),
    ("image", False, "can't reach the registry",
     waiting("ImagePullBackOff", 'ErrImagePull: dial tcp: i/o timeout'), None),
    ("command", True, "the image has no program no-such-program",
     ended("StartError", 'exec: "no-such-program": executable file not found: unknown'), None),
    ("unreadable", True, f"the user of pod {POD} may not run /a/bin/python",
     ended("StartError", 'exec: "/a/bin/python": stat /a/bin/python: permission denied: unknown'), None),
    ("missing", True, "secret absent does not exist",
     waiting("CreateContainerConfigError", 'secret "absent" not found'), None),
    ("root", True, "runAsUser",
     waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"), None),
    ("missing", True, "configmap absent, which pod",
     CREATING, warning("Pod", "FailedMount", 'MountVolume.SetUp failed: configmap "absent" not found')),
    ("mount", True, "/absent/dir is missing on the node",
     CREATING, warning("Pod", "FailedMount", "hostPath type check failed: /absent/dir is not a directory")),
    ("oom", True, "more memory than its limit", ended("OOMKilled", code=137), None),
    ("rejected", True, "Predicate NodeAffinity failed",
     pod(phase="Failed", reason="NodeAffinity", message="Pod was rejected: Predicate NodeAffinity failed: "
         "node(s) didn't match Pod's node affinity/selector"), None),
    ("evicted", True, "ephemeral-storage",
     pod(phase="Failed", reason="Evicted", message="The node was low on resource: ephemeral-storage."), None),
    ("full", True, "raise the volume's sizeLimit",
     pod(phase="Failed", reason="Evicted", message='Usage of EmptyDir volume "v" exceeds the limit "1Mi". '),
     None),
    ("preempted", True, "priorityClassName", disrupted("PreemptionByScheduler"), None),
    ("node-lost", True, f"the node of pod {POD} was lost", disrupted("DeletionByTaintManager"), None),
    ("container-lost", True, f"pod {POD} vanished from its node", ended("Unknown", code=255), None),
    ("container-lost", True, "was rebooted", ended("ContainerStatusUnknown", "not located", 137), None),
    ("drained", True, "as a drain makes it", disrupted("EvictionByEvictionAPI"), None),
    ("shutdown", True, "was shut down", disrupted("TerminationByKubelet"), None),
    ("node-lost", True, f"the node of pod {POD} was lost", disrupted("DeletionByPodGC"), None),
    ("deadline", True, "timeout", pod(phase="Failed", reason="DeadlineExceeded"), None),
    ("crash-loop", True, "--previous", waiting("CrashLoopBackOff", "back-off 10s restarting"), None),
    ("quota", False, "quota q is used up",
     None, refused("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2")),
    ("quota", True, "quota q allows less than one pod requests",
     None, refused("exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")),
    ("quota", True, "requires limits.memory",
     None, refused("failed quota: q: must specify limits.memory")),
    ("pod-security", True, "runAsNonRoot != true",
     None, refused('violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or container)')),
    ("scc", True, "SecurityContextConstraints",
     None, refused("unable to validate against any security context constraint: [capabilities.add]")),
    ("missing", True, "service account absent",
     None, refused('error looking up service account ns/absent: serviceaccount "absent" not found')),
    ("missing", True, "priority class absent", None, refused("no PriorityClass with name absent was found")),
    ("missing", True, "runtime class absent",
     None, refused('pod rejected: RuntimeClass "absent" not found')),
    ("policy", True, "admission policy guard rejects the pod",
     None, refused("ValidatingAdmissionPolicy 'guard' with binding 'all' denied request: not on weekdays")),
    ("webhook", True, "admission webhook guard.example rejects the pod",
     None, warning("Job", "FailedCreate", 'admission webhook "guard.example" denied the request: no')),
    ("webhook", False, "does not respond",
     None, warning("Job", "FailedCreate", 'failed calling webhook "guard.example": connection refused')),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "final", "words", "of_pod", "event"),
    STANDING,
    ids=[f"{s[0]}-{i}" for i, s in enumerate(STANDING)],
)
def test_each_cause_is_told_from_what_the_cluster_says(
    code: str, final: bool, words: str, of_pod: dict[str, Any] | None, event: dict[str, Any] | None
) -> None:
    found = causes([of_pod] if of_pod else [], [event] if event else [])
    assert [cause.code for cause in found] == [code]
    assert found[0].final is final
    assert words in str(found[0])


def test_only_what_the_platform_did_is_worth_another_try() -> None:
    worth = {
        c[0] for c in STANDING for f in causes([c[3]] if c[3] else [], [c[4]] if c[4] else []) if f.platform
    }
    gone = {"evicted", "preempted", "node-lost", "container-lost", "drained", "shutdown", "rejected"}
    assert worth == gone | {"image", "webhook"}


def test_a_pod_that_runs_well_has_no_cause_whatever_was_said_before() -> None:
    running = pod(phase="Running", containerStatuses=[{"name": "ranks", "state": {"running": {}}}])
    late = warning("Pod", "FailedMount", 'configmap "absent" not found')
    assert causes([running], [late, {**late, "type": "Normal"}]) == []


def test_a_status_is_said_once_and_not_again_from_its_events() -> None:
    status = waiting("ErrImagePull", 'failed to resolve reference "r/n:1": r/n:1: not found')
    again = warning("Pod", "Failed", 'Failed to pull image "r/n:1": r/n:1: not found')
    found = causes([status], [again, warning("Pod", "Failed", "Error: ErrImagePull")])
    assert [cause.code for cause in found] == ["image"]
    assert found[0].evidence.startswith("ErrImagePull: failed to resolve")


def test_the_most_decisive_comes_first() -> None:
    found = causes([unscheduled("0/2 nodes are available"), ended("OOMKilled", code=137)], [])
    assert [cause.code for cause in found] == ["oom", "unschedulable"]


def test_an_exit_of_the_program_itself_is_no_cause_of_the_platform() -> None:
    assert causes([ended("Error", code=3)], [warning("Job", "BackoffLimitExceeded", "limit reached")]) == []


def test_what_a_pod_waited_for_before_it_began_is_no_cause_of_its_end() -> None:
    failed = ended("Error", code=3)
    waited = [
        warning("Pod", "FailedScheduling", "0/2 nodes are available"),
        warning("Pod", "FailedMount", "m"),
    ]
    assert causes([failed], waited) == []
    assert [cause.code for cause in causes([pod()], waited)] == ["mount", "unschedulable"]


def test_a_job_s_own_config_map_that_a_busy_node_has_not_seen_yet_does_not_end_it() -> None:
    said = 'MountVolume.SetUp failed for volume "assay-sent" : configmap "{}" not found'
    [own] = causes([pod()], [warning("Pod", "FailedMount", said.format("assay-212dff8e2e9146bb8580-1"))])
    assert (own.code, own.final) == ("slow", False)
    [users] = causes([pod()], [warning("Pod", "FailedMount", said.format("settings"))])
    assert (users.code, users.final) == ("missing", True)


def test_a_container_killed_for_want_of_memory_is_told_with_its_limit() -> None:
    killed = ended("OOMKilled", code=137)
    side = {"name": "side", "resources": {"limits": {"memory": "32Mi"}}}
    killed["spec"] = {"containers": [side, {**RANKS, "resources": {"limits": {"memory": "64Mi"}}}]}
    assert "memory limit 64Mi" in causes([killed], [])[0].evidence


def test_what_runs_before_the_ranks_is_told_when_it_fails() -> None:
    failed = {"name": "prepare", "state": {"terminated": {"exitCode": 9}}, "restartCount": 0}
    assert causes([pod(phase="Running", initContainerStatuses=[failed])], []) == []
    over = causes([pod(phase="Failed", initContainerStatuses=[failed])], [])
    assert [(cause.code, cause.extent) for cause in over] == [("init", Extent.SYSTEM)]  # its pods are alike
    again = causes([pod(phase="Pending", initContainerStatuses=[{**failed, "restartCount": 2}])], [])
    assert [cause.code for cause in again] == ["crash-loop"]
    assert "prepare exited 9 and was restarted 2 times" in again[0].evidence


def test_what_was_waited_for_too_long_keeps_its_evidence() -> None:
    waits = causes([unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")], [])
    late = too_late(60.0, waits, ())
    assert (late.code, late.final, late.evidence) == ("unschedulable", True, waits[0].evidence)
    assert "start_timeout (60 s) has elapsed" in str(late)
    assert "pod a did not start" in str(too_late(60.0, [], ["pod a"]))


def test_a_cause_that_lasts_keeps_its_words_whatever_evidence_comes() -> None:
    first, later = (
        causes([waiting("ErrImagePull", said)], [])[0]
        for said in (
            "failed to pull image: dial tcp 10.0.0.1:443: timeout",
            "Back-off pulling image: dial tcp",
        )
    )
    worded = CauseWordings()
    assert str(first) != str(later)
    assert worded.words(first) == worded.words(later) == str(first)
