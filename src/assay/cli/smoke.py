"""`assay cluster smoke`: the smallest pods that use a GPU and an RDMA device, printed and checked."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli import options
from assay.cli.systems import SYSTEMS


@click.command()
@click.argument("system", required=False)
@SYSTEMS
@click.option(
    "--validate", is_flag=True, help="Also check with the API server's dry run whether it accepts them."
)
@options.JSON
def smoke(system: str | None, systems_file: Path | None, validate: bool, as_json: bool) -> None:
    """Print the smoke-test pods of SYSTEM: add a vector on a GPU, list and open the RDMA devices.

    They have the system's own options, and request one unit of the cluster's resource for the device.
    Nothing is sent; `assay doctor SYSTEM --deep` runs those whose device the cluster offers.

    \b
    Examples:
      assay cluster smoke lab
      assay cluster smoke lab --validate --json

    \b
    Exit codes: 0 printed; 4 no such system; 5 the cluster can't be reached, or rejects a pod.
    """
    import sys

    from assay.errors import EXIT_ENVIRONMENT, EXIT_OK
    from assay.questions.rbac import smoke as smoke_pods

    pods = smoke_pods(system, systems=systems_file, validate=validate)
    refused = [f"{pod.name}: {refusal}" for pod in pods for refusal in pod.refusals]
    if as_json:
        shown = [{"name": pod.name, "manifests": pod.manifests} for pod in pods]
        options.echo_json(
            {"schema": "assay.smoke/1", "validated": validate, "pods": shown, "refused": refused}
        )
    else:
        click.echo("---\n".join(pod.manifests for pod in pods), nl=False)
        for line in refused:
            click.echo(f"# rejected: {line}")
    sys.exit(EXIT_ENVIRONMENT if refused else EXIT_OK)
