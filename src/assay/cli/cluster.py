"""`assay cluster`: what Kubernetes or OpenShift must grant and provide."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from assay.cli import options
from assay.cli.openstack import openstack
from assay.cli.prepare import prepare
from assay.cli.smoke import smoke
from assay.cli.systems import SYSTEMS


@click.group()
def command() -> None:
    """Grant runs on Kubernetes or OpenShift the rights they need, and prepare a cluster for them."""


command.add_command(prepare)
command.add_command(openstack)
command.add_command(smoke)


@command.command()
@click.argument("system", required=False)
@SYSTEMS
@click.option(
    "--doctor",
    is_flag=True,
    help="Also print the read-only rights with which `assay doctor` and provenance report more about the "
    "namespace and cluster. Runs work without them.",
)
@options.JSON
def rbac(system: str | None, systems_file: Path | None, doctor: bool, as_json: bool) -> None:
    """Print the ServiceAccount, Role and RoleBinding that runs on SYSTEM need.

    Each verb is needed for something, and none is cluster-wide. SYSTEM's `kind` and `namespace` apply;
    without SYSTEM, kind auto in the current context's namespace. Sends nothing to the cluster.

    \b
    Examples:
      assay cluster rbac lab | kubectl apply -f -
      kubectl -n bench create token assay --duration 8h     log in with it
      assay cluster rbac lab --json | jq -r '.rights[] | "\\(.verb) \\(.resource): \\(.why)"'

    \b
    Exit codes: 0 printed; 4 no such system, or no kubeconfig that states its namespace.
    """
    from assay.launch.kubernetes.objects.manifests import as_yaml
    from assay.questions.rbac import rbac as granted

    rights = granted(system, systems=systems_file, doctor=doctor)
    if as_json:
        document = {
            "schema": "assay.rbac/1",
            "namespace": rights.namespace,
            "rights": [*map(asdict, rights.needed)],
            "optional": [*map(asdict, rights.optional)],
            "objects": rights.objects,
        }
        options.echo_json(document)
    else:
        click.echo(as_yaml(rights.objects), nl=False)
