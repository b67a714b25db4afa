"""`assay cluster prepare`: what a cluster is given, shown, checked, brought and taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS, on_command_line, on_kubernetes
from assay.errors import EXIT_INPUT, EXIT_OK, EXIT_WORSE, InputError, Problem

if TYPE_CHECKING:
    from assay.cluster.components import Preparation
    from assay.cluster.components.part import Part, Platform, Target
    from assay.cluster.prepare import Step
    from assay.launch.kubernetes.client import Cluster
    from assay.launch.kubernetes.options import KubernetesSystem

Action = Literal["plan", "print", "validate", "apply", "revert", "check"]
ACTIONS: dict[Action, str] = {
    "print": "Print the objects as YAML, for `kubectl apply` or a repository, and do nothing else.",
    "validate": "Say of each object whether the API server would take it.",
    "apply": "Show the plan, ask, and bring it to the cluster.",
    "revert": "Show what would be taken back, ask, and take it back.",
    "check": "Say whether what the parts bring is there and ready.",
}
F = TypeVar("F", bound=Callable[..., Any])


def _actions(function: F) -> F:
    for name, words in reversed(ACTIONS.items()):
        function = click.option(f"--{name}", f"does_{name}", is_flag=True, help=words)(function)
    return function


@click.command()
@click.argument("system")
@SYSTEMS
@click.option(
    "--part",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this part; repeatable. By default all that stand below `prepare` in SYSTEM, and `pods`.",
)
@click.option(
    "--for",
    "platform",
    type=click.Choice(["kubernetes", "openshift"]),
    help="What the cluster is; by default it is asked.",
)
@click.option(
    "--rdma", is_flag=True, help="Allow pods to lock memory (IPC_LOCK), as InfiniBand and RoCE need."
)
@_actions
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option(
    "--restart-nodes",
    is_flag=True,
    help="Agree to node settings of OpenShift, for which every node of a pool is drained and restarted.",
)
@options.JSON
@click.pass_context
def prepare(
    context: click.Context,
    /,
    system: str,
    systems_file: Path | None,
    names: tuple[str, ...],
    platform: Platform | None,
    rdma: bool,
    yes: bool,
    restart_nodes: bool,
    as_json: bool,
    **does: bool,
) -> None:
    """Prepare a cluster for SYSTEM: operators, node settings, storage, and what its pods may do.

    Shows what would change, by the API server's own dry run. --apply brings it by server-side apply with
    field manager `assay`; where a field belongs to another manager with another value, or the server refuses
    one object, nothing at all is changed. --revert deletes what --apply made and gives up what it added to
    what was there; a namespace that holds others' pods or claims stays. Needs rights over the cluster.

    \b
    Examples:
      assay cluster prepare lab                        what would change
      assay cluster prepare lab --part gpu-operator --print
      assay cluster prepare lab --apply --yes
      assay cluster prepare lab --check                are the parts ready?
      assay cluster prepare lab --revert

    \b
    Exit codes: 0 done; 1 --check: something is missing; 2 wrong usage; 4 no such system or part, or a field
    is another's, or the server refuses; 5 the cluster does not answer; 130 the answer was no.
    """
    from assay.cluster.components import Preparation
    from assay.launch.kubernetes import openshift
    from assay.launch.kubernetes.connection import connect

    action = _action(does)
    if as_json and action in ("apply", "revert") and not yes:
        raise click.UsageError(f"--json can't ask: add --yes to --{action}")
    written = on_kubernetes(system, systems_file)
    chosen = openshift.with_rdma(written) if rdma else written
    wanted = Preparation(_target(chosen, platform), _parts(chosen, names, system, systems_file), not names)
    _refuse_strangers(wanted)
    if action == "print":
        _print(wanted, as_json)
        return
    cluster = connect(chosen.context, wanted.target.namespace)
    words = on_command_line(system, systems_file)
    code = _carry_out(action, cluster, wanted, words, as_json=as_json, yes=yes, may_restart=restart_nodes)
    lacks = (
        openshift.lacks(written, chosen) if wanted.target.is_openshift and "pods" in wanted.names() else ""
    )
    if lacks and action in ("plan", "apply") and not as_json:
        click.echo(f"next: write into {system} of the systems' file: {lacks}")
    context.exit(code)


def _action(does: dict[str, bool]) -> Action:
    given = [action for action in ACTIONS if does[f"does_{action}"]]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(f'--{action}' for action in given)}: say one of them")
    return given[0] if given else "plan"


def _parts(
    chosen: KubernetesSystem, names: tuple[str, ...], system: str, file: Path | None
) -> tuple[Part, ...]:
    """The parts named here, else those of the system, as systems.yaml has them set."""
    from assay.cluster.components import PARTS
    from assay.suite import document
    from assay.suite.findings import checked, unknown
    from assay.suite.systems import FILE_NAME

    written = document.read(file or Path(FILE_NAME))
    problems = [
        Problem(written.where(system, "prepare", name), f"{system}.prepare: {unknown('part', name, PARTS)}")
        for name in chosen.prepare
        if name not in PARTS
    ]
    problems += [Problem("--part", unknown("part", name, PARTS)) for name in names if name not in PARTS]
    wanted = names or ("pods", *chosen.prepare)
    made = []
    for name, part in PARTS.items():
        if name in wanted:
            at = (system, "prepare", name)
            one, wrong = checked(part, chosen.prepare.get(name) or {}, written.where, at)
            problems += wrong
            made += [] if one is None else [one]
    if problems:
        raise InputError(problems)
    return tuple(made)


def _target(system: KubernetesSystem, platform: Platform | None) -> Target:
    """The cluster is asked only for what is not said here."""
    from assay.cluster.components.part import Target
    from assay.launch.kubernetes.connection import connect
    from assay.launch.kubernetes.openshift_detection import is_openshift

    namespace = system.namespace or connect(system.context).namespace
    if platform is None:
        platform = "openshift" if is_openshift(connect(system.context, namespace)) else "kubernetes"
    return Target(platform, namespace, system)


def _refuse_strangers(wanted: Preparation) -> None:
    platform = wanted.target.platform
    strangers = [part.name for part in wanted.parts if platform not in part.platforms]
    if strangers:
        raise InputError(
            f"{', '.join(strangers)}: not for {platform}; leave it out, or say what it is with --for"
        )


def _print(wanted: Preparation, as_json: bool) -> None:
    from assay.launch.kubernetes.manifests import as_yaml

    objects = [obj for _, obj in wanted.objects()]
    if as_json:
        options.echo_json({"schema": "assay.prepare/1", **_told(wanted), "objects": objects})
    elif objects:
        click.echo(as_yaml(objects), nl=False)


def _carry_out(
    action: Action,
    cluster: Cluster,
    wanted: Preparation,
    words: str,
    *,
    as_json: bool,
    yes: bool,
    may_restart: bool,
) -> int:
    from assay.cluster import prepare as work

    if action == "check":
        return _checked(cluster, wanted, words, as_json)
    parts = None if wanted.whole else wanted.names()
    steps = work.revert_plan(cluster, parts) if action == "revert" else work.plan(cluster, wanted)
    if not as_json:
        _show(cluster, wanted if action != "revert" else None, steps)
    if action in ("apply", "revert"):
        if not may_restart:
            _refuse_restarts(steps)
        if not (yes or not steps):
            click.confirm("do it?", abort=True)
        steps = work.revert(cluster, parts) if action == "revert" else work.apply(cluster, wanted)
    if as_json:
        done = {"applied": action == "apply", "reverted": action == "revert"}
        objects = [obj for _, obj in wanted.objects()]
        steps_told = [*map(asdict, steps)]
        options.echo_json(
            {"schema": "assay.prepare/1", **_told(wanted), **done, "steps": steps_told, "objects": objects}
        )
    elif action == "plan":
        click.echo("nothing was changed: --apply does it, --print shows the objects")
    refused = action == "validate" and any(step.does in work.HINDERS for step in steps)
    return EXIT_INPUT if refused else EXIT_OK


def _refuse_restarts(steps: Sequence[Step]) -> None:
    pools = sorted({str(step.pool) for step in steps if step.restarts})
    if pools:
        raise InputError(
            f"nothing was changed: the nodes of pool {', '.join(pools)} would be drained and restarted, one "
            "after the other; add --restart-nodes where that is meant, or name the other parts with --part"
        )


def _told(wanted: Preparation) -> dict[str, Any]:
    parts = [
        {
            "name": part.name,
            "about": part.about,
            "references": [*map(asdict, part.references(wanted.target))],
            "node_files": [*map(asdict, part.node_files(wanted.target))],
        }
        for part in wanted.parts
    ]
    return {"platform": wanted.target.platform, "namespace": wanted.target.namespace, "parts": parts}


def _show(cluster: Cluster, wanted: Preparation | None, steps: Sequence[Step]) -> None:
    """The steps, and with the parts what people have to do themselves."""
    for part in () if wanted is None else wanted.parts:
        click.echo(f"{part.name}: {part.about}")
        assert wanted is not None
        for reference in part.references(wanted.target):
            if part.sign is not None and part.sign[1] in cluster.kinds(part.sign[0]):
                click.echo(f"  {reference.of} is there: the cluster has {part.sign[1]} of {part.sign[0]}")
            else:
                click.echo(f"  first, {reference.of} ({reference.pin}):\n    {reference.command}")
        for file in part.node_files(wanted.target):
            click.echo(f"  on each node, {file.path}:")
            click.echo("".join(f"    {line}\n" for line in file.text.splitlines()), nl=False)
            click.echo("".join(f"  then {command}\n" for command in file.then), nl=False)
    for step in steps:
        click.echo(f"{step.does:9}{step.called}")
        if step.restarts:
            click.echo(f"         restarts every node of pool {step.pool}, one after the other")
        for line in step.about:
            click.echo(f"         {line}")


def _checked(cluster: Cluster, wanted: Preparation, words: str, as_json: bool) -> int:
    from assay.checks.check import for_system
    from assay.cluster.components.requirements import check_all

    found = [(part, for_system(one, words)) for part, one in check_all(cluster, wanted)]
    if as_json:
        rows = [{"part": name, **asdict(one)} for name, one in found]
        options.echo_json({"schema": "assay.prepare/1", **_told(wanted), "checks": rows})
    else:
        for name, one in found:
            click.echo(f"{one.state:8}{name}: {one.name}: {one.evidence}")
            if one.remedy:
                click.echo(f"        {one.remedy}")
    return EXIT_WORSE if any(one.state != "ok" for _, one in found) else EXIT_OK
