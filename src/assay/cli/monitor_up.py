"""`assay monitor up`: Prometheus and its neighbors on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.monitor_export import DEFAULT_ADDRESS
from assay.cli.options import JSON, RUNS, duration, echo_json


@click.command("up")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("assay-monitoring"),
    show_default=True,
    help="Configuration, data and logs.",
)
@click.option(
    "--prometheus", type=click.Path(path_type=Path), metavar="BIN", help="Else the one on the path."
)
@click.option(
    "--alertmanager-config",
    "alertmanager_config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where alerts go, in Alertmanager's form; else it shows them and sends none.",
)
@click.option(
    "--listen", metavar="HOST:PORT", default=DEFAULT_ADDRESS, show_default=True, help="Our exporter."
)
@click.option("--every", callback=duration, default="15s", show_default=True, help="Time between scrapes.")
@click.option("--hold", callback=duration, metavar="TIME", help="How long every alert must hold to fire.")
@JSON
@RUNS
def command(
    directory: Path,
    prometheus: Path | None,
    alertmanager_config: Path | None,
    listen: str,
    every: float,
    hold: float | None,
    as_json: bool,
    runs_dir: Path,
) -> None:
    """Run Prometheus with Assay's metrics and alert rules until Ctrl-C, for one machine without monitoring.

    Alertmanager, node exporter and Grafana run too if they are installed. Everything listens on the loopback
    address, on the usual port or, if that is taken, another one. Ctrl-C ends everything; the data stays in
    the directory, and the next start goes on with it.

    \b
    Examples:
      assay monitor up
      assay monitor up --dir /data/monitoring --every 5s
      assay monitor up --alertmanager-config alertmanager.yaml --hold 10s

    \b
    Exit codes: 4 a time, address or file is invalid; 5 Prometheus is not installed, or a program does not
    start or has ended; 6 the directory is in use; 130 stopped by Ctrl-C.
    """
    from assay.questions.monitoring_stack import follow, monitoring_stack

    with monitoring_stack(
        directory,
        runs=runs_dir,
        listen=listen,
        prometheus=prometheus,
        every=every,
        hold=hold,
        alertmanager_config=alertmanager_config,
    ) as running:
        if as_json:
            echo_json(running.document())
        else:
            for name, url in running.urls.items():
                click.echo(f"{name:15} {url}")
            for name, source in running.missing.items():
                click.echo(f"{name:15} not installed: {source}")
            click.echo(f"Runs until Ctrl-C; data and logs are in {directory}.")
        follow(running)
