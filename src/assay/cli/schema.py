"""`assay schema`: what may stand in suite.yaml and systems.yaml, for editors."""

from __future__ import annotations

import click

from assay.cli.options import JSON, echo_json


@click.command()
@click.argument("file", type=click.Choice(["suite", "systems"]))
@JSON
def command(file: str, as_json: bool) -> None:  # noqa: ARG001 it is JSON either way
    """Print the JSON Schema of suite.yaml or systems.yaml, so that an editor completes and checks them.

    \b
    Examples:
      assay schema suite > suite.schema.json
      assay schema systems > systems.schema.json
    then, as the first line of suite.yaml, for editors with the YAML language server:
      # yaml-language-server: $schema=suite.schema.json
    """
    from assay.launch import SYSTEM_MODELS
    from assay.suite.schema import suite_schema, systems_schema
    from assay.workloads import WORKLOADS

    if file == "systems":
        from assay.cluster.components import PARTS

        echo_json(systems_schema(SYSTEM_MODELS, PARTS))
        return
    models = {name: workload.params for name, workload in WORKLOADS.items()}
    echo_json(suite_schema(models, {name: workload.about for name, workload in WORKLOADS.items()}))
