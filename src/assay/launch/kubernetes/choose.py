"""Which kind of job `kind: auto` selects. Pure."""

from __future__ import annotations

from collections.abc import Container

from assay.errors import InputError
from assay.launch.kubernetes.kinds import KINDS, JobKind
from assay.records import Shape

Offers = Container[tuple[str, str]]
"""What a cluster knows and this user may create: API version and plural, like ("batch/v1", "jobs")."""

BUILT_IN: Offers = frozenset({("batch/v1", "jobs"), ("v1", "services")})
"""What every cluster offers; assumed by a dry run without a cluster."""

PLAINEST_FIRST = ("pod", "job", "jobset", "trainjob", "pytorchjob", "mpijob")


def choose(setting: str, shape: Shape, offered: Offers = BUILT_IN) -> tuple[JobKind, str]:
    """The kind of job and the reason, for people.

    auto picks the kind with the fewest components between Assay and the ranks: every controller in between
    can be late, and whatever it adds to a pod is one more difference between two systems. All kinds start
    the same programs in the same way.

    Raises InputError if the cluster offers no suitable kind.
    """
    if setting != "auto":
        return KINDS[setting], f"{setting}: requested"
    if shape.workers == 1 and _has(offered, "pod"):
        return KINDS["pod"], "pod: one worker needs only a Job"
    if _has(offered, "job") and ("v1", "services") in offered:
        return KINDS["job"], "job: several workers need no operator, only an Indexed Job and a Service"
    for name in PLAINEST_FIRST[2:]:
        if _has(offered, name):
            return (
                KINDS[name],
                f"{name}: this user can't create Jobs with a Service here, but {KINDS[name].needs} is "
                "installed",
            )
    raise InputError(
        "kind: auto: this cluster offers no kind of job that this user may create: "
        f"grant create on one of {', '.join(dict.fromkeys(kind.job_ref.plural for kind in KINDS.values()))}"
    )


def _has(offered: Offers, name: str) -> bool:
    ref = KINDS[name].job_ref
    return (ref.api_version, ref.plural) in offered
