"""`assay schema`: the JSON Schema of suite.yaml and systems.yaml, for editors."""

from __future__ import annotations

from typing import Literal

import click

from assay.cli.options import JSON, echo_json


@click.command()
@click.argument("file", type=click.Choice(["suite", "systems"]))
@JSON
def command(file: Literal["suite", "systems"], as_json: bool) -> None:  # noqa: ARG001 the output is JSON either way
    """Print the JSON Schema of suite.yaml or systems.yaml, so that an editor completes and checks them.

    \b
    Examples:
      assay schema suite > suite.schema.json
      assay schema systems > systems.schema.json
    then, as the first line of suite.yaml, for editors with the YAML language server:
      # yaml-language-server: $schema=suite.schema.json
    """
    from assay.api.schemas import schema

    echo_json(schema(file))
