"""What a job kind is: how a job becomes objects, and how the job object shows that it has ended."""

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
    """How an object ended; `reason` in the platform's words, "" if it gives none."""

    succeeded: bool
    reason: str


@dataclass(frozen=True)
class JobKind:
    """One kind of job.

    name           the value of the option `kind`
    job_ref        of its job object
    manifest       the objects besides the payload, in the order of creation; the job object is last
    ended          how the job object from the API server ended; None while it has not
    misfits        the system's options that such a job can't have, with the option as `where`
    expected_pods  how many pods a shape becomes, including those that run no rank
    programs       to send with such a job in addition to those of every kind
    spec           what the keeper's spec contains in addition to what it has for every kind
    needs          what must be installed, as text; "" for what every cluster has
    heeds_deletion its controller creates nothing more for an object that is being deleted, so that deletion
                   can wait until everything that belongs to the object is gone
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
    """The ending shown by the object's conditions, if each ending has its own condition."""
    for condition in obj.get("status", {}).get("conditions", ()):
        if condition["status"] == "True" and condition["type"] in (succeeded, failed):
            reason = ": ".join(filter(None, (condition.get("reason", ""), condition.get("message", ""))))
            return Ending(condition["type"] == succeeded, reason)
    return None
