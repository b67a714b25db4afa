"""`assay cluster smoke`: the smallest pods that use a GPU and an RDMA device, shown and checked."""

from __future__ import annotations

from pathlib import Path

import click

from assay.api.systems import kubernetes_options
from assay.cli import options
from assay.cli.systems import SYSTEMS


@click.command()
@click.argument("system", required=False)
@SYSTEMS
@click.option(
    "--validate", is_flag=True, help="Also ask the API server, by its dry run, whether it takes them."
)
@options.JSON
def smoke(system: str | None, systems_file: Path | None, validate: bool, as_json: bool) -> None:
    """Print the smoke pods of SYSTEM: a vector added on a GPU, the RDMA devices listed and opened.

    They have the system's own options, and one of the resource by which the cluster gives the device.
    Nothing is sent; `assay doctor SYSTEM --deep` runs those whose device the cluster announces.

    \b
    Examples:
      assay cluster smoke lab
      assay cluster smoke lab --validate --json

    \b
    Exit codes: 0 printed; 4 no such system; 5 the cluster can't be asked, or refuses one.
    """
    import sys
    import tempfile

    from assay.errors import EXIT_ENVIRONMENT, EXIT_OK
    from assay.launch.kubernetes.doctor import smoke as pods
    from assay.launch.kubernetes.doctor.look import look
    from assay.launch.kubernetes.launcher import KubernetesLauncher

    shown, refused = [], []
    for chosen, job in pods.jobs(look(kubernetes_options(system, systems_file))):
        with tempfile.TemporaryDirectory() as spool:
            launcher = KubernetesLauncher(chosen, Path(spool))
            launcher.choose(job.shape)
            shown.append({"name": job.trial_id, "manifests": launcher.render(job).command})
            told = launcher.check(job) if validate else ()
            refused += [
                f"{job.trial_id}: {one.part}: {one.refusal}" for one in told if one.refusal is not None
            ]
    if as_json:
        document = {"schema": "assay.smoke/1", "validated": validate, "pods": shown, "refused": refused}
        options.echo_json(document)
    else:
        click.echo("---\n".join(one["manifests"] for one in shown), nl=False)
        for line in refused:
            click.echo(f"# refused: {line}")
    sys.exit(EXIT_ENVIRONMENT if refused else EXIT_OK)
