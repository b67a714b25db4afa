"""`assay monitor dashboards`: dashboards for Grafana."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.options import object_name


@click.command("dashboards")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the JSON files.  [default: dashboards]",
)
@click.option("--kubernetes", is_flag=True, help="Print ConfigMaps for Grafana's sidecar instead.")
@click.option("--namespace", callback=object_name, default="", help="With --kubernetes: theirs.")
def command(output: Path | None, kubernetes: bool, namespace: str) -> None:
    """Write dashboards for Grafana: GPUs, one run, fabric, results and verdicts, two runs, the DCGM exporter.

    \b
    Examples:
      assay monitor dashboards -o /var/lib/grafana/dashboards
      assay monitor dashboards --kubernetes --namespace monitoring | kubectl apply -f -
    """
    from assay.durable import deliver
    from assay.monitor.dashboards import config_maps, dashboards

    if kubernetes:
        if output is not None:
            raise click.UsageError("--kubernetes prints, so it has no --output")
        click.echo(config_maps(namespace), nl=False)
        return
    if namespace:
        raise click.UsageError("--namespace needs --kubernetes")
    for name, text in dashboards().items():
        path = (output or Path("dashboards")) / f"assay-{name}.json"
        deliver(path, text.encode(), option="--output")
        click.echo(path)
