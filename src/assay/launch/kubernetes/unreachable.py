"""Why ranks that waited for each other in vain did so although all pods of the job ran. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.launch.kubernetes.causes import Cause
from assay.launch.kubernetes.members import holds
from assay.launch.kubernetes.rank_container import has_begun, rank_status
from assay.launch.kubernetes.times import moment

Object = Mapping[str, Any]


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
        holds(labels.get(requirement["key"]), requirement)
        for requirement in selector.get("matchExpressions") or ()
    )
