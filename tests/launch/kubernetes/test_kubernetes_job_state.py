"""What a cluster's answers and pods come to, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from assay.launch.kubernetes.causes import Cause, node_lost
from assay.launch.kubernetes.job_state import (
    JobEvidence,
    as_placed,
    has_replacement,
    is_out_of_reach,
    is_over,
    outcome,
    unreachable,
    was_restarted,
)
from assay.launch.kubernetes.objects.kinds import Ending
from assay.launch.kubernetes.objects.payload import PROGRAM_DIR
from assay.launch.kubernetes.pod_status import moment, phase_times
from assay.launch.kubernetes.wire import (
    ApiError,
    ConflictError,
    LoginError,
    NotFoundError,
    WatchExpiredError,
    refusal,
)
from assay.launch.kubernetes.wire import extent_of as refused_extent
from assay.records import Extent, JobState

SUCCESS = {"exit_code": 0, "signal": None, "first": False}
RANKS = {"name": "ranks", "volumeMounts": [{"mountPath": PROGRAM_DIR}]}
SIDE = {"name": "istio-proxy"}


def end(node: int, state: str = "succeeded", cause: str = "", ended_at: float = 20.0) -> dict[str, Any]:
    exits = [{"rank": node, **SUCCESS}]
    whole = {"state": state, "cause": cause, "exits": exits, "started_at": 10.0, "ended_at": ended_at}
    return {
        **whole,
        "streams": {f"rank-{node}": {"bytes": 3, "lines": 1, "sha256": "00"}},
        "node": None,
        "waited_in_vain": False,
    }


def pod(name: str = "p-0", *, exit_code: int | None = None, **meta: str) -> dict[str, Any]:
    state = (
        {"running": {}} if exit_code is None else {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    )
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", **meta},
        "spec": {"nodeName": "node2", "restartPolicy": "Never", "containers": [SIDE, RANKS]},
        "status": {"phase": "Running", "containerStatuses": [of(SIDE, running={}), of(RANKS, **state)]},
    }


def of(container: dict[str, Any], **state: Any) -> dict[str, Any]:
    """What a kubelet reports about a container."""
    return {"name": container["name"], "restartCount": 0, "state": state}


def seen(*ends: dict[str, Any], **more: Any) -> JobEvidence:
    usual = {
        "nodes": 2,
        "pods": [],
        "deleted": {},
        "runtime_lines": {},
        "causes": [],
        "ending": None,
        "end_requested": False,
    }
    return JobEvidence(**{"ends": ends, **usual, "lost": [], **more})


def test_a_job_succeeds_when_every_keeper_says_so() -> None:
    status = outcome(seen(end(0), end(1)))
    assert (status.state, status.cause) == (JobState.SUCCEEDED, "")
    assert set(status.streams) == {"rank-0", "rank-1"}


def test_a_success_with_bytes_lost_on_the_way_says_which() -> None:
    status = outcome(seen(end(0), end(1), lost=["bytes 5 to 9 of rank-1"]))
    assert status.state is JobState.SUCCEEDED
    assert status.cause == "lost in transit: bytes 5 to 9 of rank-1"


def test_the_node_that_failed_is_the_cause_and_not_the_one_that_was_ended_for_it() -> None:
    status = outcome(seen(end(0, "cancelled", "cancelled", 19.0), end(1, "failed", "rank 1 exited 3")))
    assert (status.state, status.cause) == (JobState.FAILED, "rank 1 exited 3")


@pytest.mark.parametrize(("how", "before"), [("succeeded", ""), ("failed", "rank 1 exited 3")])
def test_ranks_that_ended_while_their_job_was_deleted_make_no_result(how: str, before: str) -> None:
    status = outcome(seen(end(0), end(1, how, before), removed=True))
    assert status.state is JobState.STOPPED
    assert "its job object was deleted, but not by this run" in status.cause
    assert status.cause.endswith(before)


def test_ranks_that_never_came_are_named_with_what_their_pod_waited_for() -> None:
    waited = {**end(0, "failed", "rank 1 of 2 did not start within 60 s"), "exits": [], "started_at": None}
    waited |= {"waited_in_vain": True}
    words = "unschedulable", "no node can take pod p-1", "1 Insufficient cpu", "free nodes"
    full = Cause(*words, final=False, extent=Extent.SHAPE)
    status = outcome(seen(waited, causes=[full], pods=[pod("p-0", exit_code=1)]))
    assert (status.state, status.extent) == (JobState.FAILED, Extent.SHAPE)
    cancelled = {**waited, "state": "cancelled", "cause": "cancelled before the ranks started"}
    other_order = outcome(seen(cancelled, causes=[full], pods=[pod("p-0", exit_code=1)]))
    assert (other_order.state, other_order.extent) == (JobState.FAILED, Extent.SHAPE)
    assert status.cause == (
        "rank 1 of 2 did not start within 60 s: no node can take pod p-1 (1 Insufficient cpu); free nodes"
    )


def test_a_job_that_was_placed_on_fewer_nodes_than_requested_is_no_result() -> None:
    good = replace(outcome(seen(end(0), end(1))), hosts=("node1", "node1"))
    assert as_placed(good, 0) == as_placed(good, 1) == good
    refused = as_placed(good, 2)
    assert refused.state is JobState.FAILED
    assert "2 nodes were requested, but its pods ran on 1 (node1)" in refused.cause


def test_a_keeper_that_said_nothing_makes_no_success() -> None:
    status = outcome(seen(end(0), pods=[pod("p-0", exit_code=0), pod("p-1", exit_code=0)]))
    assert status.state is JobState.LOST
    assert "before the job reported how it ended" in status.cause


def test_a_pod_that_ended_without_a_word_is_named_with_its_code_and_what_the_runtime_said() -> None:
    status = outcome(seen(pods=[pod(exit_code=127)], runtime_lines={"p-0": "exec: python3: not found"}))
    assert status.state is JobState.FAILED
    assert status.cause == "pod p-0 on node2 exited 127: exec: python3: not found"


def test_the_first_pod_that_somebody_deleted_is_named() -> None:
    gone = [pod(f"p-{i}", exit_code=143, deletionTimestamp="2026-01-01T00:00:00Z") for i in (1, 0)]
    status = outcome(
        seen(end(0, "cancelled", "cancelled"), pods=gone[::-1], deleted={"uid-p-1": 1.0, "uid-p-0": 1.0})
    )
    assert status.state is JobState.LOST
    assert status.cause.startswith("pod p-1 on node2 was deleted")


def test_a_job_object_that_somebody_deleted_is_a_stop_and_no_loss() -> None:
    gone = pod(exit_code=143, deletionTimestamp="2026-01-01T00:00:00Z")
    told = end(0, "cancelled", "cancelled")
    for more in ({"pods": [gone], "deleted": {"uid-p-0": 1.0}}, {}):
        status = outcome(seen(told, removed=True, **more))
        assert status.state is JobState.STOPPED
        assert "its job object was deleted, but not by this run" in status.cause
    assert outcome(seen(told, pods=[gone], removed=True, end_requested=True)).state is JobState.CANCELLED


def test_a_secret_that_went_with_the_deleted_job_is_not_the_cause_but_a_dead_node_is() -> None:
    words = "missing", "secret s does not exist", "not found", "create it"
    status = outcome(seen(causes=[Cause(*words, final=True, extent=Extent.SYSTEM)], removed=True))
    assert (status.state, status.extent) == (JobState.STOPPED, Extent.TRIAL)
    assert status.cause.endswith("the cluster also said: secret s does not exist (not found); create it")
    dead = Cause("node", "node2 died", "NotReady", "wait", final=True, platform=True)
    assert outcome(seen(causes=[dead], removed=True)).state is JobState.LOST


def test_an_end_that_was_asked_for_is_a_cancel_whatever_the_pods_say() -> None:
    assert outcome(seen(pods=[pod(exit_code=137)], end_requested=True)).state is JobState.CANCELLED


def test_a_pod_is_over_when_its_ranks_are_whatever_other_containers_do() -> None:
    assert is_over(pod(exit_code=0))
    assert not is_over(pod())
    sides_only = pod()
    sides_only["status"]["containerStatuses"] = [of(SIDE, terminated={"exitCode": 1})]
    assert not is_over(sides_only)
    status = outcome(seen(pods=[sides_only]))
    assert "exited 1" not in status.cause
    restarting = pod(exit_code=1)
    restarting["spec"]["restartPolicy"] = "OnFailure"
    assert not is_over(restarting)


def test_a_container_that_is_restarted_next_to_the_ranks_does_not_count_as_theirs() -> None:
    one = pod()
    one["status"]["containerStatuses"][0]["restartCount"] = 3
    assert not was_restarted(one)
    one["status"]["containerStatuses"][1]["restartCount"] = 1
    assert was_restarted(one)


def test_ranks_that_failed_because_the_platform_took_their_peers_away_are_lost_and_tried_again() -> None:
    failed = end(0, "failed", "rank 0 exited 1")
    peer = end(1, "cancelled", "cancelled")
    rebooted = Cause("container-lost", "pod p-1 vanished", "Unknown", "check it", final=True, platform=True)
    for ends in ([failed], [failed, peer]):
        status = outcome(seen(*ends, causes=[rebooted]))
        assert (status.state, status.extent) == (JobState.LOST, Extent.TRIAL)
        assert status.cause == "rank 0 exited 1: pod p-1 vanished (Unknown); check it"
    slow = replace(rebooted, code="slow", final=False)
    assert outcome(seen(failed, peer, causes=[slow])).state is JobState.FAILED


@pytest.mark.parametrize(("platform", "state"), [(True, JobState.LOST), (False, JobState.FAILED)])
def test_what_the_platform_did_is_a_loss_and_what_the_job_did_a_failure(
    platform: bool, state: JobState
) -> None:
    status = outcome(seen(causes=[Cause("x", "it happened", "said so", "mend it", True, platform)]))
    assert status.state is state
    assert "it happened (said so); mend it" in status.cause


def test_the_job_objects_own_word_is_the_last_resort() -> None:
    ending = Ending(succeeded=False, reason="DeadlineExceeded: too long")
    assert outcome(seen(ending=ending)).cause == "the cluster ended the job: DeadlineExceeded: too long"


def test_a_pod_is_out_of_reach_when_it_is_unready_and_its_container_never_was() -> None:
    def with_conditions(**told: str) -> dict[str, Any]:
        one = pod()
        one["status"]["conditions"] = [{"type": kind, "status": status} for kind, status in told.items()]
        return one

    assert is_out_of_reach(with_conditions(Ready="False", ContainersReady="True"))
    assert not is_out_of_reach(with_conditions(Ready="False", ContainersReady="False"))
    assert not is_out_of_reach(with_conditions(Ready="True", ContainersReady="True"))


def test_a_pods_time_is_split_into_queue_pull_and_start() -> None:
    one = pod(creationTimestamp="2026-01-01T00:00:00Z", uid="u")
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"}
    one["status"]["conditions"] = [placed]
    about = {"involvedObject": {"uid": "u"}}
    events = [
        {**about, "reason": "Pulling", "firstTimestamp": "2026-01-01T00:00:05Z"},
        {**about, "reason": "Pulled", "firstTimestamp": "2026-01-01T00:00:35Z", "message": "pulled in 30 s"},
    ]
    ranks_at = 1767225600.0 + 36.5
    assert phase_times(one, events, ranks_at) == {"queue_s": 4.0, "pull_s": 30.0, "start_s": 2.5}
    assert phase_times(one, [], None) == {"queue_s": 4.0}  # what nobody told is not 0


@pytest.mark.parametrize(
    ("code", "reason", "message", "kind", "expected"),
    [
        (401, "Unauthorized", "Unauthorized", LoginError, "log in again"),
        (
            403,
            "Forbidden",
            'pods is forbidden: User "u" cannot list resource "pods"',
            ApiError,
            "`assay cluster rbac` prints a Role",
        ),
        (403, "Forbidden", "pods x is forbidden: exceeded quota: q, requested: cpu=4", ApiError, "used up"),
        (403, "Forbidden", 'violates PodSecurity "restricted:latest"', ApiError, "Pod Security level"),
        (400, "", 'admission webhook "w.x.io" denied the request: no', ApiError, "a rule of the cluster"),
        (
            500,
            "InternalError",
            'failed calling webhook "w": connection refused',
            ApiError,
            "does not respond",
        ),
        (404, "NotFound", "the server could not find the requested resource", NotFoundError, "not installed"),
        (409, "AlreadyExists", 'jobs "x" already exists', ConflictError, "already exists"),
        (410, "Expired", "too old resource version", WatchExpiredError, "too old"),
    ],
)
def test_a_refusal_says_what_was_done_what_the_server_said_and_what_to_do(
    code: int, reason: str, message: str, kind: type[ApiError], expected: str
) -> None:
    error = refusal("create Job x", code, {"reason": reason, "message": message})
    assert type(error) is kind
    assert str(error).startswith("can't create Job x: ")
    assert expected in str(error)
    assert (error.code, error.reason) == (code, reason)


@pytest.mark.parametrize(
    ("code", "message", "extent"),
    [
        (404, 'namespaces "bench" not found', Extent.PLACE),
        (403, "unable to create new content in namespace bench because it is being terminated", Extent.PLACE),
        (403, 'pods is forbidden: User "u" cannot create resource "jobs"', Extent.PLACE),
        (404, "the server could not find the requested resource", Extent.SYSTEM),
        (500, 'failed calling webhook "w": connection refused', Extent.SYSTEM),
        (422, "Job x is invalid", Extent.POINT),
    ],
)
def test_a_refusal_concerns_the_jobs_that_its_words_say(code: int, message: str, extent: Extent) -> None:
    assert refused_extent(refusal("create Job x", code, {"message": message})) is extent


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def ended(name: str, code: int, second: int, **meta: Any) -> dict[str, Any]:
    one = pod(name, exit_code=code, **meta)
    one["status"]["containerStatuses"][1]["state"]["terminated"]["finishedAt"] = at(second)
    return one


@pytest.mark.parametrize(
    ("code", "second", "state", "words"),
    [
        (143, 12, JobState.LOST, "pod launcher on node2 was deleted while the job ran, but not by this run"),
        (143, 10, JobState.LOST, "pod launcher on node2 was deleted"),
        (255, 11, JobState.LOST, "pod launcher on node2 was deleted"),
        (3, 10, JobState.FAILED, "pod worker-0 on node2 exited 3"),
        (143, 9, JobState.FAILED, "pod worker-0 on node2 exited 143"),
    ],
)
def test_a_pod_that_ends_because_another_was_deleted_is_not_the_cause(
    code: int, second: int, state: JobState, words: str
) -> None:
    launcher = ended("launcher", 1, 11, deletionTimestamp=at(11), deletionGracePeriodSeconds=0)
    worker = ended("worker-0", code, second)
    told = end(0, "cancelled", "cancelled")
    status = outcome(seen(told, pods=[worker, launcher], deleted={"uid-launcher": moment(at(10))}))
    assert status.state is state
    assert status.cause.startswith(words)


def test_a_pod_without_times_that_ended_by_a_signal_ended_for_the_deleted_one() -> None:
    gone, worker = pod("launcher", exit_code=143), pod("worker-0", exit_code=143)
    assert outcome(seen(pods=[worker, gone], deleted={"uid-launcher": None})).state is JobState.LOST
    worker = pod("worker-0", exit_code=3)
    assert outcome(seen(pods=[worker, gone], deleted={"uid-launcher": None})).state is JobState.FAILED


def test_a_container_that_made_the_workers_unready_is_named_with_the_launchers_exit() -> None:
    worker = pod("worker-0")
    worker["status"]["containerStatuses"][0] = of(SIDE, terminated={"exitCode": 1})
    said = {"launcher": "ssh: Could not resolve hostname"}
    status = outcome(seen(pods=[worker, pod("launcher", exit_code=255)], runtime_lines=said))
    assert status.cause == (
        "pod launcher on node2 exited 255: ssh: Could not resolve hostname; "
        "container istio-proxy of pod worker-0 on node2 exited 1, so the pod is not ready"
    )


def test_a_pod_replaced_while_it_ran_is_no_part_of_the_job_and_one_replaced_before_is() -> None:
    pods = {f"uid-{name}": pod(name) for name in ("a", "b", "c")}
    assert has_replacement(pods, ["uid-b"], 2)
    assert not has_replacement(pods, ["uid-b"], 3)
    assert not has_replacement(pods, [], 2)
    pods["uid-b"]["status"]["containerStatuses"] = []  # it only waited, as in a queue
    assert not has_replacement(pods, ["uid-b"], 2)


def test_a_silent_node_is_named_once() -> None:
    assert str(node_lost("p-1", "node2", 8.0)).startswith(
        "node node2 no longer responds, nor does pod p-1 on it (the cluster"
    )


def started(name: str, at: str) -> dict[str, Any]:
    begun = pod(name)
    begun["metadata"]["labels"] = {"app": "assay"}
    begun["status"]["containerStatuses"][1]["state"] = {"running": {"startedAt": at}}
    return begun


DENY = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}}}
OTHERS = {"metadata": {"name": "others"}, "spec": {"podSelector": {"matchLabels": {"app": "web"}}}}


def test_pods_that_ran_and_waited_for_each_other_in_vain_could_not_reach_each_other() -> None:
    pods = [started("p-0", "2026-01-01T08:00:00Z"), started("p-1", "2026-01-01T08:00:03Z")]
    found = unreachable(pods, 2, 60.0, [DENY, OTHERS])
    assert found is not None
    assert "p-0, p-1 started within 3 s of each other; NetworkPolicy deny" in str(found)
    assert "others" not in str(found)
    assert "NetworkPolicy" not in str(unreachable(pods, 2, 60.0, []))
    late = [pods[0], started("p-1", "2026-01-01T08:00:50Z")]
    assert unreachable(late, 2, 60.0, [DENY]) is None, "it may have come too late"
    assert unreachable(pods[:1], 2, 60.0, [DENY]) is None
