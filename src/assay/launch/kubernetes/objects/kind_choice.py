"""Which kind of job a launcher sends for each shape: the system's, or what `kind: auto` selects."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from assay.errors import InputError
from assay.launch.kubernetes.client import Cluster
from assay.launch.kubernetes.objects.kinds import KINDS, JobKind
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError
from assay.records import Shape

Offers = Container[tuple[str, str]]
"""What a cluster knows and this user may create: API version and plural, like ("batch/v1", "jobs")."""

BUILT_IN: Offers = frozenset({("batch/v1", "jobs"), ("v1", "services")})
"""What every cluster offers; assumed by a dry run without a cluster."""

PLAINEST_FIRST = ("pod", "job", "jobset", "trainjob", "pytorchjob", "mpijob")


class KindChoices:
    """wanted: the option `kind`."""

    def __init__(self, setting: str) -> None:
        self.setting = setting
        self._choices: dict[Shape, tuple[JobKind, str]] = {}

    def kind(self, shape: Shape) -> JobKind:
        """The kind that a job of this shape is sent as."""
        return (self._choices.get(shape) or choose(self.setting, shape))[0]

    def ask(self, shape: Shape, cluster: Cluster) -> str:
        """Let the cluster decide, for `auto`. Returns its choice and the reason, once for each answer.

        If the cluster does not say what it offers, or says that it offers nothing, the kinds that every
        cluster offers are assumed; its refusals then carry its own words. Raises ApiUnreachableError.
        """
        if shape in self._choices:
            return ""
        known_reasons = [why for _, why in self._choices.values()]
        try:
            kind, why = choose(self.setting, shape, CreatableKinds(cluster))
        except ApiUnreachableError:
            raise
        except (ApiError, InputError) as error:
            kind, why = choose(self.setting, shape)
            why = f"{why} (assumed: {error})"
        self._choices[shape] = kind, why
        return "" if why in known_reasons else self._words(why)

    def comment(self, shape: Shape) -> str:
        """The comment above a manifest whose kind was chosen; "" if the kind was requested."""
        if self.setting != "auto":
            return ""
        if shape in self._choices:
            return f"# {self._words(self._choices[shape][1])}\n"
        choice = self._words(choose(self.setting, shape)[1])
        return f"# {choice} (assumed: what every cluster offers; this one was not queried)\n"

    @staticmethod
    def _words(why: str) -> str:
        return f"kind: auto selects {why}"


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


@dataclass(frozen=True)
class CreatableKinds:
    """`("batch/v1", "jobs") in CreatableKinds(cluster)`: the cluster knows it, and this user may create it.

    Raises ApiError if the cluster does not answer.
    """

    cluster: Cluster

    def __contains__(self, kind: object) -> bool:
        match kind:
            case (str(api_version), str(plural)):
                group = api_version.rpartition("/")[0]
                known = plural in self.cluster.kinds(api_version).values()
                return known and self.cluster.may("create", plural, group=group)
            case _:
                return False
