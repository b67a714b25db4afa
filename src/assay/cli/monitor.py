"""`assay monitor`: what Assay knows, for Prometheus."""

from __future__ import annotations

import click

from assay.cli.command_group import CommandGroup

COMMANDS = {
    "up": ("assay.cli.monitor_up:command", "Run Prometheus and its neighbors on this machine."),
    "export": ("assay.cli.monitor_export:command", "Serve metrics of runs and results to Prometheus."),
    "fetch": ("assay.cli.monitor_fetch:command", "Store what a Prometheus has about finished runs."),
    "dashboards": ("assay.cli.monitor_dashboards:command", "Write dashboards for Grafana."),
    "schedule": ("assay.cli.monitor_schedule:command", "Print what runs a short suite again and again."),
    "idle": ("assay.cli.monitor_idle:command", "Check that nothing else uses this machine."),
    "rules": ("assay.cli.monitor_rules:command", "Print Prometheus' alert rules for these metrics."),
}


@click.group(cls=CommandGroup, commands=COMMANDS)
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
