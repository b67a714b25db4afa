"""The state of a job, from its pods, its object, and the reports of its keepers. Pure."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from assay.errors import InputError, LaunchError
from assay.inputs import read_json
from assay.launch import job_directory
from assay.launch.kubernetes.causes import Cause
from assay.launch.kubernetes.objects.kinds import Ending
from assay.launch.kubernetes.objects.pod import meets
from assay.launch.kubernetes.pod_status import has_begun, moment, rank_status
from assay.records import Extent, JobState, JobStatus, Output, from_json, to_json

Object = Mapping[str, Any]


BY_SIGNAL = (137, 143)  # exit codes of SIGKILL and SIGTERM
REMOVED = "somebody else ended the job: its job object was deleted, but not by this run"


@dataclass(frozen=True)
class JobEvidence:
    """Everything that was seen of a job when it was over.

    ends           what the keepers reported about their nodes
    nodes          how many nodes it had
    pods           as last seen before this side ended them
    deleted        uids of those that somebody else deleted, in that order, and when, in seconds since the
                   epoch; None where that is unknown
    runtime_lines  last lines of the runtime, by pod
    causes         according to the cluster, most decisive first
    ending         what the job object said; None if it is gone
    end_requested  this side requested its end
    removed        somebody deleted the job object, but not this side
    lost           bytes that no log contains, as text
    unread         why logs could not be read to their end, as text
    """

    ends: Sequence[Mapping[str, Any]]
    nodes: int
    pods: Sequence[Object]
    deleted: Mapping[str, float | None]
    runtime_lines: Mapping[str, str]
    causes: Sequence[Cause]
    ending: Ending | None
    end_requested: bool
    lost: Sequence[str]
    removed: bool = False
    unread: Sequence[str] = ()


def outcome(seen: JobEvidence) -> JobStatus:
    """How the job ended.

    A keeper's report comes first: it saw the ranks. If no keeper was left to report, the cluster decides.
    Ranks of a job that somebody deleted may still end well, or fail because the others are gone. So may those
    that the platform left when it took another pod of theirs away.
    """
    reported = (
        job_directory.joined([job_directory.job_status(end) for end in seen.ends]) if seen.ends else None
    )
    whole = reported is not None and len(seen.ends) == seen.nodes
    if reported is not None and seen.removed and reported.state in (JobState.SUCCEEDED, JobState.FAILED):
        before = f"; before that: {reported.cause}" if reported.cause else ""
        return _with(reported, JobState.STOPPED, f"{REMOVED}{before}", seen)
    if reported is not None and reported.state in (JobState.FAILED, JobState.TIMED_OUT):
        in_vain = any(map(waited_in_vain, seen.ends))
        first = next((cause for cause in seen.causes if in_vain or (cause.final and cause.platform)), None)
        if first is not None:
            return _missed(reported, first, seen)
        return _with(reported, reported.state, reported.cause, seen)
    if reported is not None and whole and reported.state is JobState.SUCCEEDED:
        return _with(reported, reported.state, "", seen)
    state, cause = (JobState.CANCELLED, "cancelled") if seen.end_requested else _by_the_cluster(seen)
    ended_by_someone = state in (JobState.CANCELLED, JobState.STOPPED)
    extent = seen.causes[0].extent if seen.causes and not ended_by_someone else Extent.TRIAL
    begun = reported or JobStatus(state, started_at=_first_start(seen.pods), ended_at=_last_end(seen.pods))
    return _with(replace(begun, extent=extent), state, cause, seen)


def as_placed(status: JobStatus, nodes: int) -> JobStatus:
    """The same, but failed if it ran on a different number of nodes than requested; 0: any number will do."""
    used = sorted(set(status.hosts))
    if status.state is not JobState.SUCCEEDED or nodes in (0, len(used)) or "" in used:
        return status
    cause = (
        f"placement: {nodes} nodes were requested, but its pods ran on {len(used)} ({', '.join(used)}): "
        "check what placed them: the scheduler, Kueue, or `patch`"
    )
    return replace(status, state=JobState.FAILED, cause=cause)


def waited_in_vain(end: Mapping[str, Any]) -> bool:
    """Whether a keeper, by its own report, gave up waiting for the keepers of other nodes."""
    return end.get("waited_in_vain") is True  # keepers of older Assay versions don't report it


def _missed(reported: JobStatus, cause: Cause, seen: JobEvidence) -> JobStatus:
    """How a job ended whose ranks missed those of a pod that never ran, or that the platform took away."""
    state = JobState.LOST if cause.platform else reported.state
    return _with(replace(reported, extent=cause.extent), state, f"{reported.cause}: {cause}", seen)


def _with(reported: JobStatus, state: JobState, cause: str, seen: JobEvidence) -> JobStatus:
    lost = f"lost in transit: {', '.join(seen.lost)}" if seen.lost else ""
    return replace(reported, state=state, cause="; ".join(filter(None, (cause, lost))))


def _by_the_cluster(seen: JobEvidence) -> tuple[JobState, str]:
    """Why a job ended whose keepers could not all report."""
    first = seen.causes[0] if seen.causes else None
    if first is not None and first.platform:
        return JobState.LOST, f"{first}{_node_suffix(seen)}"
    if seen.removed:  # a cause of the job's may be its effect: a pod finds its Secret gone
        return JobState.STOPPED, f"{REMOVED}; the cluster also said: {first}" if first else REMOVED
    if first is not None:
        return JobState.FAILED, f"{first}{_node_suffix(seen)}"
    gone, gone_at = next(iter(seen.deleted.items()), ("", None))
    for pod in seen.pods:
        exit_code, message = _exit(pod)
        if not exit_code or pod["metadata"]["uid"] in seen.deleted:
            continue
        if not gone or _was_over(pod, gone_at):
            last_lines = seen.runtime_lines.get(pod["metadata"]["name"]) or message
            cause = f"{call(pod)} exited {exit_code}" + (f": {last_lines}" if last_lines else "")
            return JobState.FAILED, "; ".join((cause, *other_exits(seen.pods)))
    if gone:
        first_gone = next(pod for pod in seen.pods if pod["metadata"]["uid"] == gone)
        return JobState.LOST, f"{call(first_gone)} was deleted while the job ran, but not by this run"
    if seen.ending is not None and not seen.ending.succeeded:
        return JobState.FAILED, f"the cluster ended the job: {seen.ending.reason}"
    if seen.pods:
        names, why = ", ".join(map(call, seen.pods)), "".join(f"; {trouble}" for trouble in seen.unread)
        return JobState.LOST, f"the log of {names} stopped before the job reported how it ended{why}"
    return JobState.LOST, "the log of the job stopped before it reported how it ended"


def _was_over(pod: Object, gone_at: float | None) -> bool:
    """Whether a failed pod's end is older than another's deletion, which would have ended it by a signal.

    The API's times are whole seconds, so that a signal of the same second came from the deletion.
    """
    ended = rank_status(pod)["state"]["terminated"]
    ended_at, by_signal = moment(ended.get("finishedAt")), ended["exitCode"] in BY_SIGNAL
    if ended_at is None or gone_at is None:
        return not by_signal
    return ended_at < gone_at or (ended_at == gone_at and not by_signal)


def other_exits(pods: Iterable[Object]) -> Iterator[str]:
    """Containers that ended next to ranks that had not: their pods were not ready from then on."""
    for pod in pods:
        for status in () if is_over(pod) else pod.get("status", {}).get("containerStatuses", ()):
            if ended := status.get("state", {}).get("terminated"):
                exit_code = ended.get("exitCode")
                yield f"container {status['name']} of {call(pod)} exited {exit_code}, so the pod is not ready"


def _node_suffix(seen: JobEvidence) -> str:
    nodes = sorted({node for pod in seen.pods if (node := pod.get("spec", {}).get("nodeName"))})
    return f"; on {', '.join(nodes)}" if 0 < len(nodes) <= 4 else ""


def call(pod: Object) -> str:
    """`pod assay-1f-0-x7 on node2`."""
    node = pod.get("spec", {}).get("nodeName")
    return f"pod {pod['metadata']['name']}" + (f" on {node}" if node else "")


def is_over(pod: Object) -> bool:
    """Whether its ranks aren't running, and never will: another container may outlive theirs."""
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return True
    if "deletionTimestamp" in pod["metadata"] and "nodeName" not in pod["spec"]:
        return True
    return pod["spec"].get("restartPolicy") == "Never" and "terminated" in rank_status(pod).get("state", {})


def was_restarted(pod: Object) -> bool:
    """Whether the ranks' container runs for the second time, or will."""
    return bool(rank_status(pod).get("restartCount", 0) > 0)


def has_replacement(pods: Mapping[str, Object], deleted: Iterable[str], expected: int) -> bool:
    """Whether a new pod replaces one that was deleted while it ran: the job's other ranks don't know it.

    pods  by uid, also those that are gone; expected: how many the job has
    """
    return len(pods) > expected and any(has_begun(pods[uid]) for uid in deleted)


def is_out_of_reach(pod: Object) -> bool:
    """Whether its node is unresponsive: the cluster calls the pod unready although its container never was.

    The node controller sets `Ready` to False for the pods of a node that it no longer hears from; nobody is
    there to set `ContainersReady`. So this needs no permission to read nodes.
    """
    conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions", ())}
    running = pod.get("status", {}).get("phase") == "Running"
    return running and conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True"


def _exit(pod: Object) -> tuple[int, str]:
    ended = rank_status(pod).get("state", {}).get("terminated", {})
    return int(ended.get("exitCode", 0)), str(ended.get("message") or ended.get("reason") or "")


def _first_start(pods: Iterable[Object]) -> float | None:
    states = (state.get("startedAt") for pod in pods for state in rank_status(pod).get("state", {}).values())
    return min((started_at for started_at in map(moment, states) if started_at is not None), default=None)


def _last_end(pods: Iterable[Object]) -> float | None:
    states = (state.get("finishedAt") for pod in pods for state in rank_status(pod).get("state", {}).values())
    return max((ended_at for ended_at in map(moment, states) if ended_at is not None), default=None)


def unreachable(
    pods: Sequence[Object], nodes: int, patience_s: float, policies: Sequence[Object]
) -> Cause | None:
    """That the pods could not reach each other; None if some did not run while the others waited.

    nodes       of the job
    patience_s  how long the ranks of each waited for the others
    policies    the namespace's NetworkPolicies, as far as they may be read
    """
    starts = [_started_at(pod) for pod in pods if has_begun(pod)]
    known = [start for start in starts if start is not None]
    if len(known) < max(2, nodes) or max(known) - min(known) > patience_s / 2:
        return None
    names = ", ".join(sorted(pod["metadata"]["name"] for pod in pods))
    blocking = [
        policy["metadata"]["name"] for policy in policies if any(_selects(policy, pod) for pod in pods)
    ]
    evidence = f"{names} started within {max(known) - min(known):.0f} s of each other"
    if blocking:
        word = "NetworkPolicy" if len(blocking) == 1 else "NetworkPolicies"
        evidence += f"; {word} {', '.join(sorted(blocking))} in the namespace for them"
    return Cause(
        "unreachable",
        "all pods of the job ran, but they could not reach each other",
        evidence,
        "allow traffic between the job's pods, and from them to the cluster's DNS",
        final=False,
    )


def _started_at(pod: Object) -> float | None:
    states = rank_status(pod).get("state", {}).values()
    return next(filter(None, (moment(state.get("startedAt")) for state in states)), None)


def _selects(policy: Object, pod: Object) -> bool:
    """Whether a NetworkPolicy applies to a pod; an empty selector selects all of the namespace."""
    selector, labels = policy["spec"].get("podSelector") or {}, pod["metadata"].get("labels", {})
    return all(
        labels.get(name) == value for name, value in (selector.get("matchLabels") or {}).items()
    ) and all(
        meets(labels.get(requirement["key"]), requirement)
        for requirement in selector.get("matchExpressions") or ()
    )


@dataclass(frozen=True)
class SpooledJob:
    """A job's directory in the launcher's spool."""

    directory: Path

    @property
    def exists(self) -> bool:
        """Whether something is stored and was not removed."""
        return self.directory.is_dir()

    def create(self) -> None:
        """Create the directory."""
        (self.directory / "frames").mkdir(parents=True, exist_ok=True)

    def taken(self) -> dict[str, int]:
        """Bytes stored of each stream that the caller does not store."""
        frames = self.directory / "frames"
        files = self.directory / "files"
        sizes = {path.name: path.stat().st_size for path in frames.glob("*")}
        lying = (path for path in files.rglob("*") if path.is_file())
        return sizes | {f"file:{quote(str(path.relative_to(files)))}": path.stat().st_size for path in lying}

    def is_ours(self, stream: str) -> bool:
        """Whether the stream is stored here rather than by the caller."""
        return stream.startswith(("started-", "ended-", "file:"))

    def append(self, stream: str, data: bytes) -> None:
        """Append to one of these streams. A file whose name leads out of the directory is dropped."""
        path = self.directory / "frames" / stream
        if stream.startswith("file:"):
            name = unquote(stream.removeprefix("file:"))
            with suppress(InputError):
                job_directory.check_output_name(name)
                path = self.directory / "files" / name
                path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)

    def started_at(self) -> float | None:
        """When the ranks of the first node started, by its clock."""
        return min((report["started_at"] for report in self._reports("started")), default=None)

    def ends(self) -> list[dict[str, Any]]:
        """How the nodes ended, from those keepers that reported it."""
        return list(self._reports("ended"))

    def files(self, patterns: Sequence[str]) -> Iterator[Output]:
        """Files of the job that match, in parts of at most 1 MiB.

        Raises LaunchError if they did not arrive.
        """
        if (self.directory / "unkept").exists():
            raise LaunchError((self.directory / "unkept").read_text(encoding="utf-8"))
        return job_directory.written_outputs(self.directory / "files", patterns, {}, 1 << 30)

    def note_unkept(self, why: Sequence[str]) -> None:
        """Record that expected files did not arrive."""
        if why:
            (self.directory / "unkept").write_text("; ".join(why), encoding="utf-8")

    # The job as a whole

    def cancel_asked(self) -> bool:
        """Whether this side requested its end."""
        return (self.directory / "cancelled").exists()

    def note_cancel(self) -> None:
        """Record that this side requested its end."""
        self.create()
        (self.directory / "cancelled").touch()

    def status(self) -> JobStatus | None:
        """How it ended, once that is known."""
        try:
            return from_json(JobStatus, (self.directory / "status.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def settle(self, status: JobStatus) -> None:
        """Save how it ended, atomically."""
        self.create()
        beside = self.directory / "status.part"
        beside.write_text(to_json(status), encoding="utf-8")
        beside.replace(self.directory / "status.json")

    def remove(self) -> None:
        """Remove everything."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.directory)

    def _reports(self, what: str) -> Iterator[dict[str, Any]]:
        for path in sorted((self.directory / "frames").glob(f"{what}-*")):
            with suppress(InputError):  # still arriving
                yield read_json(path)
