"""What a job kind is: how a job becomes its objects, and how such an object says that it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from assay.errors import Problem
from assay.launch.kubernetes.order import LABEL_TOKEN, Manifest, Order
from assay.records import Shape


class JobRef(NamedTuple):
    """Where the API server keeps objects of a kind."""

    api_version: str
    kind: str
    plural: str


class Ending(NamedTuple):
    """How an object says that it has ended; `reason` as the platform words it, "" where it gives none."""

    succeeded: bool
    reason: str


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    name           as the option `kind` has it
    job_ref        of its job object
    manifest       the objects beside the payload in the order in which they are made; the job object is last
    ended          of the job object as the API server gives it: how it ended, None while it has not
    misfits        the system's options that such a job can't have, with the option as `where`
    expected_pods  how many pods a shape becomes, those included that run no rank
    programs       that travel with such a job beside those of every kind
    spec           what the keeper's spec has beside what it has for every kind
    needs          what has to be installed, in words; "" for what every cluster has
    heeds_deletion its controller makes nothing more for an object that is being deleted, so that one can wait
                   until all that belongs to the object is gone before it is
    """

    name: str
    job_ref: JobRef
    manifest: Callable[[Order], list[Manifest]]
    ended: Callable[[Mapping[str, Any]], Ending | None]
    expected_pods: Callable[[Shape], int]
    misfits: Callable[[Order], Iterable[Problem]] = lambda _order: ()
    programs: tuple[str, ...] = ()
    spec: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    heeds_deletion: bool = True

    @staticmethod
    def pods(token: str) -> str:
        """Label selector of a job's pods, and of every other object of it."""
        return f"{LABEL_TOKEN}={token}"


def ended_by_condition(obj: Mapping[str, Any], succeeded: str, failed: str) -> Ending | None:
    """The ending that the object's conditions tell, where each ending has a condition of its own."""
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in (succeeded, failed):
            said = ": ".join(filter(None, (condition.get("reason", ""), condition.get("message", ""))))
            return Ending(condition["type"] == succeeded, said)
    return None
