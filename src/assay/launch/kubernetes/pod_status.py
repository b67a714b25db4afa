"""What a pod's status says: about the container that runs ranks, and when things happened. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from assay.launch.kubernetes.objects.payload import PROGRAM_DIR

Object = Mapping[str, Any]


def rank_container(pod: Object) -> str:
    """The name of the container that mounts the programs sent with the job; kinds name it differently."""
    containers = pod["spec"]["containers"]
    return str(next(filter(_mounts_programs, containers), containers[0])["name"])


def rank_status(pod: Object) -> Object:
    """What the kubelet reports about that container; empty before it reports anything."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return next((status for status in statuses if status["name"] == rank_container(pod)), {})


def has_begun(pod: Object) -> bool:
    """Whether that container runs or ran, so that it has a log."""
    return not rank_status(pod).get("state", {}).keys().isdisjoint(("running", "terminated"))


def _mounts_programs(container: Object) -> bool:
    return any(mount["mountPath"] == PROGRAM_DIR for mount in container.get("volumeMounts", ()))


def moment(stamp: str | None) -> float | None:
    """A time of the API, `2026-11-21T08:00:00Z`, in seconds since the epoch; None if there is none."""
    return None if not stamp else datetime.fromisoformat(stamp).timestamp()


def deleted_at(obj: Object) -> float | None:
    """When an object's deletion was first requested, in seconds since the epoch; None if that is unknown.

    True of the object right after that: when its grace time is cut short, the API server changes both fields.
    """
    ends_at = moment(obj["metadata"].get("deletionTimestamp"))
    return None if ends_at is None else ends_at - obj["metadata"].get("deletionGracePeriodSeconds", 0)


def phase_times(pod: Object, events: Iterable[Object], ranks_at: float | None) -> dict[str, float]:
    """Seconds that a pod spent until its ranks ran: `queue_s`, `pull_s`, `start_s`; absent where unknown.

    queue  from its creation until a node was found
    pull   while its image was pulled; 0 if the node already had it
    start  from then until the ranks ran: volumes, sandbox, container, keeper, probe

    The API reports whole seconds, so each is exact to a second.
    """
    created = moment(pod["metadata"].get("creationTimestamp"))
    conditions = {c["type"]: c for c in pod.get("status", {}).get("conditions", ())}
    placed = conditions.get("PodScheduled", {})
    placed_at = moment(placed.get("lastTransitionTime")) if placed.get("status") == "True" else None
    phases: dict[str, float] = {}
    if created is not None and placed_at is not None:
        phases["queue_s"] = max(placed_at - created, 0.0)
    pulled_s = _pull_s(pod["metadata"]["uid"], events)
    if pulled_s is not None:
        phases["pull_s"] = pulled_s
    if placed_at is not None and ranks_at is not None:
        phases["start_s"] = round(max(ranks_at - placed_at - (pulled_s or 0.0), 0.0), 3)
    return phases


def _pull_s(uid: str, events: Iterable[Object]) -> float | None:
    begun = ended = None
    for event in events:
        if event["involvedObject"].get("uid") != uid:
            continue
        occurred_at = moment(event.get("firstTimestamp") or event.get("eventTime"))
        if event["reason"] == "Pulling":
            begun = occurred_at
        elif event["reason"] == "Pulled":
            if "already present" in event.get("message", ""):
                return 0.0
            ended = occurred_at
    return None if begun is None or ended is None else max(ended - begun, 0.0)
