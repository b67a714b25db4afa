"""`assay monitor rules`: alert rules for Prometheus."""

from __future__ import annotations

import click

from assay.cli.options import object_name


@click.command("rules")
@click.option("--kubernetes", is_flag=True, help="As a PrometheusRule object of the Prometheus operator.")
@click.option(
    "--name",
    callback=object_name,
    default="assay",
    show_default=True,
    help="With --kubernetes: the object's name.",
)
def command(kubernetes: bool, name: str) -> None:
    """Print alert rules for what `assay monitor export` and NVIDIA's DCGM exporter serve.

    Each alert names the page that says what it means and what to check. docs/how-to/alerts.md states how
    often each fires without cause.

    \b
    Examples:
      assay monitor rules > /etc/prometheus/rules/assay.yaml
      assay monitor rules --kubernetes | kubectl apply -f -
    """
    from assay.monitor import rules

    click.echo(rules.prometheus_rule(name) if kubernetes else rules.rule_file(), nl=False)
