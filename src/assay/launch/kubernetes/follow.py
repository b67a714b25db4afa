"""Follows one job to its end: its pods through the shared watch, their logs, and what holds them up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from assay.launch.frames import Frame, Joiner
from assay.launch.kubernetes.causes import (
    Cause,
    CauseWordings,
    causes,
    namespace_deleted,
    no_operator,
    node_lost,
    not_ready,
    past_waits,
    too_few_pods,
    too_late,
    unheard_of,
)
from assay.launch.kubernetes.client import EVENTS, NETWORK_POLICIES, Cluster, Object, Resource
from assay.launch.kubernetes.job_state import (
    JobEvidence,
    SpooledJob,
    as_placed,
    call,
    has_replacement,
    is_out_of_reach,
    is_over,
    other_exits,
    outcome,
    unreachable,
    waited_in_vain,
    was_restarted,
)
from assay.launch.kubernetes.objects.kinds import Ending, JobKind
from assay.launch.kubernetes.pod_status import facts_by_probe
from assay.launch.kubernetes.watch import JobPods, PodLogs, PodWatch
from assay.launch.kubernetes.wire import NO_NAMESPACE, ApiError
from assay.records import JobState, Output

LOOK_EVERY_S = 2.0  # at the job object and its events, while the job waits for something
OUT_OF_REACH_S = 8.0  # a kubelet restart takes less
FAILED_S = 3.0  # beyond the grace time: for pods to end on their own once their job has failed
NOT_READY_S = 15.0  # for ranks to meet if they had the name of a pod that is no longer ready
TAKEN_UP_S = 10.0  # for its controller; a healthy one takes less than a second
FAILED = (JobState.FAILED, JobState.TIMED_OUT)
PODS_ASKED = 4  # waiting pods whose events are read


@dataclass(frozen=True)
class FollowedJob:
    """One job, as its launcher knows it.

    name             of its job object; nodes: how many keepers will report their end
    hosts            how many nodes of the cluster it must run on; 0 if any number will do
    start_timeout_s  longest wait for nodes and images
    grace_s          how long its ranks may take to end
    end              ends it: deletes the job object and waits for its pods
    """

    token: str
    name: str
    nodes: int
    hosts: int
    pods: int
    kind: JobKind
    start_timeout_s: float
    grace_s: float
    end: Callable[[], None]

    @property
    def resource(self) -> Resource:
        """Labels of its job object."""
        return Resource(self.kind.job_ref.api_version, self.kind.job_ref.plural)


class Follower:
    """Collects a job.

    waits_for  what it currently waits for, as text; "" if it is running normally
    """

    def __init__(self, cluster: Cluster, watch: PodWatch, job: FollowedJob, collected: SpooledJob) -> None:
        self.waits_for = ""
        self._cluster, self._watch, self._job, self._collected = cluster, watch, job, collected
        self._logs = PodLogs(cluster)
        self._hindered: list[Cause] = []
        self._lasting: list[Cause] = []  # those that still exist at the next look
        self._worded = CauseWordings()
        self._events: list[Object] = []
        self._ending: Ending | None = None
        self._job_is_gone = self._job_is_removed = self._job_says_something = self._ended_here = False
        self._began = self._looked_at = time.monotonic()
        self._failed_at: float | None = None  # when its job object was first seen to have failed
        self._not_ready_at: float | None = None  # when a container beside ranks had ended
        self._before_end: JobPods | None = None  # its pods when this side ended them
        self._out_of_reach: dict[str, float] = {}
        self._came_from: dict[str, str] = {}  # stream → uid of the pod whose log contains it

    def follow(self, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """As `Launcher.follow`. Raises ApiError if this user may not see the job."""
        joiner = Joiner({**kept, **self._collected.taken()})
        with self._watch.follow(self._job.token, self._logs.wake) as pods:
            try:
                while True:
                    if self._has_succeeded(joiner):  # its pods report it a second later
                        break
                    over = self._is_over(pods)
                    for pod in pods.seen.values():
                        gone = pod["metadata"]["uid"] in pods.gone
                        self._logs.read_on(pod, over=gone or is_over(pod), gone=gone)
                    nothing = True
                    for uid, frame in self._logs.take():
                        output = self._keep(joiner, uid, frame)
                        if output is not None:
                            nothing = False
                            yield output
                    if nothing:
                        yield None
                        if over and self._all_read(pods):
                            break
                    self._look(pods)
            finally:
                self._logs.stop()
            self._settle(pods, joiner)

    def _keep(self, joiner: Joiner, uid: str, frame: Frame) -> Output | None:
        data = joiner.join(frame)
        self._came_from[frame.stream] = uid
        if frame.stream in joiner.gaps:
            self._logs.read_again(uid)
        if self._collected.is_ours(frame.stream):
            if data or not frame.data:
                self._collected.append(frame.stream, data)
            return None
        return Output(frame.stream, data) if data else None

    # Whether it continues

    def _has_succeeded(self, joiner: Joiner) -> bool:
        """Every keeper has reported it as the last entry of its log, and nothing before it is missing."""
        reported = sum(stream.startswith("ended-") for stream in self._came_from)
        if reported < self._job.nodes or joiner.gaps:
            return False
        ends = self._collected.ends()
        return len(ends) == self._job.nodes and all(end["state"] == "succeeded" for end in ends)

    def _is_over(self, pods: JobPods) -> bool:
        """None of its pods is running, and none will."""
        if any(
            not _gone_or_over(pods, pod) and uid not in self._out_of_reach for uid, pod in pods.seen.items()
        ):
            return False
        return (
            self._ended_here
            or self._job_is_gone
            or self._ending is not None
            or len(pods.seen) >= self._job.pods > 0
        )

    def _all_read(self, pods: JobPods) -> bool:
        logs = self._logs.logs
        return all((uid in logs and logs[uid].complete) or self._is_lost(uid) for uid in pods.seen)

    def _is_lost(self, uid: str) -> bool:
        return uid in self._out_of_reach and self._ended_here

    def _look(self, pods: JobPods) -> None:
        """Look at what the pods don't show: the job object, events, unresponsive nodes."""
        if self._watch.refused is not None:  # watching, although listing was allowed
            raise self._watch.refused
        self.waits_for = self._away()
        self._note_out_of_reach(pods)
        if not self._ended_here and (
            self._is_tried_again(pods) or has_replacement(pods.seen, pods.deleted, self._job.pods)
        ):
            self._hindered = causes(map(pods.seen.__getitem__, pods.deleted), ())
            self._end(pods)
        if self._ended_here or time.monotonic() < self._looked_at + LOOK_EVERY_S:
            return
        exits = self._cannot_meet(pods)
        if exits or self._has_failed_for_long(pods):
            self._hindered = [not_ready(exits, NOT_READY_S)] if exits else causes(pods.seen.values(), ())
            self._end(pods)
            return
        waiting = [pod for pod in pods.seen.values() if _waits(pod)]
        unheard = [log for log in self._logs.logs.values() if log.trouble and not log.framed]
        if len(pods.seen) >= self._job.pods and not waiting and not unheard:
            self._hindered = self._lasting = []
            return
        self._looked_at = time.monotonic()
        if self._watch.trouble:
            return
        if len(pods.seen) < self._job.pods or pods.gone:
            self._look_at_job()
        self._events, before = self._events_of(pods, waiting), {cause.code for cause in self._hindered}
        self._hindered = causes(waiting, self._events) or self._not_taken_up(pods)
        if time.monotonic() > self._began + self._job.start_timeout_s:
            hindered = self._hindered or [unheard_of(log.name, log.trouble) for log in unheard]
            self._hindered = [too_late(self._job.start_timeout_s, hindered, map(call, waiting))]
        self._lasting = [cause for cause in self._hindered if cause.final or cause.code in before]
        if len(pods.seen) < self._job.pods and any(map(_failed, pods.seen.values())):
            self._hindered = causes(pods.seen.values(), self._events)  # the others would wait for it forever
            self._end(pods)
        elif any(cause.final for cause in self._hindered):
            self._look_at_job()
            if (
                not self._job_is_removed
            ):  # else what it lacks may have been deleted with it, as its pods will be
                self._end(pods)

    def _not_taken_up(self, pods: JobPods) -> list[Cause]:
        """Pods are missing, and nothing says why."""
        kind, created, expected = self._job.kind, len(pods.seen), self._job.pods
        if time.monotonic() < self._began + TAKEN_UP_S or created >= expected:
            return []
        if created or self._events or self._job_says_something:
            return [too_few_pods(created, expected, TAKEN_UP_S)]
        return [no_operator(kind.job_ref.kind, kind.needs, TAKEN_UP_S)]

    def _away(self) -> str:
        """What the job waits for, first of all the API server."""
        trouble = self._watch.trouble or self._cluster.wire.waits_for or self._logs_in_trouble()
        lasting = "; ".join(map(self._worded.words, self._lasting[:1]))
        return trouble or lasting or next((l.waits_for for l in self._logs.logs.values() if l.waits_for), "")

    def _logs_in_trouble(self) -> str:
        return next((log.trouble for log in self._logs.logs.values() if log.trouble and not log.complete), "")

    def _look_at_job(self) -> None:
        job_object = self._cluster.find(self._job.resource, self._job.name)
        self._job_is_gone = job_object is None
        self._ending = None if job_object is None else self._job.kind.ended(job_object)
        done = (
            self._ending is not None and self._ending.succeeded
        )  # then the cluster's time to live has expired
        if not self._ended_here:
            self._job_is_removed = job_object is None or (
                "deletionTimestamp" in job_object["metadata"] and not done
            )
        self._job_says_something = bool(job_object and job_object.get("status"))

    def _events_of(self, pods: JobPods, waiting: list[Object]) -> list[Object]:
        names = [pod["metadata"]["name"] for pod in waiting[:PODS_ASKED]]
        if len(pods.seen) < self._job.pods:
            names.append(self._job.name)
        events = []
        for name in names:
            events += self._cluster.list(EVENTS, fields=f"involvedObject.name={name}").items
        return events

    def _note_out_of_reach(self, pods: JobPods) -> None:
        now = time.monotonic()
        away = {uid for uid, pod in pods.seen.items() if uid not in pods.gone and is_out_of_reach(pod)}
        self._out_of_reach = {uid: self._out_of_reach.get(uid, now) for uid in away}
        if not self._ended_here and any(
            now - since > OUT_OF_REACH_S for since in self._out_of_reach.values()
        ):
            self._hindered = [
                node_lost(pod["metadata"]["name"], pod["spec"]["nodeName"], OUT_OF_REACH_S)
                for pod in map(pods.seen.__getitem__, sorted(away))
            ]
            self._end(pods)

    def _is_tried_again(self, pods: JobPods) -> bool:
        """Whether its platform restarts what has already failed for good."""
        again = len(pods.seen) > self._job.pods or any(map(was_restarted, pods.seen.values()))
        return again and any(end["state"] in FAILED for end in self._collected.ends())

    def _has_failed_for_long(self, pods: JobPods) -> bool:
        """Whether its object has failed while pods of it run on, which may never learn of it."""
        some_over = any(_gone_or_over(pods, pod) for pod in pods.seen.values())
        if not some_over or self._is_over(pods) or self._out_of_reach or self._watch.trouble:
            return False
        now = self._looked_at = time.monotonic()
        self._look_at_job()
        if self._ending is None or self._ending.succeeded:
            return False
        self._failed_at = self._failed_at or now
        return now > self._failed_at + self._job.grace_s + FAILED_S

    def _cannot_meet(self, pods: JobPods) -> list[str]:
        """Containers that ended beside ranks which have not met, and no longer can; none if they may yet."""
        started = sum(stream.startswith("started-") for stream in self._came_from)
        if not self._job.kind.names_ready or started == self._job.nodes:
            return []
        exits = list(other_exits(pods.seen.values()))
        now = time.monotonic()
        self._not_ready_at = (self._not_ready_at or now) if exits else None
        return exits if self._not_ready_at is not None and now > self._not_ready_at + NOT_READY_S else []

    def _end(self, pods: JobPods) -> None:
        """It will not continue: end what is left of it."""
        self._look_at_job()  # from here on it is gone in any case
        self._before_end = JobPods(pods.seen, {**pods.deleted}, {*pods.gone})
        self._ended_here = True
        self._job.end()

    # How it ended

    def _settle(self, pods: JobPods, joiner: Joiner) -> None:
        """Save how it ended, and what the platform reports about where it ran."""
        if not self._collected.exists:  # removed, or never submitted from here
            return
        ends = self._collected.ends()
        all_told = len(ends) == self._job.nodes and all(end["state"] != "cancelled" for end in ends)
        by_itself = not self._ended_here and not self._collected.cancel_asked()
        if by_itself:
            self._look_at_job()
        in_vain = any(map(waited_in_vain, ends))
        no_namespace = self._no_namespace() if by_itself and self._job_is_removed else None
        if no_namespace is not None:
            self._hindered = [no_namespace]
        elif by_itself and (not all_told or in_vain):
            self._events = self._events_of(pods, list(pods.seen.values()))
            self._hindered = causes(pods.seen.values(), self._events)
            if in_vain and not self._hindered:
                self._hindered = past_waits(self._events) or self._unreachable(self._before_end or pods)
        last = self._before_end or pods
        status = outcome(
            JobEvidence(
                ends=ends,
                nodes=self._job.nodes,
                deleted=dict(last.deleted),
                pods=tuple(last.seen.values()),
                runtime_lines={log.name: " | ".join(log.runtime_lines) for log in self._logs.logs.values()},
                causes=self._hindered,
                ending=self._ending,
                end_requested=self._collected.cancel_asked(),
                lost=[str(gap) for gap in joiner.gaps.values()],
                unread=[log.trouble for log in self._logs.logs.values() if log.complete and log.trouble],
                removed=self._job_is_removed and not self._collected.cancel_asked() and no_namespace is None,
            )
        )
        self._collected.note_unkept([log.unkept for log in self._logs.logs.values() if log.unkept])
        probed = {name: pods.seen[uid] for name, uid in self._came_from.items() if name.startswith("probe-")}
        where = facts_by_probe(self._cluster, probed, ends)
        hosts = tuple(self._host(pods, node) for node in range(self._job.nodes))
        status = replace(status, node_facts=where, hosts=hosts)
        self._collected.settle(as_placed(status, self._job.hosts))

    def _unreachable(self, pods: JobPods) -> list[Cause]:
        """That pods that all ran could not reach each other, with what may have forbidden it."""
        try:
            policies = self._cluster.list(NETWORK_POLICIES).items
        except ApiError:  # most users may not read them
            policies = []
        cause = unreachable(list(pods.seen.values()), self._job.nodes, self._job.start_timeout_s, policies)
        return [] if cause is None else [cause]

    def _no_namespace(self) -> Cause | None:
        """That the namespace is gone, and its jobs with it; asked for by a creation that stores nothing."""
        meta = {"name": self._job.name, "namespace": self._cluster.namespace}
        try:
            self._cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, dry_run=True)
        except ApiError as error:
            return namespace_deleted(str(error)) if re.search(NO_NAMESPACE, str(error)) else None
        return None

    def _host(self, pods: JobPods, node: int) -> str:
        """The node of the pod whose keeper reported that it started or how it ended; "" if none did."""
        uids = (self._came_from.get(f"{what}-{node}") for what in ("started", "ended"))
        uid = next(filter(None, uids), None)
        return "" if uid is None else str(pods.seen[uid]["spec"]["nodeName"])


def _gone_or_over(pods: JobPods, pod: Object) -> bool:
    return pod["metadata"]["uid"] in pods.gone or is_over(pod)


def _failed(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Failed")


def _waits(pod: Object) -> bool:
    return bool(pod.get("status", {}).get("phase", "Pending") == "Pending")
