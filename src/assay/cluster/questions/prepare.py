"""What a cluster needs before trials run on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError, Problem
from assay.questions.systems import kubernetes_options, on_command_line

if TYPE_CHECKING:
    from os import PathLike

    from assay.checks import Check
    from assay.cluster.components import Preparation
    from assay.cluster.components.component import Component, Platform, PreparationTarget
    from assay.cluster.prepare import ObjectChange
    from assay.launch.kubernetes.client import Cluster
    from assay.launch.kubernetes.options import KubernetesSystem


@dataclass(frozen=True)
class ClusterPreparation:
    """The result of `prepare`: nothing changes before `apply` or `revert`.

    wanted  the parts and their objects
    lacks   what to add to the system so that its pods use the cluster's resources; "" if nothing
    words   how to name the system in a command
    """

    wanted: Preparation
    lacks: str
    words: str

    @cached_property
    def cluster(self) -> Cluster:
        """The connection. Raises PlatformError if it does not answer."""
        from assay.launch.kubernetes.client import connect

        return connect(self.wanted.target.system.context, self.wanted.target.namespace)

    @property
    def parts(self) -> list[str] | None:
        """Names of the parts; None for all of the system's."""
        return None if self.wanted.whole else [*self.wanted.names()]

    def plan(self, *, reverting: bool = False) -> list[ObjectChange]:
        """What `apply`, or `revert`, would do, by the API server's own dry run."""
        from assay.cluster import prepare as work

        return (
            work.revert_plan(self.cluster, self.parts) if reverting else work.plan(self.cluster, self.wanted)
        )

    def apply(self) -> list[ObjectChange]:
        """Apply it to the cluster. Raises InputError, and changes nothing, if a step is blocked."""
        from assay.cluster import prepare as work

        return work.apply(self.cluster, self.wanted)

    def revert(self) -> list[ObjectChange]:
        """Remove what `apply` created."""
        from assay.cluster import prepare as work

        return work.revert(self.cluster, self.parts)

    def checks(self) -> list[tuple[str, Check]]:
        """Whether what the parts install is present and ready: part and check."""
        from assay.checks import for_system
        from assay.cluster.components.requirements import check_all

        return [(part, for_system(check, self.words)) for part, check in check_all(self.cluster, self.wanted)]


def prepare(
    system: str,
    *,
    systems: str | PathLike[str] | None = None,
    part: Sequence[str] = (),
    platform: Platform | None = None,
    rdma: bool = False,
) -> ClusterPreparation:
    """Operators, node settings, storage and rights for a system on Kubernetes, like `assay cluster prepare`.

    systems   the systems file; None: systems.yaml here
    part      only these parts; empty: all of the system, and `pods`
    platform  the kind of cluster; None: ask it
    rdma      allow pods to lock memory, which InfiniBand and RoCE require

    Raises InputError for an unknown system or part, PlatformError if the cluster must be asked and
    does not answer.
    """
    from assay.cluster.components import Preparation
    from assay.launch.kubernetes.objects import pod_security

    written = kubernetes_options(system, systems)
    chosen = pod_security.with_rdma(written) if rdma else written
    target = _target(chosen, platform)
    parts = tuple(
        _completed(component, target, system, systems) for component in _parts(chosen, part, system, systems)
    )
    preparation = Preparation(target, parts, not part)
    _refuse_strangers(preparation)
    podded = preparation.target.is_openshift and "pods" in preparation.names()
    lacks = pod_security.lacks(written, chosen) if podded else ""
    return ClusterPreparation(preparation, lacks, on_command_line(system, systems))


def refuse_restarts(steps: Sequence[ObjectChange]) -> None:
    """Raises InputError if the steps drain and restart nodes."""
    pools = sorted({str(step.pool) for step in steps if step.restarts})
    if pools:
        raise InputError(
            f"nothing was changed: the nodes of pool {', '.join(pools)} would be drained and restarted, one "
            "at a time; add --restart-nodes to allow that, or name the other parts with --part"
        )


def _parts(
    chosen: KubernetesSystem, names: Sequence[str], system: str, file: str | PathLike[str] | None
) -> tuple[Component, ...]:
    """The parts named here, or else those of the system, with the settings in systems.yaml."""
    from assay.cluster.components import PARTS
    from assay.suite import document
    from assay.suite.findings import checked, unknown
    from assay.suite.load import FILE_NAME

    written = document.read(Path(file or FILE_NAME))
    problems = [
        Problem(written.where(system, "prepare", name), f"{system}.prepare: {unknown('part', name, PARTS)}")
        for name in chosen.prepare
        if name not in PARTS
    ]
    problems += [Problem("--part", unknown("part", name, PARTS)) for name in names if name not in PARTS]
    chosen_names = names or ("pods", *chosen.prepare)
    components = []
    for name, part in PARTS.items():
        if name in chosen_names:
            keys = (system, "prepare", name)
            component, wrong = checked(part, chosen.prepare.get(name) or {}, written.where, keys)
            problems += wrong
            components += [] if component is None else [component]
    if problems:
        raise InputError(problems)
    return tuple(components)


def _completed(
    part: Component, target: PreparationTarget, system: str, file: str | PathLike[str] | None
) -> Component:
    """The part with what its options name in files: only a scheduled suite names one."""
    from assay.cluster.components.scheduled_suite import QuickSuite
    from assay.cluster.cron_job import part_objects
    from assay.suite.load import FILE_NAME

    if not isinstance(part, QuickSuite):
        return part
    path = Path(file or FILE_NAME)
    return part.completed(lambda options: part_objects(options, system, path, target.namespace))


def _target(system: KubernetesSystem, platform: Platform | None) -> PreparationTarget:
    """The cluster is asked only for what is not stated here."""
    from assay.cluster.components.component import PreparationTarget
    from assay.launch.kubernetes.client import connect
    from assay.launch.kubernetes.objects.pod_security import is_openshift

    namespace = system.namespace or connect(system.context).namespace
    if platform is None:
        platform = "openshift" if is_openshift(connect(system.context, namespace)) else "kubernetes"
    return PreparationTarget(platform, namespace, system)


def _refuse_strangers(preparation: Preparation) -> None:
    platform = preparation.target.platform
    strangers = [part.name for part in preparation.parts if platform not in part.platforms]
    if strangers:
        raise InputError(
            f"{', '.join(strangers)}: not for {platform}; omit it, or state the platform with --for"
        )
