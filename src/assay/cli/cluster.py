"""`assay cluster`: what has to be granted on Kubernetes or OpenShift."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS, on_kubernetes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.cluster.prepare import Step
    from assay.launch.kubernetes.options import KubernetesSystem


@click.group()
def command() -> None:
    """Grant what runs on Kubernetes or OpenShift need, and no more."""


@command.command()
@click.argument("system", required=False)
@SYSTEMS
@click.option(
    "--doctor",
    is_flag=True,
    help="Also the rights, read-only, by which `assay doctor` and provenance tell more of namespace and "
    "cluster. A run does without.",
)
@options.JSON
def rbac(system: str | None, systems_file: Path | None, doctor: bool, as_json: bool) -> None:
    """Print the ServiceAccount, Role and RoleBinding that runs on SYSTEM need.

    Something fails without each verb, and none is cluster-wide. SYSTEM's `kind` and `namespace` count;
    without SYSTEM, kind auto in the current context's namespace. Asks the cluster nothing.

    \b
    Examples:
      assay cluster rbac lab | kubectl apply -f -
      kubectl -n bench create token assay --duration 8h     log in with it
      assay cluster rbac lab --json | jq -r '.rights[] | "\\(.verb) \\(.resource): \\(.why)"'

    \b
    Exit codes: 0 printed; 4 no such system, or no kubeconfig that says its namespace.
    """
    from assay.cluster import rbac
    from assay.launch.kubernetes.manifests import as_yaml

    chosen = on_kubernetes(system, systems_file)
    namespace = _namespace(chosen)
    made = rbac.objects(chosen.kind, namespace, doctor=doctor)
    if as_json:
        told = (*rbac.TOLD_IN_NAMESPACE, *rbac.TOLD_OF_CLUSTER) if doctor else ()
        rights = {"rights": [*map(asdict, rbac.needed(chosen.kind))], "optional": [*map(asdict, told)]}
        options.echo_json({"schema": "assay.rbac/1", "namespace": namespace, **rights, "objects": made})
    else:
        click.echo(as_yaml(made), nl=False)


@command.command()
@click.argument("system")
@SYSTEMS
@click.option(
    "--for",
    type=click.Choice(["openshift"]),
    required=True,
    expose_value=False,
    help="What the cluster is; Kubernetes itself asks for no preparation.",
)
@click.option(
    "--rdma", is_flag=True, help="Allow pods to lock memory (IPC_LOCK), as InfiniBand and RoCE need."
)
@click.option("--apply", "does_apply", is_flag=True, help="Bring it to the cluster.")
@click.option("--revert", "does_revert", is_flag=True, help="Take back what --apply brought.")
@options.JSON
def prepare(
    system: str, systems_file: Path | None, rdma: bool, does_apply: bool, does_revert: bool, as_json: bool
) -> None:
    """Prepare a cluster for SYSTEM's pods: namespace, ServiceAccount, security constraints.

    Prints what would be sent and, by the API server's dry run, what would change. --apply brings it by
    server-side apply with field manager `assay`; where a field belongs to another manager with another
    value, nothing is changed and the owner is named. --revert deletes what --apply made and gives up what it
    added to what was there; a namespace that holds pods or claims stays. Needs rights over the cluster.

    \b
    Examples:
      assay cluster prepare --for openshift --rdma lab            what would change
      assay cluster prepare --for openshift --rdma lab --apply
      assay cluster prepare --for openshift lab --revert

    \b
    Exit codes: 0 done; 2 wrong usage; 4 no such system, or a field is another's; 5 the cluster refuses.
    """
    from assay.cluster import openshift
    from assay.cluster import prepare as work
    from assay.launch.kubernetes.connection import connect
    from assay.launch.kubernetes.manifests import as_yaml

    if does_apply and does_revert:
        raise click.UsageError("--apply and --revert: say one of them")
    written = on_kubernetes(system, systems_file)
    chosen = openshift.with_rdma(written) if rdma else written
    cluster = connect(chosen.context, chosen.namespace)
    objects = openshift.objects(chosen, cluster.namespace)
    if does_revert:
        steps = work.revert(cluster)
    else:
        steps = (work.apply if does_apply else work.plan)(cluster, objects)
    if as_json:
        done = {"applied": does_apply, "reverted": does_revert, "steps": [*map(asdict, steps)]}
        options.echo_json({"schema": "assay.prepare/1", **done, "objects": objects})
        return
    if not (does_apply or does_revert):
        click.echo(as_yaml(objects))
    _show(steps)
    lacks = openshift.lacks(written, chosen)
    if lacks and not does_revert:
        click.echo(f"# next: write into {system} of systems.yaml: {lacks}")
    if not (does_apply or does_revert):
        click.echo("# nothing was changed; add --apply to do so")


def _show(steps: Sequence[Step]) -> None:
    """As comments, so that what is printed stays YAML."""
    for step in steps:
        click.echo(f"# {step.does:9}{step.called}")
        for line in step.about:
            click.echo(f"#          {line}")


def _namespace(system: KubernetesSystem) -> str:
    from assay.launch.kubernetes.connection import connect

    return system.namespace or connect(system.context).namespace
