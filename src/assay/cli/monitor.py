"""`assay monitor`: what Assay knows, for Prometheus."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "up": ("monitor_up", "Run Prometheus and its neighbors on this machine."),
    "export": ("monitor_export", "Serve metrics of runs and results to Prometheus."),
    "fetch": ("monitor_fetch", "Store what a Prometheus has about finished runs."),
    "dashboards": ("monitor_dashboards", "Write dashboards for Grafana."),
    "schedule": ("monitor_schedule", "Print what runs a short suite again and again."),
    "idle": ("monitor_idle", "Check that nothing else uses this machine."),
    "rules": ("monitor_rules", "Print Prometheus' alert rules for these metrics."),
}


@click.group(cls=CommandGroup, modules=COMMANDS)
def command() -> None:
    """Connect runs to Prometheus and Grafana: metrics, alert rules and dashboards.

    \b
    Examples:
      assay monitor up
      assay monitor export
      assay monitor export --textfile /var/lib/node_exporter/assay.prom
      assay monitor rules > assay-rules.yaml
      assay monitor schedule quick.yaml --system lab --every 1h
      assay monitor fetch training --prometheus http://prometheus:9090
      assay monitor dashboards -o /var/lib/grafana/dashboards
    """
