"""The commands of `assay monitor`, as questions."""

from __future__ import annotations

from typing import Final

from assay.registry import CommandTable

COMMANDS: Final = CommandTable(
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
    """,
    {
        "up": ("assay.monitor.questions.up:Up", "Run Prometheus and its neighbors on this machine."),
        "export": (
            "assay.monitor.questions.export:ExportMetrics",
            "Serve metrics of runs and results to Prometheus.",
        ),
        "fetch": (
            "assay.monitor.questions.fetch:FetchTelemetry",
            "Store what a Prometheus has about finished runs.",
        ),
        "dashboards": ("assay.monitor.questions.files:Dashboards", "Write dashboards for Grafana."),
        "schedule": (
            "assay.monitor.questions.schedule:ScheduleSuite",
            "Print what runs a short suite again and again.",
        ),
        "idle": ("assay.monitor.questions.idle:Idleness", "Check that nothing else uses this machine."),
        "rules": ("assay.monitor.questions.files:Rules", "Print Prometheus' alert rules for these metrics."),
    },
)
