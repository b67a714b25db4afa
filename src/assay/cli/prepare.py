"""`assay cluster prepare`: show, check, apply and revert what a cluster needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS
from assay.errors import EXIT_INPUT, EXIT_OK, EXIT_WORSE

if TYPE_CHECKING:
    from assay.cluster.components import Preparation
    from assay.cluster.components.component import Platform
    from assay.cluster.prepare import ObjectChange
    from assay.cluster.questions.prepare import ClusterPreparation
    from assay.launch.kubernetes.client import Cluster

Action = Literal["plan", "print", "validate", "apply", "revert", "check"]
ACTIONS: dict[Action, str] = {
    "print": "Print the objects as YAML, for `kubectl apply` or a repository, and do nothing else.",
    "validate": "Check for each object whether the API server would accept it.",
    "apply": "Show the plan, ask, and apply it to the cluster.",
    "revert": "Show what would be removed, ask, and remove it.",
    "check": "Check whether what the parts install is present and ready.",
}
F = TypeVar("F", bound=Callable[..., Any])


def _actions(function: F) -> F:
    for name, help_text in reversed(ACTIONS.items()):
        function = click.option(f"--{name}", f"does_{name}", is_flag=True, help=help_text)(function)
    return function


@click.command()
@click.argument("system")
@SYSTEMS
@click.option(
    "--part",
    "names",
    multiple=True,
    metavar="NAME",
    help="Only this part; repeatable. Default: all parts below `prepare` in SYSTEM, and `pods`.",
)
@click.option(
    "--for",
    "platform",
    type=click.Choice(["kubernetes", "openshift"]),
    help="The kind of cluster. [default: ask the cluster]",
)
@click.option(
    "--rdma", is_flag=True, help="Allow pods to lock memory (IPC_LOCK), which InfiniBand and RoCE require."
)
@_actions
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.option(
    "--restart-nodes",
    is_flag=True,
    help="Agree to OpenShift node settings that drain and restart every node of a pool.",
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
    from assay.cluster.questions import prepare as prepare_question

    action = _action(does)
    if as_json and action in ("apply", "revert") and not yes:
        raise click.UsageError(f"--json can't ask for confirmation: add --yes to --{action}")
    prepared = prepare_question.prepare(
        system, systems=systems_file, part=names, platform=platform, rdma=rdma
    )
    if action == "print":
        _print(prepared.wanted, as_json)
        return
    code = _carry_out(action, prepared, as_json=as_json, yes=yes, may_restart=restart_nodes)
    if prepared.lacks and action in ("plan", "apply") and not as_json:
        click.echo(f"next: add to {system} in the systems file: {prepared.lacks}")
    context.exit(code)


def _action(does: dict[str, bool]) -> Action:
    chosen = [action for action in ACTIONS if does[f"does_{action}"]]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(f'--{action}' for action in chosen)}: use only one of them")
    return chosen[0] if chosen else "plan"


def _print(preparation: Preparation, as_json: bool) -> None:
    from assay.launch.kubernetes.objects.manifests import as_yaml

    objects = [obj for _, obj in preparation.objects()]
    if as_json:
        options.echo_json({"schema": "assay.prepare/1", **_describe_parts(preparation), "objects": objects})
    elif objects:
        click.echo(as_yaml(objects), nl=False)


def _carry_out(
    action: Action, prepared: ClusterPreparation, *, as_json: bool, yes: bool, may_restart: bool
) -> int:
    from assay.cluster.prepare import HINDERS
    from assay.cluster.questions.prepare import refuse_restarts

    if action == "check":
        return _checked(prepared, as_json)
    preparation = prepared.wanted
    steps = prepared.plan(reverting=action == "revert")
    if not as_json:
        _show(prepared.cluster, preparation if action != "revert" else None, steps)
    if action in ("apply", "revert"):
        if not may_restart:
            refuse_restarts(steps)
        if not (yes or not steps):
            click.confirm("Apply?", abort=True)
        steps = prepared.revert() if action == "revert" else prepared.apply()
    if as_json:
        done = {"applied": action == "apply", "reverted": action == "revert"}
        objects = [obj for _, obj in preparation.objects()]
        steps_told = [*map(asdict, steps)]
        options.echo_json(
            {
                "schema": "assay.prepare/1",
                **_describe_parts(preparation),
                **done,
                "steps": steps_told,
                "objects": objects,
            }
        )
    elif action == "plan":
        click.echo("nothing was changed; --apply makes the changes, --print shows the objects")
    refused = action == "validate" and any(step.does in HINDERS for step in steps)
    return EXIT_INPUT if refused else EXIT_OK


def _describe_parts(preparation: Preparation) -> dict[str, Any]:
    parts = [
        {
            "name": part.name,
            "about": part.about,
            "references": [*map(asdict, part.references(preparation.target))],
            "node_files": [*map(asdict, part.node_files(preparation.target))],
        }
        for part in preparation.parts
    ]
    return {
        "platform": preparation.target.platform,
        "namespace": preparation.target.namespace,
        "parts": parts,
    }


def _show(cluster: Cluster, preparation: Preparation | None, steps: Sequence[ObjectChange]) -> None:
    """The steps, and for the parts what people have to do themselves."""
    for part in () if preparation is None else preparation.parts:
        click.echo(f"{part.name}: {part.about}")
        assert preparation is not None
        for reference in part.references(preparation.target):
            if part.sign is not None and part.sign[1] in cluster.kinds(part.sign[0]):
                click.echo(
                    f"  {reference.project} is present: the cluster has {part.sign[1]} of {part.sign[0]}"
                )
            else:
                click.echo(f"  first, {reference.project} ({reference.pin}):\n    {reference.command}")
        for file in part.node_files(preparation.target):
            click.echo(f"  on each node, {file.path}:")
            click.echo("".join(f"    {line}\n" for line in file.text.splitlines()), nl=False)
            click.echo("".join(f"  then {command}\n" for command in file.then), nl=False)
    for step in steps:
        click.echo(f"{step.does:9}{step.called}")
        if step.restarts:
            click.echo(f"         restarts every node of pool {step.pool}, one at a time")
        for line in step.about:
            click.echo(f"         {line}")


def _checked(prepared: ClusterPreparation, as_json: bool) -> int:
    checks = prepared.checks()
    if as_json:
        rows = [{"part": name, **asdict(check)} for name, check in checks]
        options.echo_json({"schema": "assay.prepare/1", **_describe_parts(prepared.wanted), "checks": rows})
    else:
        for name, check in checks:
            click.echo(f"{check.state:8}{name}: {check.name}: {check.evidence}")
            if check.remedy:
                click.echo(f"        {check.remedy}")
    return EXIT_WORSE if any(check.state != "ok" for _, check in checks) else EXIT_OK
