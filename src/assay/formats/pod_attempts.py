"""Attempts at jobs from the pods that Kubernetes still has: `kubectl get pods --all-namespaces -o json`.

Pods remain until their job is deleted, its time to live is over, or the pods exceed the garbage collector's
threshold; events remain for an hour, so they are not used.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.formats.job_attempts import TOGETHER_S, JobAttempt, Outcome, unreadable
from assay.inputs import read_whole

_COMMAND: Final = "write it with `kubectl get pods --all-namespaces -o json`"
_JOB_LABELS: Final = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_DISRUPTIONS: Final[Mapping[str, Outcome]] = {
    "PreemptionByScheduler": "preempted",
    "EvictionByEvictionAPI": "cancelled",  # somebody drained the node
    "DeletionByTaintManager": "interrupted",
    "DeletionByPodGC": "interrupted",
    "TerminationByKubelet": "interrupted",
}
_REASONS: Final[Mapping[str, Outcome]] = {
    "DeadlineExceeded": "timed out",
    "Evicted": "interrupted",
    "NodeLost": "interrupted",
    "NodeShutdown": "interrupted",
    "Shutdown": "interrupted",
    "Terminated": "interrupted",  # by a node that shut down
    "UnexpectedAdmissionError": "interrupted",
}
_BREAKS: Final = ("failed", "interrupted", "preempted", "timed out")  # ends after which a job starts anew


@dataclass(frozen=True)
class PodLife:
    """A pod, or its life until its containers were restarted, from begin to end, seconds since 1970."""

    job: str
    node: str
    begin_at: float
    end_at: float
    outcome: Outcome

    @property
    def blamed(self) -> str:
        """The node, if it is to blame."""
        return self.node if self.outcome == "interrupted" else ""


def from_pods(path: Path, until: float) -> list[JobAttempt]:
    """Attempts at each job of Job, JobSet, MPI Operator and Trainer; other pods are left out.

    until  end of the observation, seconds since 1970

    A job starts anew when one of its pods failed, was evicted or preempted. Raises InputError with every pod
    that can't be read.
    """
    try:
        document = json.loads(read_whole(path))
    except (ValueError, RecursionError) as error:
        raise InputError([Problem(str(path), f"not JSON ({error}); {_COMMAND}")]) from error
    pods = document.get("items") if isinstance(document, dict) else None
    if not isinstance(pods, list):
        raise InputError([Problem(str(path), f"has no list of pods; {_COMMAND}")])
    lives: dict[str, list[PodLife]] = {}
    problems = []
    for number, pod in enumerate(pods):
        try:
            for life in _lives(pod, until):
                lives.setdefault(life.job, []).append(life)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problems.append(Problem(f"{path}: pod {number + 1}", unreadable(error)))
    if problems:
        raise InputError(problems)
    return [attempt for job, own in lives.items() for attempt in _attempts(job, own)]


def _lives(pod: Mapping[str, Any], until: float) -> Iterator[PodLife]:
    about, status, labels = pod["metadata"], pod["status"], pod["metadata"].get("labels") or {}
    name = next((labels[label] for label in _JOB_LABELS if label in labels), None)
    node, started = pod["spec"].get("nodeName"), status.get("startTime")
    if name is None or not node or not started or status["phase"] == "Pending" or _time(started) >= until:
        return
    job, begin_at = f"{about.get('namespace', 'default')}/{name}", _time(started)
    containers = status.get("containerStatuses") or []
    if (restarts := max((int(container.get("restartCount", 0)) for container in containers), default=0)) > 1:
        raise ValueError(
            f"{about['name']} was restarted {restarts} times, and Kubernetes remembers the last one only; "
            "state its attempts with --csv"
        )
    restarted = [
        _time(last["finishedAt"]) for container in containers if (last := _ended(container, "lastState"))
    ]
    if restarted and min(restarted) < until:
        yield PodLife(job, node, begin_at, max(begin_at, min(restarted)), "failed")
        begin_at = max(begin_at, min(restarted))
    if status["phase"] not in ("Succeeded", "Failed"):
        yield PodLife(job, node, begin_at, until, "running")
        return
    outcome = "completed" if status["phase"] == "Succeeded" else _failure(status)
    finished = [
        _time(state["finishedAt"]) for container in containers if (state := _ended(container, "state"))
    ]
    changed = [
        _time(condition["lastTransitionTime"])
        for condition in status.get("conditions") or []
        if condition.get("lastTransitionTime")
    ]
    if not (finished or changed):
        raise ValueError(f"{about['name']} is {status['phase']}, but does not state when it ended")
    end_at = max(begin_at, *(finished or changed))
    yield PodLife(job, node, begin_at, min(until, end_at), "running" if end_at > until else outcome)


def _ended(container: Mapping[str, Any], state: str) -> Mapping[str, Any] | None:
    """How a container ended, if its time is known."""
    ended = (container.get(state) or {}).get("terminated")
    return ended if ended and ended.get("finishedAt") else None


def _failure(status: Mapping[str, Any]) -> Outcome:
    for condition in status.get("conditions") or []:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return _DISRUPTIONS.get(condition.get("reason", ""), "interrupted")
    return _REASONS.get(status.get("reason") or "", "failed")


def _time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _attempts(job: str, lives: Iterable[PodLife]) -> Iterator[JobAttempt]:
    """A job's pods as attempts, each up to the first failure of one of them."""
    left = sorted(lives, key=lambda life: life.end_at)
    begin_at = 0.0
    breaks = [life for life in left if life.outcome in _BREAKS]
    while breaks:
        first = breaks[0]
        together = [life for life in breaks if life.end_at <= first.end_at + TOGETHER_S]
        breaks = breaks[len(together) :]
        held = [life for life in left if life.begin_at < first.end_at and life.end_at > begin_at]
        if held:
            started = max(begin_at, min(life.begin_at for life in held))
            yield JobAttempt(job, _nodes(held), started, first.end_at, first.outcome, first.blamed)
        begin_at = together[-1].end_at
    rest = [life for life in left if life.end_at > begin_at]
    if rest:
        outcomes = {life.outcome for life in rest}
        outcome: Outcome = "completed"
        if "running" in outcomes:
            outcome = "running"
        elif "cancelled" in outcomes:
            outcome = "cancelled"
        started = max(begin_at, min(life.begin_at for life in rest))
        yield JobAttempt(job, _nodes(rest), started, max(life.end_at for life in rest), outcome)


def _nodes(lives: Iterable[PodLife]) -> tuple[str, ...]:
    return tuple(sorted({life.node for life in lives}))
