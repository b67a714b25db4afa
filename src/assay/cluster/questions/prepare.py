"""What a cluster needs before trials run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from assay.checks import Check, for_system
from assay.cluster import prepare as work
from assay.cluster.components import PARTS, Preparation
from assay.cluster.components.component import Component, Platform, PreparationTarget
from assay.cluster.components.requirements import check_all
from assay.cluster.components.scheduled_suite import QuickSuite
from assay.cluster.cron_job import part_objects
from assay.cluster.prepare import HINDERS, ObjectChange
from assay.errors import EXIT_INPUT, EXIT_OK, EXIT_WORSE, InputError, Problem
from assay.launch.kubernetes.client import Cluster, connect
from assay.launch.kubernetes.objects import pod_security
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.options import KubernetesSystem
from assay.questions.question import Answer, Question, argument, function, option, question, supplied
from assay.questions.systems import kubernetes_options, on_command_line
from assay.questions.values import File
from assay.suite import document
from assay.suite.findings import checked, unknown
from assay.suite.load import FILE_NAME
from assay.view.blocks import Block, Paragraph, Verbatim

Action = Literal["plan", "print", "validate", "apply", "revert", "check"]


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
        return connect(self.wanted.target.system.context, self.wanted.target.namespace)

    @property
    def parts(self) -> list[str] | None:
        """Names of the parts; None for all of the system's."""
        return None if self.wanted.whole else [*self.wanted.names()]

    def plan(self, *, reverting: bool = False) -> list[ObjectChange]:
        """What `apply`, or `revert`, would do, by the API server's own dry run."""
        return (
            work.revert_plan(self.cluster, self.parts) if reverting else work.plan(self.cluster, self.wanted)
        )

    def apply(self) -> list[ObjectChange]:
        """Apply it to the cluster. Raises InputError, and changes nothing, if a step is blocked."""
        return work.apply(self.cluster, self.wanted)

    def revert(self) -> list[ObjectChange]:
        """Remove what `apply` created."""
        return work.revert(self.cluster, self.parts)

    def checks(self) -> list[tuple[str, Check]]:
        """Whether what the parts install is present and ready: part and check."""
        return [(part, for_system(check, self.words)) for part, check in check_all(self.cluster, self.wanted)]


@question
class PrepareCluster(Question):
    """Prepare a cluster for SYSTEM: operators, node settings, storage, and rights of its pods.

    Shows what would change, by the API server's own dry run. --apply uses server-side apply with
    field manager `assay`; if another manager owns a field with a different value, or the server rejects
    an object, nothing at all is changed. --revert deletes what --apply created and removes what it added to
    existing objects; a namespace with others' pods or claims stays. Requires admin rights for the cluster.

    \b
    Examples:
      assay cluster prepare lab                        what would change
      assay cluster prepare lab --part gpu-operator --print
      assay cluster prepare lab --apply --yes
      assay cluster prepare lab --check                are the parts ready?
      assay cluster prepare lab --revert

    \b
    Exit codes: 0 done; 1 --check: something is missing; 2 usage error; 4 no such system or part, or a field
    belongs to another manager, or the server rejects something; 5 the cluster does not answer; 130 declined.
    """

    system: str = argument()
    systems: File | None = option("File with the system.  [default: systems.yaml here]", default=None)
    part: tuple[str, ...] = option(
        "Only this part; repeatable. Default: all parts below `prepare` in SYSTEM, and `pods`.",
        default=(),
        metavar="NAME",
    )
    platform: Platform | None = option(
        "The kind of cluster. [default: ask the cluster]", default=None, names=("--for",)
    )
    rdma: bool = option(
        "Allow pods to lock memory (IPC_LOCK), which InfiniBand and RoCE require.", default=False
    )
    print: bool = option(
        "Print the objects as YAML, for `kubectl apply` or a repository, and do nothing else.",
        default=False,
        output=True,
    )
    validate: bool = option(
        "Check for each object whether the API server would accept it.", default=False, output=True
    )
    apply: bool = option("Show the plan, ask, and apply it to the cluster.", default=False, output=True)
    revert: bool = option("Show what would be removed, ask, and remove it.", default=False, output=True)
    check: bool = option(
        "Check whether what the parts install is present and ready.", default=False, output=True
    )
    yes: bool = option("Don't ask for confirmation.", default=False, output=True)
    restart_nodes: bool = option(
        "Agree to OpenShift node settings that drain and restart every node of a pool.",
        default=False,
        output=True,
    )
    show: Callable[[Answer], None] | None = supplied("preview", default=None)
    confirm: Callable[[str], None] | None = supplied("consent", default=None)

    def __post_init__(self) -> None:
        if len(chosen := self._actions()) > 1:
            raise ValueError(f"{' and '.join(f'--{action}' for action in chosen)}: use only one of them")

    def _actions(self) -> list[Action]:
        every: tuple[Action, ...] = ("print", "validate", "apply", "revert", "check")
        return [action for action in every if getattr(self, action)]

    def answer(self) -> PreparedObjects | PartChecks | ClusterChanges:
        """The objects, what is ready, or what changes; nothing changes without consent."""
        action: Action = next(iter(self._actions()), "plan")
        prepared = self.prepared()
        if action == "print":
            return PreparedObjects(prepared.wanted)
        if action == "check":
            return PartChecks(prepared.wanted, prepared.checks())
        changes = ClusterChanges(self.system, prepared, action, prepared.plan(reverting=self.revert))
        if action not in ("apply", "revert"):
            return changes
        if self.show is not None:
            self.show(changes)
        if not self.restart_nodes:
            refuse_restarts(changes.steps)
        if changes.steps and self.confirm is not None:
            self.confirm("Apply?")
        return replace(changes, steps=prepared.revert() if self.revert else prepared.apply(), done=True)

    def prepared(self) -> ClusterPreparation:
        """Operators, node settings, storage and rights for the system; nothing is changed.

        Raises InputError for an unknown system or part, PlatformError if the cluster must be asked and
        does not answer.
        """
        written = kubernetes_options(self.system, self.systems)
        chosen = pod_security.with_rdma(written) if self.rdma else written
        target = _target(chosen, self.platform)
        parts = tuple(
            _completed(component, target, self.system, self.systems)
            for component in _parts(chosen, self.part, self.system, self.systems)
        )
        preparation = Preparation(target, parts, not self.part)
        _refuse_strangers(preparation)
        podded = preparation.target.is_openshift and "pods" in preparation.names()
        lacks = pod_security.lacks(written, chosen) if podded else ""
        return ClusterPreparation(preparation, lacks, on_command_line(self.system, self.systems))


prepare = function(PrepareCluster, PrepareCluster.prepared)


@dataclass(frozen=True)
class PreparedObjects(Answer):
    """The objects of the parts."""

    preparation: Preparation

    def view(self) -> Iterator[Block]:
        """The objects as YAML."""
        if objects := _objects(self.preparation):
            yield Verbatim(as_yaml(objects))

    def document(self) -> dict[str, Any]:
        """The parts and their objects."""
        return {**_describe_parts(self.preparation), "objects": _objects(self.preparation)}


@dataclass(frozen=True)
class PartChecks(Answer):
    """Whether what the parts install is present and ready: part and check."""

    preparation: Preparation
    checks: Sequence[tuple[str, Check]]

    @property
    def exit_code(self) -> int:
        """1 if something is missing."""
        return EXIT_WORSE if any(check.state != "ok" for _, check in self.checks) else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Each check with its evidence, and what to do."""
        for name, check in self.checks:
            yield Paragraph(f"{check.state:8}{name}: {check.name}: {check.evidence}", wraps=False)
            if check.remedy:
                yield Paragraph(f"        {check.remedy}", wraps=False)

    def document(self) -> dict[str, Any]:
        """The parts and the checks."""
        rows = [{"part": name, **asdict(check)} for name, check in self.checks]
        return {**_describe_parts(self.preparation), "checks": rows}


@dataclass(frozen=True)
class ClusterChanges(Answer):
    """What would change, or was changed."""

    system: str
    prepared: ClusterPreparation
    action: Action
    steps: Sequence[ObjectChange]
    done: bool = False

    @property
    def exit_code(self) -> int:
        """4 if the API server would refuse something that is to be validated."""
        refused = self.action == "validate" and any(step.does in HINDERS for step in self.steps)
        return EXIT_INPUT if refused else EXIT_OK

    def view(self) -> Iterator[Block]:
        """Before it is done: what people have to do themselves, and the steps; then what is left to do."""
        if not self.done:
            yield from (Paragraph(line, wraps=False) for line in self._lines())
        if self.action == "plan":
            yield Paragraph("nothing was changed; --apply makes the changes, --print shows the objects")
        if self.prepared.lacks and (self.action == "plan" or (self.action == "apply" and self.done)):
            what = f"add to {self.system} in the systems file: {self.prepared.lacks}"
            yield Paragraph(f"next: {what}", wraps=False)

    def _lines(self) -> Iterator[str]:
        target = self.prepared.wanted.target
        for part in () if self.action == "revert" else self.prepared.wanted.parts:
            yield f"{part.name}: {part.about}"
            for reference in part.references(target):
                if part.sign is not None and part.sign[1] in self.prepared.cluster.kinds(part.sign[0]):
                    kind = f"{part.sign[1]} of {part.sign[0]}"
                    yield f"  {reference.project} is present: the cluster has {kind}"
                else:
                    yield f"  first, {reference.project} ({reference.pin}):\n    {reference.command}"
            for file in part.node_files(target):
                yield f"  on each node, {file.path}:"
                yield from (f"    {line}" for line in file.text.splitlines())
                yield from (f"  then {command}" for command in file.then)
        for step in self.steps:
            yield f"{step.does:9}{step.called}"
            if step.restarts:
                yield f"         restarts every node of pool {step.pool}, one at a time"
            yield from (f"         {line}" for line in step.about)

    def document(self) -> dict[str, Any]:
        """The parts, the steps and the objects."""
        return {
            **_describe_parts(self.prepared.wanted),
            "applied": self.action == "apply",
            "reverted": self.action == "revert",
            "steps": [*map(asdict, self.steps)],
            "objects": _objects(self.prepared.wanted),
        }


def _objects(preparation: Preparation) -> list[Any]:
    return [obj for _, obj in preparation.objects()]


def _describe_parts(preparation: Preparation) -> dict[str, Any]:
    target = preparation.target
    parts = [
        {
            "name": part.name,
            "about": part.about,
            "references": [*map(asdict, part.references(target))],
            "node_files": [*map(asdict, part.node_files(target))],
        }
        for part in preparation.parts
    ]
    schema = "assay.prepare/1"
    return {"schema": schema, "platform": target.platform, "namespace": target.namespace, "parts": parts}


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
    if not isinstance(part, QuickSuite):
        return part
    path = Path(file or FILE_NAME)
    return part.completed(lambda options: part_objects(options, system, path, target.namespace))


def _target(system: KubernetesSystem, platform: Platform | None) -> PreparationTarget:
    """The cluster is asked only for what is not stated here."""
    namespace = system.namespace or connect(system.context).namespace
    if platform is None:
        platform = (
            "openshift" if pod_security.is_openshift(connect(system.context, namespace)) else "kubernetes"
        )
    return PreparationTarget(platform, namespace, system)


def _refuse_strangers(preparation: Preparation) -> None:
    platform = preparation.target.platform
    strangers = [part.name for part in preparation.parts if platform not in part.platforms]
    if strangers:
        raise InputError(
            f"{', '.join(strangers)}: not for {platform}; omit it, or state the platform with --for"
        )
